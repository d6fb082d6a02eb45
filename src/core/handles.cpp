#include "core/handles.h"

#include "base/log.h"
#include "core/process_context.h"

void tutti_comm::add(tutti_request& request) {
  std::lock_guard lock(mutex_);
  request.handle = this;
  request.older = newest_;
  request.newer = nullptr;
  if (newest_ != nullptr) newest_->newer = &request;
  newest_ = &request;
}

void tutti_comm::remove(tutti_request& request) {
  std::lock_guard lock(mutex_);
  (request.newer == nullptr ? newest_ : request.newer->older) = request.older;
  if (request.older != nullptr) request.older->newer = request.newer;
}

tutti_comm::~tutti_comm() {
  communicator.reset();  // nobody advances the requests from here on
  for (tutti_request* request = newest_; request != nullptr; request = request->older) {
    request->handle = nullptr;
    request->communicator = nullptr;
    if (request->done.load(std::memory_order_acquire)) continue;
    request->result =
        tutti::Status(tutti::Code::kAborted, "the communicator was destroyed before the call had finished");
    request->done.store(true, std::memory_order_release);
  }
  auto context = tutti::ProcessContext::shared();
  for (uint64_t key : registrations) {
    if (!context.ok()) return;
    if ((key & kOfDevices) != 0) continue;
    tutti::Status removed = (*context)->memory.remove(key);
    if (!removed.ok()) tutti::log_warn("tutti_comm_destroy: {}", removed.message());
  }
}
