#include "core/process_context.h"

#include "bootstrap/crypto.h"
#include "bootstrap/unique_id.h"
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
  // Never destroyed: the process may end while other threads are still inside a call.
  static std::mutex& mutex = *new std::mutex;
  static auto& context = *new std::shared_ptr<ProcessContext>;
  std::lock_guard lock(mutex);
  if (!context) context = TUTTI_TRY(create());
  return context;
}

Status ProcessContext::open_meeting(const Config& config, tutti_unique_id_t* id) {
  auto meeting = TUTTI_TRY(bootstrap::Rendezvous::create({.interface = config.interface}));
  *id = bootstrap::encode(meeting->id());
  std::lock_guard lock(meetings_mutex_);
  meetings_.push_back(std::move(meeting));
  return {};
}

}  // namespace tutti
