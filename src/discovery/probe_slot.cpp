// A payload's way through a staging slot: one core copies it in, and when it has, another copies it out.
#include "discovery/probe_buffer.h"
#include "discovery/probe_word.h"
#include "discovery/probes.h"

namespace tutti {
namespace {

constexpr size_t kPiece = 64 << 10;
constexpr uint32_t kSlots = 4;
constexpr uint32_t kPieces = 256;  // more than the L2 holds, on both sides
constexpr uint32_t kBatch = 8;     // short enough to fit between the interruptions of a busy machine
constexpr int64_t kLimitMs = 200;

class SlotProbe {
 public:
  bool ready() const { return from_.data() != nullptr && slots_.data() != nullptr && to_.data() != nullptr; }

  void send() {
    for (uint32_t batch = 0; batch < kPieces / kBatch; ++batch) {
      auto start = Clock::now();
      for (uint32_t i = 0; i < kBatch; ++i) {
        uint32_t piece = batch * kBatch + i;
        probe_copy(slot(piece), from_.data() + piece * kPiece, kPiece);
        filled_.value.store(piece + 1, std::memory_order_release);
        if (!await(emptied_, piece + 1, deadline_)) return;
      }
      best_ns_ = std::min(best_ns_.value_or(UINT64_MAX), ns_since(start));
    }
  }

  void receive() {
    for (uint32_t piece = 0; piece < kPieces; ++piece) {
      if (!await(filled_, piece + 1, deadline_)) return;
      probe_copy(to_.data() + piece * kPiece, slot(piece), kPiece);
      emptied_.value.store(piece + 1, std::memory_order_release);
    }
  }

  std::optional<uint64_t> bytes_per_s() const {
    return best_ns_ ? std::optional(rate_of(kBatch * kPiece, *best_ns_)) : std::nullopt;
  }

 private:
  char* slot(uint32_t piece) const { return slots_.data() + piece % kSlots * kPiece; }

  ProbeBuffer from_{kPieces * kPiece};
  ProbeBuffer slots_{kSlots * kPiece};
  ProbeBuffer to_{kPieces * kPiece};
  Deadline deadline_ = Deadline::after_ms(kLimitMs);
  ProbeWord filled_;
  ProbeWord emptied_;
  std::optional<uint64_t> best_ns_;
};

}  // namespace

std::optional<uint64_t> probe_slot(CpuPair cpus) {
  if (cpus.first == cpus.second) return std::nullopt;
  SlotProbe probe;
  if (!probe.ready()) return std::nullopt;
  run_pinned(
      cpus.first, [&] { probe.send(); }, cpus.second, [&] { probe.receive(); });
  return probe.bytes_per_s();
}

}  // namespace tutti
