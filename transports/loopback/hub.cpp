#include "transports/loopback/hub.h"

#include "transports/loopback/loopback.h"

namespace tutti {

std::shared_ptr<LoopbackHub> make_loopback_hub() { return std::make_shared<LoopbackHub>(); }

void LoopbackHub::offer(uint64_t job, int rank, int peer, std::shared_ptr<LoopbackEnd> mine) {
  std::lock_guard lock(mutex_);
  offers_[{job, rank, peer}] = std::move(mine);
}

std::shared_ptr<LoopbackEnd> LoopbackHub::take(uint64_t job, int rank, int peer) {
  std::lock_guard lock(mutex_);
  auto offer = offers_.extract({job, peer, rank});
  // One that was left belongs to an earlier attempt that the peer has given up since.
  return offer.empty() || offer.mapped()->left ? nullptr : std::move(offer.mapped());
}

void LoopbackHub::withdraw(uint64_t job, int rank, int peer, const std::shared_ptr<LoopbackEnd>& mine) {
  std::lock_guard lock(mutex_);
  auto offer = offers_.find({job, rank, peer});
  if (offer != offers_.end() && offer->second == mine) offers_.erase(offer);
}

}  // namespace tutti
