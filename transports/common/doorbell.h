// How a sleeping rank is woken: a word that says whether it sleeps, and an eventfd. Waking costs a system call, so
// whoever signals reads the word first. Every Link has a doorbell of its own on each end, because several threads of
// one rank may sleep at once, and one thread must not swallow the other's wake-up.
//
// No wake-up is lost: the sleeper stores kAsleep, fences, and checks its lines once more; the signaller stores the
// line, fences, and reads the word. One of the two sees the other's store. Signals are many and sleeps are few, so
// where the kernel can, the sleeper makes the fence for both (base/fences.h), and the signaller none; and since the one
// for other processes has a gap, the sleeper looks once more after a while (WaitSet::sleep()).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/fences.h"
#include "base/status.h"
#include "transports/transport.h"

namespace tutti {

// The signaller's view of a doorbell: `word` may lie in memory shared with another process.
struct Bell {
  uint32_t* word = nullptr;
  int eventfd = -1;  // borrowed
  bool is_fenced_by_sleeper = false;

  // Behind a store that the other end waits for: if that sleeps and nobody has rung yet, wakes it. Any thread,
  // async-signal-safe.
  void ring_if_asleep() const noexcept {
    is_fenced_by_sleeper ? std::atomic_signal_fence(std::memory_order_seq_cst) : full_fence();
    if (std::atomic_ref<uint32_t>(*word).load(std::memory_order_relaxed) == kAsleep) [[unlikely]] ring();
  }

 private:
  friend class Doorbell;
  enum : uint32_t { kAwake = 0, kAsleep = 1, kRung = 2 };
  void ring() const noexcept;
};

// The sleeper's view. arm() and disarm() belong to the thread that advances the Link.
class Doorbell {
 public:
  // With the word in private memory.
  static Result<std::unique_ptr<Doorbell>> create();
  // With the word at `word`, which must hold 0 and outlive the doorbell.
  static Result<std::unique_ptr<Doorbell>> create(uint32_t* word);

  // From the next sleep on, this end fences for signallers that do not.
  void fence_for_signallers(Signallers of) { fences_for_ = of; }

  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  Bell bell() const { return {word_, eventfd_.get()}; }
  void arm(WaitSet& waits);
  void disarm();

 private:
  Doorbell(uint32_t* word, Fd eventfd) : word_(word != nullptr ? word : &private_word_), eventfd_(std::move(eventfd)) {}
  void drain();

  uint32_t private_word_ = 0;
  uint32_t* word_;
  Fd eventfd_;
  std::optional<Signallers> fences_for_;
  uint64_t owed_ = 0;  // rings that disarm() has seen announced in the word but not yet read from the eventfd
};

// All doorbells of one rank, at most one per peer, so that ring() reaches them from any thread without a lock.
class BellRow {
 public:
  explicit BellRow(int nranks) : bells_(nranks) {}

  // The row keeps `bell` alive until the row ends or another is set for the same peer, so that a ring() that runs at
  // the same time as a Link's end stays safe. Replacing is for reconnecting, when no ring() may run.
  void set(int peer, std::shared_ptr<Doorbell> bell);
  void ring() const noexcept;

 private:
  struct Slot {
    std::atomic<Doorbell*> bell{nullptr};
    std::shared_ptr<Doorbell> owner;  // with the Link, and on loopback with the peer's Link
  };
  std::vector<Slot> bells_;
};

}  // namespace tutti
