// Group: what a thread asks for between ncclGroupStart() and ncclGroupEnd().
#pragma once

#include <memory>
#include <vector>

#include "nccl/calls.h"
#include "nccl/jobs.h"

namespace tutti::nccl {

class Group {
 public:
  // The calling thread's.
  static Group& of_thread();

  bool is_open() const { return depth_ > 0; }
  void begin() { ++depth_; }
  void add(Call call) { calls_.push_back(std::move(call)); }
  void add(Job job) { jobs_.push_back(std::move(job)); }
  // A call of it was refused: so is the group, and nothing of it is started. Gives `why`.
  ncclResult_t refuse(ncclResult_t why);
  // Ranks of it leave: its end waits for them if no other ones of this process are left.
  void await(std::shared_ptr<Family> family) { leaving_.push_back(std::move(family)); }

  // Of the outermost group: makes its communicators, then its calls, all at once. Errors: there is no group; the first
  // one of what was asked for.
  ncclResult_t end();
  // The same, but makes nothing, and says how long tutti expects the calls to take, in microseconds; negative where it
  // cannot tell.
  ncclResult_t simulate(float* expected_us);

 private:
  static ncclResult_t make_all(std::vector<Call>& calls);
  Group take();

  int depth_ = 0;
  ncclResult_t refused_ = ncclSuccess;
  std::vector<Call> calls_;
  std::vector<Job> jobs_;
  std::vector<std::shared_ptr<Family>> leaving_;
};

}  // namespace tutti::nccl
