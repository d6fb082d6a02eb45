// What it costs two cores to bring each other what lies in their private memory, both at once as the ranks of a
// collective do: through slots that both can reach, and pulled by process_vm_readv.
#include <sys/uio.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "discovery/probe_buffer.h"
#include "discovery/probe_word.h"
#include "discovery/probes.h"
#include "topology/inventory.h"

namespace tutti {
namespace {

// Pulled: as large as slices get, and together as usual calls that have a choice.
constexpr size_t kPulled = 256 << 10;
constexpr uint32_t kBuffers = 4;
static_assert(2 * kBuffers * kPulled == kPulledBytes);
// Through slots: the second-level caches do not hold them together, as calls have it beside far cores, or do. Those of
// what is small they do, of the core that stores and of the one that reads, and one piece over and over.
struct Pattern {
  size_t piece_bytes;
  uint32_t count;
  size_t buffer_bytes;
};
constexpr Pattern kLargeSlots{kLargePieceBytes, 32, kBuffers * kPulled};
constexpr Pattern kFewSlots{kLargePieceBytes, 4, kBuffers * kPulled};
constexpr Pattern kSmallSlots{8 << 10, 2, 8 << 10};
constexpr Pattern kSettlingSlots{kSettledBytes, 8, kSettledBytes};
constexpr uint32_t kBatches = 40;
constexpr uint32_t kBatch = 4;         // pieces, few enough to fit between the interruptions of a busy machine
constexpr uint32_t kFirstBatches = 8;  // on slots that nobody has used yet: not counted where there are others
constexpr int64_t kLimitMs = 200;

// Whole lines, past the caches where the kernels have such stores.
void copy_past_caches(char* to, const char* from, size_t size_bytes) {
#ifdef __SSE2__
  for (size_t at = 0; at < size_bytes; at += sizeof(__m128i)) {
    __m128i value = _mm_load_si128(reinterpret_cast<const __m128i*>(from + at));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), value);
  }
  _mm_sfence();
#else
  probe_copy(to, from, size_bytes);
#endif
}

