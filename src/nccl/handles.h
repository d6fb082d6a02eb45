// The communicators that programs have handles of, and the families they are in.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "nccl/communicator.h"

namespace tutti::nccl {

class Handles {
 public:
  // NCCL's interface knows no process and no library, so this is the process's. Never destroyed: threads may still be
  // in calls when the process ends.
  static Handles& of_process();

  ncclComm_t add(std::shared_ptr<Communicator> communicator);
  // Null for what is no handle, or no longer.
  std::shared_ptr<Communicator> find(ncclComm_t handle);
  // The same; from here on it is no handle.
  std::shared_ptr<Communicator> remove(ncclComm_t handle);

  // The one of that key, which all ranks of this process give for one communicator and none for another.
  std::shared_ptr<Family> family(const std::string& key);

 private:
  std::shared_mutex mutex_;  // guards what follows
  std::unordered_map<ncclComm_t, std::shared_ptr<Communicator>> communicators_;
  std::unordered_map<std::string, std::weak_ptr<Family>> families_;
};

// The communicator of a handle. Errors: there is none.
ncclResult_t find_communicator(const char* function, ncclComm_t handle, std::shared_ptr<Communicator>* found);
// The same; it can be used now.
ncclResult_t find_usable(const char* function, ncclComm_t handle, std::shared_ptr<Communicator>* found);

}  // namespace tutti::nccl
