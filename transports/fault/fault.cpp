#include "transports/fault/fault.h"

#include <sys/eventfd.h>

#include <deque>
#include <random>

#include "base/check.h"
#include "base/fd.h"
#include "transports/common/mapped.h"

namespace tutti {
namespace {

constexpr size_t kMostHeld = 16;

// A put or signal on its way.
struct Order {
  enum class Kind : uint8_t { kPut, kSignal, kSignalSoon };
  Kind kind = Kind::kPut;
  RemoteSlice to;
  std::span<const std::byte> from;
  RemoteSlice signal;
  Line line;
  int channel = kNoChannel;  // of a put

  bool is_put() const { return kind == Kind::kPut; }
};

class FaultLink final : public Link {
 public:
  FaultLink(std::unique_ptr<Link> inner, const Faults& faults, uint64_t seed)
      : inner_(std::move(inner)),
        faults_(faults),
        random_(seed),
        always_ready_(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  ~FaultLink() override {
    while (healthy() && !held_.empty() && release_one()) {
    }
  }

  int peer() const override { return inner_->peer(); }
  LinkTraits traits() const override { return inner_->traits(); }
  std::string_view carried_by() const override { return inner_->carried_by(); }
  Result<Progress> connect(std::span<const std::byte> peer_address) override { return inner_->connect(peer_address); }
  std::string connect_report() const override { return inner_->connect_report(); }
  Status share(const LocalMemory& memory) override { return inner_->share(memory); }
  const RemoteMemory* find(uint32_t id) override { return id == taken_back_ ? nullptr : inner_->find(id); }
  void land_in(uint64_t at, std::span<std::byte> memory) override { inner_->land_in(at, memory); }
  void land_no_more(uint64_t at) override { inner_->land_no_more(at); }
  void divert(const Line& signal, uint64_t number, std::span<std::byte> place) override {
    inner_->divert(signal, number, place);
  }
  bool divert_no_more(const Line& signal) override { return inner_->divert_no_more(signal); }

  Result<PutResult> put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line,
                        int channel) override {
    if (!healthy() || !put_problem(to, from.size()).empty() || !signal_problem(signal).empty()) {
      return inner_->put(to, from, signal, line, channel);
    }
    if (is_full()) {
      if (faults_.takes_back) taken_back_ = to.memory->id;
      return PutResult::kFull;
    }
    Order order{.kind = Order::Kind::kPut, .to = to, .from = from, .signal = signal, .line = line, .channel = channel};
    uint64_t number = ++puts_;
    if (number == faults_.drop_put) return ++dropped_, PutResult::kDone;
    if (number == faults_.truncate_put) order.from = from.first(from.size() / 2);
    return pass_or_hold(order);
  }

  std::byte* stage(size_t size_bytes, int channel) override { return inner_->stage(size_bytes, channel); }
  Result<PutResult> signal(RemoteSlice signal, const Line& line) override {
    return give({.kind = Order::Kind::kSignal, .to = {}, .from = {}, .signal = signal, .line = line});
  }
  Result<PutResult> signal_soon(RemoteSlice at, const Line& line) override {
    return give({.kind = Order::Kind::kSignalSoon, .to = {}, .from = {}, .signal = at, .line = line});
  }
  void begin_batch() override { inner_->begin_batch(); }
  void end_batch() override { inner_->end_batch(); }

  Status pull(std::span<std::byte> to, uint64_t from) override { return inner_->pull(to, from); }
  Status push(std::span<const std::byte> from, uint64_t to) override { return inner_->push(from, to); }

  Status poll(uint64_t* puts_completed) override {
    if (hold_left_ > 0) --hold_left_;
    while (hold_left_ == 0 && !held_.empty() && release_one()) {
    }
    Status status = inner_->poll(puts_completed);
    if (!status.ok()) failed_ = true;
    *puts_completed += dropped_;
    return status;
  }

  bool needs_poll() const override { return true; }
  bool has_pending() const override { return !held_.empty() || inner_->has_pending(); }

  void arm(WaitSet& waits) override {
    inner_->arm(waits);
    if (!held_.empty()) waits.add(always_ready_.get(), POLLIN);  // only polling gets them out
    storm_left_ = 0;
    armed_ = true;
  }
  void disarm() override {
    inner_->disarm();
    armed_ = false;
  }
  bool begin_access() noexcept override {
    bool begun = inner_->begin_access();
    if (begun) ++accesses_;
    return begun;
  }
  bool end_access() noexcept override {
    TUTTI_CHECK(accesses_-- > 0);  // what was refused is not ended
    return inner_->end_access();
  }
  bool is_accessed() const noexcept override { return inner_->is_accessed(); }
  void tell_cpu(int cpu) noexcept override { inner_->tell_cpu(cpu); }
  int peer_cpu() const noexcept override { return inner_->peer_cpu(); }
  void abort() noexcept override {
    aborted_.store(true);
    inner_->abort();
  }