// From this process itself: the kernel takes the same way as for another one, and needs no permission.
bool pull(char* to, const char* from, size_t size) {
  iovec local{to, size};
  iovec remote{const_cast<char*>(from), size};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

// The times of a side's pieces. What counts is a usual batch, not the quickest: in that one the other side had been
// ahead, which pays for it in the next, or was disturbed, so that this one had the memory for itself.
class Batches {
 public:
  void add(uint32_t piece, uint64_t ns) {
    ns_[piece / kBatch] += ns;
    pieces_ = piece + 1;
  }
  std::optional<uint64_t> bytes_per_s(size_t piece_bytes) const {
    auto ns = usual_ns();
    return ns ? std::optional(rate_of(kBatch * piece_bytes, *ns)) : std::nullopt;
  }
  // Of a batch.
  std::optional<uint64_t> usual_ns() const {
    uint32_t whole = pieces_ / kBatch;
    if (whole == 0) return std::nullopt;
    std::vector<uint64_t> counted(ns_.begin() + std::min(kFirstBatches, whole / 2), ns_.begin() + whole);
    auto usual = counted.begin() + counted.size() / 2;
    std::nth_element(counted.begin(), usual, counted.end());
    return *usual;
  }

 private:
  std::array<uint64_t, kBatches> ns_{};
  uint32_t pieces_ = 0;
};

struct Side {
  char* slot(uint32_t piece, const Pattern& pattern) const {
    return slots.data() + piece % pattern.count * pattern.piece_bytes;
  }
  bool ready() const { return from.data() != nullptr && slots.data() != nullptr && to.data() != nullptr; }

  ProbeBuffer from{kBuffers * kPulled};
  ProbeBuffer slots{kLargeSlots.count * kLargeSlots.piece_bytes};
  ProbeBuffer to{kBuffers * kPulled};
  ProbeWord told;  // by the other side: so many pieces are there
  Batches stores;
  Batches waits;
  Batches loads;
};

class Exchange {
 public:
  bool ready() const { return sides_[0].ready() && sides_[1].ready(); }

  template <const Pattern& pattern, auto store>
  void through_slots(int which) {
    Side& mine = sides_[which];
    Side& theirs = sides_[1 - which];
    for (uint32_t piece = 0; piece < kBatches * kBatch; ++piece) {
      size_t at = piece * pattern.piece_bytes % pattern.buffer_bytes;
      auto start = Clock::now();
      store(theirs.slot(piece, pattern), mine.from.data() + at, pattern.piece_bytes);
      mine.stores.add(piece, ns_since(start));
      theirs.told.value.store(piece + 1, std::memory_order_release);
      start = Clock::now();
      if (!await(mine.told, piece + 1, deadline_)) return;
      mine.waits.add(piece, ns_since(start));
      start = Clock::now();
      probe_copy(mine.to.data() + at, mine.slot(piece, pattern), pattern.piece_bytes);
      mine.loads.add(piece, ns_since(start));
    }
  }

  void pulled(int which) {
    Side& mine = sides_[which];
    Side& theirs = sides_[1 - which];
    for (uint32_t piece = 0; piece < kBatches * kBatch; ++piece) {
      size_t at = piece % kBuffers * kPulled;
      auto start = Clock::now();
      theirs.told.value.store(piece + 1, std::memory_order_release);
      if (!await(mine.told, piece + 1, deadline_)) return;
      if (!pull(mine.to.data() + at, theirs.from.data() + at, kPulled)) return;
      mine.loads.add(piece, ns_since(start));
    }
  }

  const Side& one_side() const { return sides_[0]; }
  // Of a piece; of both sides, since one may be ahead.
  std::optional<uint64_t> usual_wait_ns() const {
    auto one = sides_[0].waits.usual_ns(), other = sides_[1].waits.usual_ns();
    return one && other ? std::optional((*one + *other) / (2 * kBatch)) : std::nullopt;
  }

 private:
  Side sides_[2];
  Deadline deadline_ = Deadline::after_ms(kLimitMs);
};

using Way = void (Exchange::*)(int which);

// Null without memory.
std::unique_ptr<Exchange> exchange_by(CpuPair cpus, Way way) {
  auto exchange = std::make_unique<Exchange>();
  if (!exchange->ready()) return nullptr;
  run_pinned(
      cpus.first, [&] { (*exchange.*way)(0); }, cpus.second, [&] { (*exchange.*way)(1); });
  return exchange;
}

std::optional<SlotRates> slot_rates(CpuPair cpus, Way way, size_t piece_bytes) {
  auto exchange = exchange_by(cpus, way);
  if (!exchange) return std::nullopt;
  auto store = exchange->one_side().stores.bytes_per_s(piece_bytes);
  auto load = exchange->one_side().loads.bytes_per_s(piece_bytes);
  auto wait_ns = exchange->usual_wait_ns();
  return store && load && wait_ns ? std::optional(SlotRates{*store, *load, *wait_ns}) : std::nullopt;
}

// In calls senders find out which way is quicker.
template <const Pattern& pattern>
std::optional<SlotRates> quicker_slot_rates(CpuPair cpus) {
  if (cpus.first == cpus.second) return std::nullopt;
  auto cached = slot_rates(cpus, &Exchange::through_slots<pattern, probe_copy>, pattern.piece_bytes);
  auto past_caches = slot_rates(cpus, &Exchange::through_slots<pattern, copy_past_caches>, pattern.piece_bytes);
  if (!cached || !past_caches) return cached;
  auto ns = [](const SlotRates& of) {
    double copied = 1e9 * pattern.piece_bytes;
    return copied / of.store_bytes_per_s + static_cast<double>(of.wait_ns) + copied / of.load_bytes_per_s;
  };
  return ns(*past_caches) < ns(*cached) ? past_caches : cached;
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

std::optional<SlotRates> probe_slots(CpuPair cpus, Places places) {
  return places == Places::kFew ? quicker_slot_rates<kFewSlots>(cpus) : quicker_slot_rates<kLargeSlots>(cpus);
}

std::optional<SlotRates> probe_small_slots(CpuPair cpus) { return quicker_slot_rates<kSmallSlots>(cpus); }

std::optional<uint64_t> probe_settle_ns(CpuPair cpus) {
  auto rates = quicker_slot_rates<kSettlingSlots>(cpus);
  return rates ? std::optional(rates->wait_ns) : std::nullopt;
}

std::optional<PullCost> probe_pull(CpuPair cpus) {
  auto ns = small_pull_ns(cpus.first);
  if (!ns || cpus.first == cpus.second) return std::nullopt;
  auto exchange = exchange_by(cpus, &Exchange::pulled);
  auto rate = exchange ? exchange->one_side().loads.bytes_per_s(kPulled) : std::nullopt;
  return rate ? std::optional(PullCost{*ns, *rate}) : std::nullopt;
}

}  // namespace tutti
