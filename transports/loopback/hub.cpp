#include "transports/loopback/hub.h"

#include "transports/loopback/loopback.h"

namespace tutti {

std::shared_ptr<LoopbackHub> make_loopback_hub() { return std::make_shared<LoopbackHub>(); }

std::shared_ptr<LoopbackEnd> LoopbackHub::meet(uint64_t job, int rank, int peer, std::shared_ptr<LoopbackEnd> mine,
                                               Deadline deadline, const std::function<bool()>& give_up) {
  const Place my_place{job, rank, peer}, peer_place{job, peer, rank};
  std::unique_lock lock(mutex_);
  offers_[my_place] = mine;
  changed_.notify_all();
  std::shared_ptr<LoopbackEnd> theirs;
  auto settled = [&] {
    auto found = offers_.find(peer_place);
    if (found != offers_.end() && found->second->left) {
      offers_.erase(found);  // the peer took our end of an earlier attempt and gave up since
    } else if (found != offers_.end()) {
      theirs = std::move(found->second);
      offers_.erase(found);
      return true;
    }
    return give_up();
  };
  if (deadline.at() == Clock::time_point::max()) {
    changed_.wait(lock, settled);
  } else {
    changed_.wait_until(lock, deadline.at(), settled);
  }
  auto offer = offers_.find(my_place);
  if (theirs == nullptr && offer != offers_.end() && offer->second == mine) offers_.erase(offer);
  return theirs;
}

void LoopbackHub::wake() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace tutti
