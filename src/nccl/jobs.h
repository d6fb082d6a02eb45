// Jobs: communicators that are to be made. Those of a group are made at once, each on a thread of its own, since each
// waits for ranks that the same thread may have.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nccl/communicator.h"

namespace tutti::nccl {

struct Job {
  const char* function = "";
  std::shared_ptr<Communicator> made;    // whose step it is
  std::shared_ptr<Communicator> parent;  // null, or what it is made of: its jobs happen one after another
  ncclComm_t* handle = nullptr;          // the caller's, who gets NULL where a blocking job fails; null: there is none
  // Gives tutti's communicator, or null to a rank that gets none.
  std::function<ncclResult_t(tutti_comm_t** comm)> make;
};

// Makes them all. Waits for those of blocking communicators. Gives the first error; else in progress, if others are not
// done.
ncclResult_t run_jobs(std::vector<Job> jobs);
// Makes none of them: they have failed, with `why`.
void drop_jobs(std::vector<Job> jobs, ncclResult_t why);

}  // namespace tutti::nccl
