// Entry points that end communicators, and say how they are.
#include <utility>

#include "nccl/background.h"
#include "nccl/group.h"
#include "nccl/handles.h"
#include "nccl/report.h"

namespace tutti::nccl {
namespace {

ncclResult_t finalize(ncclComm_t comm) {
  const char* function = "ncclCommFinalize";
  std::shared_ptr<Communicator> communicator;
  TUTTI_NCCL_TRY(find_communicator(function, comm, &communicator));
  TUTTI_NCCL_TRY(communicator->begin_to_finalize(function));
  bool are_all = communicator->family().begin_to_finalize();
  run_in_background([function, communicator] {
    communicator->end_step(result_of(tutti_comm_finalize(communicator->get()), function, communicator->get()));
  });
  if (!communicator->settings().is_blocking) return ncclInProgress;
  if (!are_all) return ncclSuccess;  // the last one waits
  communicator->wait_for_steps();
  return communicator->state();
}

ncclResult_t remove(const char* function, ncclComm_t comm, std::shared_ptr<Communicator>* removed) {
  TUTTI_NCCL_TRY(find_communicator(function, comm, removed));
  *removed = Handles::of_process().remove(comm);
  if (*removed != nullptr) return ncclSuccess;
  return refuse(ncclInvalidArgument, "{}: another thread destroys or aborts comm, too", function);
}

// Lets go of a communicator in the background.
std::shared_ptr<Family> leave(std::shared_ptr<Communicator> communicator) {
  std::shared_ptr<Family> family = communicator->shared_family();
  family->begin_to_leave(communicator->has_finalized());
  run_in_background([family, communicator = std::move(communicator)] {
    communicator->close();
    family->left();
  });
  return family;
}

// Waits where nobody of this process is left: the other ranks are told that this one goes before its process may end.
ncclResult_t leave_now(std::shared_ptr<Communicator> communicator) {
  std::shared_ptr<Family> family = leave(std::move(communicator));
  Group& group = Group::of_thread();
  if (group.is_open()) {
    group.await(std::move(family));
  } else {
    family->wait_if_all_leave();
  }
  return ncclSuccess;
}

ncclResult_t destroy(ncclComm_t comm) {
  std::shared_ptr<Communicator> communicator;
  TUTTI_NCCL_TRY(remove("ncclCommDestroy", comm, &communicator));
  return leave_now(std::move(communicator));
}

ncclResult_t revoke(ncclComm_t comm, int flags) {
  const char* function = "ncclCommRevoke";
  if (flags != NCCL_REVOKE_DEFAULT) return refuse(ncclInvalidArgument, "{}: there are no flags {:#x}", function, flags);
  std::shared_ptr<Communicator> communicator;
  TUTTI_NCCL_TRY(find_communicator(function, comm, &communicator));
  if (communicator->is_revoked()) return refuse(ncclInvalidUsage, "{}: it was revoked before", function);
  TUTTI_NCCL_TRY(communicator->check_usable(function));
  Communicator::revoke(communicator);
  return ncclSuccess;
}

// Gives `*to` what `of` says of a communicator.
template <typename Of>
ncclResult_t query(const char* function, ncclComm_t comm, int* to, const char* name, Of&& of) {
  return guarded(function, [&] {
    if (to == nullptr) return null_argument(function, name);
    std::shared_ptr<Communicator> communicator;
    TUTTI_NCCL_TRY(find_communicator(function, comm, &communicator));
    if (communicator->state() == ncclInProgress && !communicator->has_finalized()) {
      return communicator->check_usable(function);
    }
    *to = of(*communicator);
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;

extern "C" {

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return guarded("ncclCommFinalize", [&] { return finalize(comm); });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded("ncclCommDestroy", [&] {
    return comm == nullptr ? ncclSuccess : destroy(comm);
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guarded("ncclCommAbort", [&] {
    if (comm == nullptr) return ncclSuccess;
    std::shared_ptr<Communicator> communicator;
    TUTTI_NCCL_TRY(remove("ncclCommAbort", comm, &communicator));
    communicator->abort();
    return leave_now(std::move(communicator));
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return guarded("ncclCommRevoke", [&] { return revoke(comm, flags); });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guarded("ncclCommGetAsyncError", [&] {
    if (error == nullptr) return null_argument("ncclCommGetAsyncError", "asyncError");
    std::shared_ptr<Communicator> communicator;
    TUTTI_NCCL_TRY(find_communicator("ncclCommGetAsyncError", comm, &communicator));
    *error = communicator->state();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return query("ncclCommCount", comm, count, "count", [](auto& communicator) { return communicator.nranks(); });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return query("ncclCommCuDevice", comm, device, "device",
               [](auto& communicator) { return communicator.place().device; });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return query("ncclCommUserRank", comm, rank, "rank", [](auto& communicator) { return communicator.rank(); });
}

}  // extern "C"

TUTTI_NCCL_TWIN(CommFinalize);
TUTTI_NCCL_TWIN(CommDestroy);
TUTTI_NCCL_TWIN(CommAbort);
TUTTI_NCCL_TWIN(CommRevoke);
TUTTI_NCCL_TWIN(CommGetAsyncError);
TUTTI_NCCL_TWIN(CommCount);
TUTTI_NCCL_TWIN(CommCuDevice);
TUTTI_NCCL_TWIN(CommUserRank);
