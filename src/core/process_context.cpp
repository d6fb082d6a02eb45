#include "core/process_context.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "bootstrap/crypto.h"
#include "bootstrap/unique_id.h"
#include "core/forks.h"
#include "transports/loopback/loopback.h"

namespace tutti {

Result<std::shared_ptr<ProcessContext>> ProcessContext::create() {
  bootstrap::keep_crypto_until_the_end();
  auto context = std::make_shared<ProcessContext>();
  context->engine = TUTTI_TRY(Engine::create());
  context->loopback = make_loopback_hub();
  return context;
}

Result<std::shared_ptr<ProcessContext>> ProcessContext::shared() {
  // Never destroyed: the process may end while other threads are still inside a call. A forked child has its own: the
  // parent's may be in any state, and its threads are not here.
  struct Slot {
    uint64_t of_forks = forks();
    std::mutex mutex;
    std::shared_ptr<ProcessContext> context;
  };
  static std::atomic<Slot*> current{new Slot};
  Slot* slot = current.load(std::memory_order_acquire);
  if (slot->of_forks != forks()) {
    auto* fresh = new Slot;
    if (current.compare_exchange_strong(slot, fresh)) {
      slot = fresh;
    } else {
      delete fresh;
    }
  }
  std::lock_guard lock(slot->mutex);
  if (!slot->context) slot->context = TUTTI_TRY(create());
  return slot->context;
}

Status ProcessContext::open_meeting(const Config& config, tutti_unique_id_t* id) {
  auto meeting = TUTTI_TRY(bootstrap::Rendezvous::create({.interface = config.interface}));
  *id = bootstrap::encode(meeting->id());
  std::lock_guard lock(meetings_mutex_);
  meetings_.push_back(std::move(meeting));
  return {};
}

void ProcessContext::close_meeting(const tutti_unique_id_t& id) {
  std::unique_ptr<bootstrap::Rendezvous> over;  // ends after the lock
  std::lock_guard lock(meetings_mutex_);
  auto found = std::find_if(meetings_.begin(), meetings_.end(), [&](const auto& meeting) {
    tutti_unique_id_t its = bootstrap::encode(meeting->id());
    return std::memcmp(its.bytes, id.bytes, sizeof its.bytes) == 0;
  });
  if (found == meetings_.end()) return;
  over = std::move(*found);
  meetings_.erase(found);
}

}  // namespace tutti