 private:
  bool healthy() const { return !failed_ && !aborted_.load(); }
  bool chance(double probability) {
    return probability > 0 && std::uniform_real_distribution<>()(random_) < probability;
  }

  // What is full while the caller goes to sleep has been so when it armed: no storm begins in between.
  bool is_full() {
    if (storm_left_ == 0 && !armed_ && chance(faults_.full_chance)) storm_left_ = faults_.full_storm;
    if (storm_left_ > 0) return --storm_left_, true;
    return held_.size() == kMostHeld;
  }

  Result<PutResult> give(const Order& signal) {
    if (!healthy() || !signal_problem(signal.signal).empty()) return pass(signal);
    if (is_full()) return PutResult::kFull;
    return pass_or_hold(signal);
  }

  Result<PutResult> pass_or_hold(const Order& order) {
    if (++orders_ == faults_.kill) inner_->abort();
    if (held_.empty() && !chance(faults_.hold_chance)) {
      auto result = pass(order);
      // It counts as not made: nothing was taken.
      if (result.ok() && *result == PutResult::kFull) {
        --orders_;
        if (order.is_put()) --puts_;
      }
      return result;
    }
    if (held_.empty()) hold_left_ = std::uniform_int_distribution<>(1, faults_.hold_polls)(random_);
    held_.push_back(order);
    return PutResult::kDone;
  }

  Result<PutResult> pass(const Order& order) {
    switch (order.kind) {
      case Order::Kind::kPut: return inner_->put(order.to, order.from, order.signal, order.line, order.channel);
      case Order::Kind::kSignal: return inner_->signal(order.signal, order.line);
      case Order::Kind::kSignalSoon: break;
    }
    return inner_->signal_soon(order.signal, order.line);
  }

  // The oldest goes on its way. False: not now.
  bool release_one() {
    auto result = pass(held_.front());
    if (!result.ok() || *result == PutResult::kFull) return false;  // the inner poll() tells the error
    held_.pop_front();
    return true;
  }

  std::unique_ptr<Link> inner_;
  const Faults faults_;
  std::mt19937_64 random_;
  Fd always_ready_;
  std::deque<Order> held_;     // in order; nothing overtakes
  int hold_left_ = 0;          // polls until the oldest may go
  int storm_left_ = 0;
  uint32_t taken_back_ = 0;    // memory of the peer; 0: none
  bool armed_ = false;
  uint64_t puts_ = 0;
  uint64_t orders_ = 0;        // puts and signals
  uint64_t dropped_ = 0;
  bool failed_ = false;
  std::atomic<bool> aborted_{false};
  std::atomic<int> accesses_{0};  // begun and not ended
};

class FaultTransport final : public Transport {
 public:
  FaultTransport(std::unique_ptr<Transport> inner, const Faults& faults) : inner_(std::move(inner)), faults_(faults) {}

  std::string_view name() const override { return inner_->name(); }
  std::optional<LinkTraits> reach(const Inventory& self, const Inventory& peer, bool same_process) const override {
    return inner_->reach(self, peer, same_process);
  }
  Status listen() override { return inner_->listen(); }
  Blob address() const override { return inner_->address(); }
  void place(const HostPlace& own) override { inner_->place(own); }
  Result<const LocalMemory*> export_memory(std::span<std::byte> memory, int fd,
                                           std::shared_ptr<const void> owner) override {
    return inner_->export_memory(memory, fd, std::move(owner));
  }
  void release(const LocalMemory* memory) override { inner_->release(memory); }
  bool takes_device_memory() const override { return inner_->takes_device_memory(); }
  const LocalMemory* export_device_memory(const DeviceMemory& memory) override {
    return inner_->export_device_memory(memory);
  }
  Status use(const LocalMemory* memory) override { return inner_->use(memory); }
  void hold(const LocalMemory* memory) override { inner_->hold(memory); }
  void let_go(const LocalMemory* memory) override { inner_->let_go(memory); }
  std::unique_ptr<Link> open(int peer) override {
    return std::make_unique<FaultLink>(inner_->open(peer), faults_,
                                       faults_.seed * 1'000'003 + static_cast<uint64_t>(peer));
  }

 private:
  std::unique_ptr<Transport> inner_;
  const Faults faults_;
};

}  // namespace

std::unique_ptr<Transport> make_fault_transport(std::unique_ptr<Transport> inner, const Faults& faults) {
  return std::make_unique<FaultTransport>(std::move(inner), faults);
}

}  // namespace tutti
