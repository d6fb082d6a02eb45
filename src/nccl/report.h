// Failures as NCCL's programs see them: a result, and a sentence for ncclGetLastError().
#pragma once

#include <fmt/format.h>

#include <new>
#include <string>
#include <utility>

#include "nccl/abi.h"

namespace tutti::nccl {

// Keeps the sentence as the process's last one; threads that poll ask for what others were refused.
void keep_sentence(std::string sentence);
// "" when there was none. Valid until the calling thread asks again.
const char* last_sentence();

template <typename... Args>
ncclResult_t refuse(ncclResult_t result, fmt::format_string<Args...> text, Args&&... args) {
  keep_sentence(fmt::format(text, std::forward<Args>(args)...));
  return result;
}

inline ncclResult_t null_argument(const char* function, const char* name) {
  return refuse(ncclInvalidArgument, "{}: {} is NULL", function, name);
}

// NCCL's name for a status; what NCCL has none for, a deadline and an abort, came from another rank.
ncclResult_t result_of(tutti_status_t status);
// The same of a call that tutti has made, whose sentence is kept. `comm` may be null.
ncclResult_t result_of(tutti_status_t status, const char* function, const tutti_comm_t* comm);

// Runs the body of an entry point: no exception leaves it.
template <typename Body>
ncclResult_t guarded(const char* function, Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return ncclSystemError;  // no memory for a sentence either
  } catch (const std::exception& problem) {
    return refuse(ncclSystemError, "{}: {}", function, problem.what());
  }
}

}  // namespace tutti::nccl

// Returns what is no success from this function.
#define TUTTI_NCCL_TRY(expression)                                           \
  do {                                                                       \
    ncclResult_t tutti_nccl_result = (expression);                           \
    if (tutti_nccl_result != ncclSuccess) return tutti_nccl_result;          \
  } while (false)

// Exports the function by its second name, which profilers call when they have put themselves in front of the first.
#define TUTTI_NCCL_TWIN(name) \
  extern "C" TUTTI_API decltype(nccl##name) pnccl##name __attribute__((alias("nccl" #name)))
