// GpuBoard: memory that ranks share whose GPUs do calls among themselves, for what they say of these. Streams and
// kernels use its words too.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>

#include "base/fd.h"
#include "core/fused_calls.h"

namespace tutti {

// ---- Words that processes share

inline void wake(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}
// Until the word is not `known`, or for that long; less than 0: without an end.
inline void sleep_on(std::atomic<uint32_t>& word, uint32_t known, std::chrono::nanoseconds longest) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  int64_t ns = longest.count();
  timespec limit{.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, known, ns < 0 ? nullptr : &limit, nullptr, 0);
}
inline void sleep_on(std::atomic<uint32_t>& word, uint32_t known, int64_t ms) {
  sleep_on(word, known, std::chrono::milliseconds(ms));
}

// And devices.
inline uint32_t read_word(const uint32_t& word) {
  return std::atomic_ref(const_cast<uint32_t&>(word)).load(std::memory_order_acquire);
}
inline void store_word(uint32_t& word, uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

class GpuBoard {
 public:
  // A rank may be so many calls ahead of another one.
  static constexpr uint32_t kCalls = 64;

  struct alignas(64) OfRank {
    // For streams; calls are numbered from 1.
    uint32_t reached = 0;  // the rank's stream has come to this call
    uint32_t gate = 0;     // and may go on behind this one
    // For kernels: not 0: the rank that the GPU has waited for in vain, + 1.
    uint32_t late = 0;
    // For the stream that has the rank's kernels.
    uint32_t ended = 0;  // its kernel of this call has
    uint32_t hold = 0;   // not 0: it opens no gate
    // For the host.
    std::atomic<uint32_t> called{0};  // the rank's last call
    std::atomic<uint32_t> settled{0};  // up to here the rank has no use for any offer
    std::atomic<uint32_t> launched{0};  // its last kernel is of this call
    std::atomic<uint32_t> bell{0};    // a futex: there is something to look at
    // For streams of others: the rank has opened what it uses of this call's buffers.
    uint32_t opened = 0;
    // For who opens gates after a failure:
    uint32_t passed = 0;   // the rank's stream has gone through the gate of this call
    uint32_t cleared = 0;  // so much of what was put on its own stream is done
    // For the threads of one process, if all ranks are that.
    RankEvents events;
    // For messages: of the rank's last calls the collective, above the 32 bits of the call's number.
    std::atomic<uint64_t> collectives[kCalls];
  };
  enum class Verdict : uint32_t { kLaunched, kStaged };
  struct Head {
    uint32_t cancelled = 0;             // for launches
    std::atomic<uint32_t> decided{0};   // calls; a futex
    std::atomic<uint32_t> waiting{0};   // ranks that wait for that
    std::atomic<uint32_t> arrived[kCalls];
    std::atomic<Verdict> verdicts[kCalls];
    std::atomic<int32_t> deciders[kCalls];  // the ranks that have called last
  };

  GpuBoard() = default;
  GpuBoard(Mapping memory, int nranks) : memory_(std::move(memory)), bytes_(memory_.bytes()), nranks_(nranks) {}

  static size_t bytes_for(int nranks) {
    return kHeadBytes + nranks * sizeof(OfRank) + size_t{kCalls} * nranks * sizeof(Offer);
  }

  std::span<std::byte> bytes() const { return bytes_; }
  Head& head() const { return *reinterpret_cast<Head*>(bytes_.data()); }
  OfRank& of(int rank) const {
    return reinterpret_cast<OfRank*>(bytes_.data() + kHeadBytes)[rank];
  }
  Offer& offer(uint32_t call, int rank) const {
    auto* first = reinterpret_cast<Offer*>(bytes_.data() + kHeadBytes + nranks_ * sizeof(OfRank));
    return first[call % kCalls * nranks_ + rank];
  }
  std::atomic<uint32_t>& arrived(uint32_t call) const { return head().arrived[call % kCalls]; }
  std::atomic<Verdict>& verdict(uint32_t call) const { return head().verdicts[call % kCalls]; }
  std::atomic<int32_t>& decider(uint32_t call) const { return head().deciders[call % kCalls]; }

  // Of a call that the rank has made; none if another one has its place by now.
  void say_collective(uint32_t call, int rank, int32_t collective) const {
    uint64_t said = static_cast<uint64_t>(static_cast<uint32_t>(collective)) << 32 | call;
    of(rank).collectives[call % kCalls].store(said, std::memory_order_release);
  }
  std::optional<int32_t> collective(uint32_t call, int rank) const {
    uint64_t said = of(rank).collectives[call % kCalls].load(std::memory_order_acquire);
    return static_cast<uint32_t>(said) == call ? std::optional(static_cast<int32_t>(said >> 32)) : std::nullopt;
  }

  // It stays where it is for ever: streams may still use it.
  void leak() { (void)memory_.release(); }

 private:
  static constexpr size_t kHeadBytes = (sizeof(Head) + 63) / 64 * 64;
  Mapping memory_;
  std::span<std::byte> bytes_;  // of it
  int nranks_ = 0;
};

}  // namespace tutti
