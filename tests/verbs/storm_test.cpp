// Two ranks in threads of their own that sleep when there is nothing to do, while lanes fail at any time.
#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <thread>

#include "verbs/faked.h"
#include "verbs/gpu_memory.h"

namespace tutti::test {
namespace {

constexpr uint64_t kRounds = 30;
constexpr uint64_t kMessages = 60;
constexpr const char* kDevices[] = {"", "fake0,fake0,fake1,fake1", "fake0"};
constexpr size_t kWindow = 8 << 20;
constexpr uint64_t kPlaces = 4;
constexpr size_t kMostBytes = 300'000;
constexpr uint64_t kAcks = 32 * 64;        // the line that says how much this rank's peer has received
constexpr uint64_t kData = 64 << 10;
constexpr uint64_t kSources = 4 << 20;

uint64_t place_of(uint64_t turn) { return kData + turn % kPlaces * (kMostBytes + 64); }

std::vector<std::byte> content_of(int from, uint64_t turn, uint64_t seed) {
  constexpr size_t kSizes[] = {0, 8, 152, 153, 10'000, 20'000, 64 << 10, (64 << 10) + 1, kMostBytes};
  uint64_t random = (seed * 1000 + turn) * 2 + static_cast<uint64_t>(from);
  return pattern(kSizes[random * 6364136223846793005u >> 33 & 7], random);
}

class Rank {
 public:
  // `theirs`: the peer's memory of a GPU as this rank knows it; null: nothing goes there.
  Rank(std::atomic<int>& over, Job& job, std::array<GpuMemory, 2>& gpus, const RemoteMemory* theirs, int rank,
       uint64_t seed)
      : over_(over),
        link_(job.link(rank, 1 - rank)),
        job_(job),
        gpus_(gpus),
        theirs_(theirs),
        rank_(rank),
        seed_(seed) {}

  Status run() {
    bool has_told = false;
    while (over_ < 2) {
      // Who is in no call sends nothing again: it stays until the other one has all.
      if (!has_told && is_over()) has_told = true, ++over_;
      if (has_told) {
        TUTTI_TRY(link_.poll(&completed_));
        std::this_thread::yield();
        continue;
      }
      if (TUTTI_TRY(step())) continue;
      WaitSet waits;
      link_.arm(waits);
      waits.fence();
      TUTTI_TRY(link_.poll(&completed_));
      bool moved = TUTTI_TRY(step()) || is_over();
      bool woken = moved || waits.sleep(static_cast<int>(kPatienceMs));
      link_.disarm();
      if (!woken) {
        return error(Code::kTimeout, "rank {} sleeps: {} sent, {} of them received, {} received, {} of them told of",
                     rank_, sent_, acked(), received_, told_);
      }
    }
    return {};
  }

 private:
  uint64_t acked() const { return counter_of(job_.window(rank_).line(kAcks)); }
  bool is_over() const {
    return received_ == kMessages && told_ == kMessages && acked() == kMessages && !link_.has_pending();
  }
  Result<bool> step() {
    TUTTI_TRY(link_.poll(&completed_));
    bool moved = TUTTI_TRY(receive());
    if (told_ < received_) {
      auto told = link_.signal(job_.slice(rank_, 1 - rank_, kAcks), Line{{received_}});
      if (!told.ok()) return told.status();
      if (*told == PutResult::kDone) told_ = received_, moved = true;
    }
    if (sent_ < kMessages && sent_ - acked() < kPlaces) moved = TUTTI_TRY(send()) || moved;
    return moved;
  }
  Result<bool> receive() {
    uint64_t turn = received_ + 1;
    if (counter_of(job_.window(rank_).line(turn % 16 * 64)) != turn) return false;
    auto content = content_of(1 - rank_, turn, seed_);
    std::byte* at = is_to_gpu(turn) ? gpus_[rank_].contents(static_cast<ptrdiff_t>(place_of(turn)))
                                    : job_.window(rank_).at(place_of(turn));
    if (!std::equal(content.begin(), content.end(), at)) {
      return error(Code::kInternal, "rank {}: message {} of {} bytes is wrong", rank_, turn, content.size());
    }
    std::fill_n(at, content.size(), std::byte{0xA5});
    received_ = turn;
    return true;
  }
  Result<bool> send() {
    uint64_t turn = sent_ + 1;
    if (turn > 4 && completed_ < turn - 4) return false;
    if (composed_ < turn) {
      auto content = content_of(rank_, turn, seed_);
      size_ = content.size();
      from_ = nullptr;
      if (turn % 3 == 0) from_ = link_.stage(size_, kNoChannel);
      std::byte* registered = job_.window(rank_).at(kSources + turn % 4 * (kMostBytes + 64));
      if (from_ == nullptr) from_ = turn % 2 == 0 ? registered : ordinary_.data() + turn % 4 * (kMostBytes + 64);
      if (turn % 5 < 2) {
        uint64_t offset = kSources + turn % 4 * (kMostBytes + 64);
        std::copy(content.begin(), content.end(), gpus_[rank_].contents(static_cast<ptrdiff_t>(offset)));
        from_ = gpus_[rank_].bytes().data() + offset;
      } else {
        std::copy(content.begin(), content.end(), from_);
      }
      composed_ = turn;
    }
    RemoteSlice to = job_.slice(rank_, 1 - rank_, place_of(turn));
    if (is_to_gpu(turn)) to.memory = theirs_;
    auto sent = link_.put(to, {from_, size_},
                          job_.slice(rank_, 1 - rank_, turn % 16 * 64), Line{{turn}});
    if (!sent.ok()) return sent.status();
    if (*sent == PutResult::kDone) sent_ = turn;
    return *sent == PutResult::kDone;
  }

