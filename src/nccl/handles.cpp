#include "nccl/handles.h"

#include <mutex>
#include <utility>

#include "nccl/report.h"

namespace tutti::nccl {

Handles& Handles::of_process() {
  static auto* handles = new Handles;
  return *handles;
}

ncclComm_t Handles::add(std::shared_ptr<Communicator> communicator) {
  auto handle = reinterpret_cast<ncclComm_t>(communicator.get());
  std::lock_guard lock(mutex_);
  communicators_[handle] = std::move(communicator);
  return handle;
}

std::shared_ptr<Communicator> Handles::find(ncclComm_t handle) {
  std::shared_lock lock(mutex_);
  auto found = communicators_.find(handle);
  return found == communicators_.end() ? nullptr : found->second;
}

std::shared_ptr<Communicator> Handles::remove(ncclComm_t handle) {
  std::lock_guard lock(mutex_);
  auto found = communicators_.find(handle);
  if (found == communicators_.end()) return nullptr;
  auto communicator = std::move(found->second);
  communicators_.erase(found);
  return communicator;
}

std::shared_ptr<Family> Handles::family(const std::string& key) {
  std::lock_guard lock(mutex_);
  std::erase_if(families_, [](const auto& entry) { return entry.second.expired(); });
  auto& slot = families_[key];
  auto family = slot.lock();
  if (family == nullptr) {
    family = std::make_shared<Family>();
    slot = family;
  }
  return family;
}

ncclResult_t find_communicator(const char* function, ncclComm_t handle, std::shared_ptr<Communicator>* found) {
  if (handle == nullptr) return null_argument(function, "comm");
  *found = Handles::of_process().find(handle);
  if (*found != nullptr) return ncclSuccess;
  return refuse(ncclInvalidArgument, "{}: comm is no communicator, or was destroyed or aborted", function);
}

ncclResult_t find_usable(const char* function, ncclComm_t handle, std::shared_ptr<Communicator>* found) {
  TUTTI_NCCL_TRY(find_communicator(function, handle, found));
  return (*found)->check_usable(function);
}

}  // namespace tutti::nccl
