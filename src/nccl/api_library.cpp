// Entry points that know no communicator: versions, errors, groups.
#include "nccl/group.h"
#include "nccl/report.h"

using namespace tutti::nccl;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return guarded("ncclGetVersion", [&] {
    if (version == nullptr) return null_argument("ncclGetVersion", "version");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error: ncclGetLastError() says which";
    case ncclSystemError: return "unhandled system error: ncclGetLastError() says which";
    case ncclInternalError: return "internal error: a defect in tutti, please report what ncclGetLastError() says";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote error: another rank failed, left or is late; ncclGetLastError() says which";
    case ncclInProgress: return "in progress";
    default: return "unknown result code";
  }
}

/* NCCL does not look at the communicator either. */
const char* ncclGetLastError(ncclComm_t) { return last_sentence(); }

/* Making a config reads the environment, and the level of the log with it. */
void ncclResetDebugInit(void) {
  tutti_config_t* config = nullptr;
  if (tutti_config_create(&config) == TUTTI_SUCCESS) tutti_config_destroy(config);
}

ncclResult_t ncclGroupStart(void) {
  Group::of_thread().begin();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
  return guarded("ncclGroupEnd", [] { return Group::of_thread().end(); });
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  const char* function = "ncclGroupSimulateEnd";
  return guarded(function, [&] {
    float expected_us = NCCL_UNDEF_FLOAT;
    ncclResult_t ended = Group::of_thread().simulate(&expected_us);
    if (info == nullptr) return null_argument(function, "simInfo");
    if (info->magic != NCCL_SIM_INFO_MAGIC || info->size < sizeof(ncclSimInfo_t)) {
      return refuse(ncclInvalidArgument,
                    "{}: the ncclSimInfo_t was not initialized: assign NCCL_SIM_INFO_INITIALIZER", function);
    }
    info->estimatedTime = expected_us;
    return ended;
  });
}

}  // extern "C"

TUTTI_NCCL_TWIN(GetVersion);
TUTTI_NCCL_TWIN(GetErrorString);
TUTTI_NCCL_TWIN(GetLastError);
TUTTI_NCCL_TWIN(ResetDebugInit);
TUTTI_NCCL_TWIN(GroupStart);
TUTTI_NCCL_TWIN(GroupEnd);
TUTTI_NCCL_TWIN(GroupSimulateEnd);
