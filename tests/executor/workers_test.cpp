// How many threads of a rank work on one call.
#include <catch2/catch.hpp>

#include <condition_variable>
#include <mutex>
#include <set>

#include "executor/collective.h"

namespace tutti::test {
namespace {

// The threads of one rank that send. Each waits until so many of them are here at once: one thread alone, which must
// have sent before it goes on, never brings another one.
class Meeting {
 public:
  explicit Meeting(size_t wanted) : wanted_(wanted) {}

  void come() {
    std::unique_lock lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    came_.notify_all();
    came_.wait_for(lock, std::chrono::seconds(10), [this] { return threads_.size() >= wanted_ || is_over_; });
    is_over_ = true;  // who has waited in vain has done so once
  }
  size_t threads() {
    std::lock_guard lock(mutex_);
    return threads_.size();
  }

 private:
  const size_t wanted_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::set<std::thread::id> threads_;
  bool is_over_ = false;
};

// A link whose senders come to the meeting.
class MeetingLink final : public Link {
 public:
  MeetingLink(std::unique_ptr<Link> inner, Meeting& meeting) : inner_(std::move(inner)), meeting_(meeting) {}

  Result<PutResult> put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice at, const Line& line,
                        int channel) override {
    meeting_.come();
    return inner_->put(to, from, at, line, channel);
  }
  Result<PutResult> signal(RemoteSlice at, const Line& line) override {
    meeting_.come();
    return inner_->signal(at, line);
  }

  int peer() const override { return inner_->peer(); }
  LinkTraits traits() const override { return inner_->traits(); }
  Result<Progress> connect(std::span<const std::byte> address) override { return inner_->connect(address); }
  std::string connect_report() const override { return inner_->connect_report(); }
  Status share(const LocalMemory& memory) override { return inner_->share(memory); }
  const RemoteMemory* find(uint32_t id) override { return inner_->find(id); }
  Status pull(std::span<std::byte> to, uint64_t from) override { return inner_->pull(to, from); }
  Status push(std::span<const std::byte> from, uint64_t to) override { return inner_->push(from, to); }
  Status poll(uint64_t* puts_completed) override { return inner_->poll(puts_completed); }
  bool needs_poll() const override { return inner_->needs_poll(); }
  bool has_pending() const override { return inner_->has_pending(); }
  void arm(WaitSet& waits) override { inner_->arm(waits); }
  void disarm() override { inner_->disarm(); }
  bool begin_access() noexcept override { return inner_->begin_access(); }
  bool end_access() noexcept override { return inner_->end_access(); }
  bool is_accessed() const noexcept override { return inner_->is_accessed(); }
  void abort() noexcept override { inner_->abort(); }

 private:
  std::unique_ptr<Link> inner_;
  Meeting& meeting_;
};

class MeetingTransport final : public Transport {
 public:
  MeetingTransport(std::unique_ptr<Transport> inner, Meeting& meeting) : inner_(std::move(inner)), meeting_(meeting) {}

  std::unique_ptr<Link> open(int peer) override {
    return std::make_unique<MeetingLink>(inner_->open(peer), meeting_);
  }

  std::string_view name() const override { return inner_->name(); }
  std::optional<LinkTraits> reach(const Inventory& self, const Inventory& peer, bool same_process) const override {
    return inner_->reach(self, peer, same_process);
  }
  Status listen() override { return inner_->listen(); }
  Blob address() const override { return inner_->address(); }
  Result<const LocalMemory*> export_memory(std::span<std::byte> memory, int fd,
                                           std::shared_ptr<const void> owner) override {
    return inner_->export_memory(memory, fd, std::move(owner));
  }
  void release(const LocalMemory* memory) override { inner_->release(memory); }

 private:
  std::unique_ptr<Transport> inner_;
  Meeting& meeting_;
};

}  // namespace

TEST_CASE("as many threads of each rank as it has workers carry out one call, at the same time") {
  constexpr int kRanks = 2;
  const std::string over = GENERATE("loopback", "shm");
  const int workers = GENERATE(1, 2, 3);
  const Memory memory = GENERATE(Memory::kOrdinary, Memory::kShared);
  const Case which{.algorithm = find_algorithm(TUTTI_ALL_REDUCE, "direct_two_shot"),
                   .collective = TUTTI_ALL_REDUCE,
                   .nranks = kRanks,
                   .channels = workers,
                   .count = 300'000,
                   .memory = memory};
  INFO(which.text() << " over " << over);
  const Plan plan = plan_for(which);
  const Fabric inner = fabric(over);
  std::vector<std::unique_ptr<Meeting>> meetings;
  for (int rank = 0; rank < kRanks; ++rank) meetings.push_back(std::make_unique<Meeting>(workers));
  Ranks ranks({.nranks = kRanks, .channels = workers, .slots = 4, .slot_bytes = 1024},
              [&](const TransportContext& context) -> std::unique_ptr<Transport> {
                return std::make_unique<MeetingTransport>(inner.make(context), *meetings[context.rank]);
              });
  std::vector<std::unique_ptr<Buffers>> buffers;
  for (int rank = 0; rank < kRanks; ++rank) {
    buffers.push_back(std::make_unique<Buffers>(ranks[rank], room_for(which)));
    ranks[rank].share_with(workers - 1);
  }
  auto statuses = ranks.each([&](int rank) {
    return run_call(ranks[rank], plan, programs_of(plan, rank), *buffers[rank], which, 0);
  });
  for (const Status& status : statuses) CHECK(status.message() == "");
  for (const auto& meeting : meetings) CHECK(meeting->threads() == static_cast<size_t>(workers));
}

}  // namespace tutti::test
