// What it costs two cores to bring each other what lies in their private memory, both at once as the ranks of a
// collective do: through slots that both can reach, and pulled by process_vm_readv.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "discovery/probe_buffer.h"
#include "discovery/probe_word.h"
#include "discovery/probes.h"

namespace tutti {
namespace {

// Pulled: as large as slices get, and together as usual calls that have a choice.
constexpr size_t kPulled = 256 << 10;
constexpr uint32_t kBuffers = 4;
// Through slots: one piece over and over, which the second-level caches hold. The slots together they do not, as calls
// have it.
constexpr size_t kSlotted = 128 << 10;
constexpr uint32_t kSlots = 16;
constexpr uint32_t kBatches = 32;
constexpr uint32_t kBatch = 4;        // pieces, few enough to fit between the interruptions of a busy machine
constexpr int64_t kLimitMs = 200;

// From this process itself: the kernel takes the same way as for another one, and needs no permission.
bool pull(char* to, const char* from, size_t size) {
  iovec local{to, size};
  iovec remote{const_cast<char*>(from), size};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

struct Side {
  char* slot(uint32_t piece) const { return slots.data() + piece % kSlots * kSlotted; }
  bool ready() const { return from.data() != nullptr && slots.data() != nullptr && to.data() != nullptr; }

  ProbeBuffer from{kBuffers * kPulled};
  ProbeBuffer slots{kSlots * kSlotted};
  ProbeBuffer to{kBuffers * kPulled};
  ProbeWord told;  // by the other side: so many pieces are there
};

class Exchange {
 public:
  bool ready() const { return sides_[0].ready() && sides_[1].ready(); }

  void through_slots(int which) {
    Side& mine = sides_[which];
    Side& theirs = sides_[1 - which];
    run(which, [&](uint32_t piece) {
      probe_copy(theirs.slot(piece), mine.from.data(), kSlotted);
      theirs.told.value.store(piece + 1, std::memory_order_release);
      if (!await(mine.told, piece + 1, deadline_)) return false;
      probe_copy(mine.to.data(), mine.slot(piece), kSlotted);
      return true;
    });
  }

  void pulled(int which) {
    Side& mine = sides_[which];
    Side& theirs = sides_[1 - which];
    run(which, [&](uint32_t piece) {
      size_t at = piece % kBuffers * kPulled;
      theirs.told.value.store(piece + 1, std::memory_order_release);
      return await(mine.told, piece + 1, deadline_) && pull(mine.to.data() + at, theirs.from.data() + at, kPulled);
    });
  }

  // What each side gets. Of a usual batch, not of the quickest: that is one in which the other side was ahead, which
  // pays for it in the next.
  std::optional<uint64_t> bytes_per_s(size_t piece_bytes) const {
    if (timed_ == 0) return std::nullopt;
    auto sorted = batches_ns_;
    std::nth_element(sorted.begin(), sorted.begin() + timed_ / 2, sorted.begin() + timed_);
    return rate_of(kBatch * piece_bytes, sorted[timed_ / 2]);
  }

 private:
  // All pieces; one of the two threads has the clock.
  template <typename Step>
  void run(int which, Step&& step) {
    for (uint32_t batch = 0; batch < kBatches; ++batch) {
      auto start = Clock::now();
      for (uint32_t i = 0; i < kBatch; ++i) {
        if (!step(batch * kBatch + i)) return;
      }
      if (which == 0) batches_ns_[timed_++] = ns_since(start);
    }
  }

  Side sides_[2];
  Deadline deadline_ = Deadline::after_ms(kLimitMs);
  std::array<uint64_t, kBatches> batches_ns_{};
  uint32_t timed_ = 0;
};

using Way = void (Exchange::*)(int which);

std::optional<uint64_t> rate_of_way(CpuPair cpus, Way way, size_t piece_bytes) {
  Exchange exchange;
  if (!exchange.ready()) return std::nullopt;
  run_pinned(
      cpus.first, [&] { (exchange.*way)(0); }, cpus.second, [&] { (exchange.*way)(1); });
  return exchange.bytes_per_s(piece_bytes);
}

// Of one byte: what the kernel does before and after it copies.
std::optional<uint64_t> small_pull_ns(int cpu) {
  constexpr int kBatches = 10;
  constexpr int kCalls = 50;
  std::optional<uint64_t> best;
  run_pinned(cpu, [&] {
    char from = 1, to = 0;
    if (!pull(&to, &from, 1)) return;
    best = best_ns(kBatches, [&] {
      for (int i = 0; i < kCalls; ++i) pull(&to, &from, 1);
    });
  });
  return best ? std::optional(std::max<uint64_t>(1, *best / kCalls)) : std::nullopt;
}

}  // namespace

std::optional<uint64_t> probe_slot(CpuPair cpus) {
  if (cpus.first == cpus.second) return std::nullopt;
  return rate_of_way(cpus, &Exchange::through_slots, kSlotted);
}

std::optional<PullCost> probe_pull(CpuPair cpus) {
  auto ns = small_pull_ns(cpus.first);
  if (!ns || cpus.first == cpus.second) return std::nullopt;
  auto rate = rate_of_way(cpus, &Exchange::pulled, kPulled);
  return rate ? std::optional(PullCost{*ns, *rate}) : std::nullopt;
}

}  // namespace tutti