  bool is_to_gpu(uint64_t turn) const { return turn % 7 < 3 && theirs_ != nullptr; }

  std::atomic<int>& over_;
  Link& link_;
  Job& job_;
  std::array<GpuMemory, 2>& gpus_;
  const RemoteMemory* theirs_;
  const int rank_;
  const uint64_t seed_;
  uint64_t sent_ = 0, received_ = 0, told_ = 0, completed_ = 0, composed_ = 0;
  std::byte* from_ = nullptr;
  size_t size_ = 0;
  std::vector<std::byte> ordinary_ = std::vector<std::byte>(4 * (kMostBytes + 64));
};

// From now on, again and again, a request fails or is refused.
class Trouble {
 public:
  Trouble(Fake& fake, uint64_t seed, uint64_t most_requests, bool cuts)
      : thread_([=, this, &fake] {
          std::mt19937_64 random(seed);
          while (!is_over_) {
            FakeFaults faults;
            if (random() % 2 == 0) faults.failing_request = 1 + random() % most_requests, faults.failing_status = 12;
            else faults.refused_request = 1 + random() % most_requests;
            if (cuts && random() % 4 == 0) faults.cut_device = random() % 2 == 0 ? "fake0" : "fake1";
            fake.verbs->set_faults(faults);
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
          }
        }) {}
  ~Trouble() {
    is_over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

using Gpus = std::array<GpuMemory, 2>;

std::vector<Status> run_both(Job& job, Gpus& gpus, const std::array<const RemoteMemory*, 2>& theirs, uint64_t seed) {
  std::atomic<int> over{0};
  return on_threads(2, [&](int rank) -> Status {
    Status status = Rank(over, job, gpus, theirs[rank], rank, seed).run();
    if (!status.ok()) job.link(rank, 1 - rank).abort();
    return status;
  });
}

// What each rank knows of the other one's memory of a GPU; null where one does not know it.
std::array<const RemoteMemory*, 2> share(Job& job, Gpus& gpus) {
  std::array<uint32_t, 2> ids{};
  for (int rank : {0, 1}) {
    const LocalMemory* exported = job.node(rank).transport->export_device_memory(gpus[rank]);
    job.node(rank).transport->hold(exported);
    (void)job.link(rank, 1 - rank).share(*exported);
    ids[rank] = exported->id;
  }
  std::array<const RemoteMemory*, 2> theirs{};
  for (int i = 0; i < 20; ++i) {
    uint64_t ignored = 0;
    for (int rank : {0, 1}) {
      check_ok(job.link(rank, 1 - rank).poll(&ignored));
      theirs[rank] = job.link(rank, 1 - rank).find(ids[1 - rank]);
    }
  }
  if (theirs[0] == nullptr || theirs[1] == nullptr) return {};
  return theirs;
}

}  // namespace

TEST_CASE("ranks that sleep lose nothing, and do not hang, whenever lanes fail") {
  for (uint64_t seed = 1; seed <= kRounds; ++seed) {
    INFO("seed " << seed);
    Fake fake;
    Gpus gpus = {GpuMemory(kWindow), GpuMemory(kWindow, 0)};
    Job job(verbs_with({.device = kDevices[seed % 3], .goes_over_tcp = true}), 2, kWindow);
    check_ok(job.status());
    bool is_refused = seed % 4 == 0;
    if (is_refused) fake.verbs->set_faults({.dma_buf_error = EOPNOTSUPP});
    auto theirs = share(job, gpus);
    CHECK((theirs[0] == nullptr) == is_refused);
    Trouble trouble(fake, seed, 40, false);
    check_all_ok(run_both(job, gpus, theirs, seed));
    CHECK(fake.counts().mistakes == 0);
  }
}

TEST_CASE("two ends that join while requests fail give up together, or have a link that loses nothing") {
  uint64_t joined = 0;
  for (uint64_t seed = 1; seed <= kRounds; ++seed) {
    INFO("seed " << seed);
    Fake fake;
    Gpus gpus = {GpuMemory(kWindow), GpuMemory(kWindow, 0)};
    Trouble trouble(fake, seed, 8, true);
    Job job(verbs_with({.device = kDevices[seed % 3], .goes_over_tcp = true}), 2, kWindow);
    INFO(job.status().message());
    CHECK(job.link(0, 1).both_gave_up() == job.link(1, 0).both_gave_up());
    CHECK(job.status().ok() != job.link(0, 1).both_gave_up());
    joined += job.status().ok() ? 1 : 0;
    if (job.status().ok()) check_all_ok(run_both(job, gpus, share(job, gpus), seed));
    CHECK(fake.counts().mistakes == 0);
  }
  CHECK(joined > 0);
}

}  // namespace tutti::test
