#include "nccl/group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "nccl/report.h"

namespace tutti::nccl {

Group& Group::of_thread() {
  thread_local Group group;
  return group;
}

ncclResult_t Group::refuse(ncclResult_t why) {
  if (refused_ == ncclSuccess) refused_ = why;
  return why;
}

// What was asked for; the thread may begin another group.
Group Group::take() {
  Group taken = std::move(*this);
  *this = Group();
  return taken;
}

ncclResult_t Group::make_all(std::vector<Call>& calls) {
  if (calls.empty()) return ncclSuccess;
  const char* function = "ncclGroupEnd";
  TUTTI_NCCL_TRY(result_of(tutti_group_begin(), function, nullptr));
  ncclResult_t first = ncclSuccess;
  for (Call& call : calls) {
    ncclResult_t made = make(call);  // tutti only notes it down
    if (first == ncclSuccess) first = made;
  }
  ncclResult_t ended = result_of(tutti_group_end(), function, nullptr);
  for (Call& call : calls) finish(call);
  return first == ncclSuccess ? ended : first;
}

ncclResult_t Group::end() {
  if (depth_ == 0) return nccl::refuse(ncclInvalidUsage, "ncclGroupEnd: no group was started");
  if (--depth_ > 0) return ncclSuccess;
  Group group = take();
  ncclResult_t result = group.refused_;
  if (result == ncclSuccess) {
    result = run_jobs(std::move(group.jobs_));
  } else {
    drop_jobs(std::move(group.jobs_), result);
  }
  if (result == ncclSuccess || result == ncclInProgress) {
    ncclResult_t made = make_all(group.calls_);
    if (made != ncclSuccess) result = made;
  }
  group.calls_.clear();
  for (const auto& family : group.leaving_) family->wait_if_all_leave();
  return result;
}

ncclResult_t Group::simulate(float* expected_us) {
  *expected_us = NCCL_UNDEF_FLOAT;
  if (depth_ == 0) return nccl::refuse(ncclInvalidUsage, "ncclGroupSimulateEnd: no group was started");
  if (--depth_ > 0) return ncclSuccess;
  Group group = take();
  if (!group.jobs_.empty()) {
    drop_jobs(std::move(group.jobs_), ncclInvalidUsage);
    return nccl::refuse(ncclInvalidUsage,
                        "ncclGroupSimulateEnd: the group makes communicators, which is not simulated");
  }
  TUTTI_NCCL_TRY(group.refused_);
  // Communicators work side by side, the calls of each one after another.
  std::map<const Communicator*, float> expected;
  for (const Call& call : group.calls_) {
    float us = predicted_us(call);
    if (us >= 0) expected[&*call.communicator] += us;
  }
  for (const auto& [communicator, us] : expected) *expected_us = std::max(*expected_us, us);
  return ncclSuccess;
}

}  // namespace tutti::nccl
