#include "transports/common/doorbell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tutti {

void Bell::ring() const noexcept {
  uint32_t expected = kAsleep;
  if (!std::atomic_ref<uint32_t>(*word).compare_exchange_strong(expected, kRung)) return;
  int saved_errno = errno;  // a signal handler may be the caller
  uint64_t one = 1;
  while (::write(eventfd, &one, sizeof one) < 0 && errno == EINTR) {
  }
  errno = saved_errno;
}

Result<std::unique_ptr<Doorbell>> Doorbell::create() { return create(nullptr); }

Result<std::unique_ptr<Doorbell>> Doorbell::create(uint32_t* word) {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) {
    return system_error(errno, "cannot create an event descriptor (is the limit of open files, ulimit -n, too low?)");
  }
  return std::unique_ptr<Doorbell>(new Doorbell(word, std::move(fd)));
}

void Doorbell::arm(WaitSet& waits) {
  drain();
  std::atomic_ref<uint32_t>(*word_).store(Bell::kAsleep, std::memory_order_seq_cst);
  full_fence();
  if (fences_for_) waits.need_fence(*fences_for_);
  waits.add(eventfd_.get(), POLLIN);
}

void Doorbell::disarm() {
  if (std::atomic_ref<uint32_t>(*word_).exchange(Bell::kAwake) == Bell::kRung) ++owed_;
  drain();
}

// A ringer first changes the word and then writes the eventfd, so its write may come after this; then it stays owed and
// the next sleep ends early once.
void Doorbell::drain() {
  if (owed_ == 0) return;
  uint64_t rings = 0;
  if (::read(eventfd_.get(), &rings, sizeof rings) == sizeof rings) owed_ -= std::min(owed_, rings);
}

void BellRow::set(int peer, std::shared_ptr<Doorbell> bell) {
  Slot& slot = bells_[peer];
  slot.bell.store(bell.get(), std::memory_order_release);
  slot.owner = std::move(bell);
}

void BellRow::ring() const noexcept {
  for (const Slot& slot : bells_) {
    if (const Doorbell* bell = slot.bell.load(std::memory_order_acquire)) bell->bell().ring_if_asleep();
  }
}

}  // namespace tutti
