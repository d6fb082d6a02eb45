// Ranks as threads of this process, whose buffers are a GPU's or the host's, each as the test says. For tests.
#pragma once

#include "core/ranks.h"
#include "cuda/gpu.h"

namespace tutti::test {

inline Options gpu_options(Options more = {}) {
  more.insert({"cuda_driver", TUTTI_TEST_CUDA_DRIVER});
  more.insert({"cuda_module", TUTTI_TEST_CUDA_MODULE});
  return more;
}

// with_ranks() on threads that have a current device.
inline std::vector<std::string> with_gpu_ranks(int nranks, const Options& options,
                                               const std::function<std::string(tutti_comm_t*, int rank)>& body) {
  const Gpu& gpu = Gpu::driver();
  return with_ranks(nranks, gpu_options(options), [&](tutti_comm_t* comm, int rank) {
    gpu.use(rank % 2);
    return body(comm, rank);
  });
}

// With all ranks on one GPU, which they use before they join.
inline std::vector<std::string> with_ranks_of_one_gpu(int nranks, const Options& options,
                                                      const std::function<std::string(tutti_comm_t*, int)>& body) {
  const Gpu& gpu = Gpu::driver();
  return with_ranks(nranks, gpu_options(options), body, [&](int) { gpu.use(0); });
}

// "" or the error of the call, with its name.
inline std::string said(tutti_comm_t* comm, tutti_status_t status, const char* what = "") {
  return status == TUTTI_SUCCESS ? "" : std::string(what) + ": " + tutti_last_error(comm);
}

}  // namespace tutti::test
