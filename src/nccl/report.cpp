#include "nccl/report.h"

#include <mutex>

namespace tutti::nccl {
namespace {

// Never destroyed: threads may still fail while the process ends.
struct LastSentence {
  std::mutex mutex;
  std::string text;
};

LastSentence& last() {
  static auto* the_last = new LastSentence;
  return *the_last;
}

}  // namespace

void keep_sentence(std::string sentence) {
  std::lock_guard lock(last().mutex);
  last().text = std::move(sentence);
}

const char* last_sentence() {
  thread_local std::string given;
  std::lock_guard lock(last().mutex);
  given = last().text;
  return given.c_str();
}

ncclResult_t result_of(tutti_status_t status) {
  switch (status) {
    case TUTTI_SUCCESS: return ncclSuccess;
    case TUTTI_CUDA_ERROR: return ncclUnhandledCudaError;
    case TUTTI_SYSTEM_ERROR: return ncclSystemError;
    case TUTTI_INTERNAL_ERROR: return ncclInternalError;
    case TUTTI_INVALID_ARGUMENT: return ncclInvalidArgument;
    case TUTTI_INVALID_USAGE: return ncclInvalidUsage;
    case TUTTI_IN_PROGRESS: return ncclInProgress;
    case TUTTI_REMOTE_ERROR:
    case TUTTI_TIMEOUT:
    case TUTTI_ABORTED: return ncclRemoteError;
  }
  return ncclInternalError;
}

ncclResult_t result_of(tutti_status_t status, const char* function, const tutti_comm_t* comm) {
  if (status == TUTTI_SUCCESS) return ncclSuccess;
  std::string sentence = comm == nullptr ? "" : tutti_last_error(comm);
  if (sentence.empty()) sentence = tutti_last_error(nullptr);
  return refuse(result_of(status), "{}: {}", function, sentence);
}

}  // namespace tutti::nccl
