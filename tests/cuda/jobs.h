// Ranks as threads of this process, whose buffers are a GPU's or the host's, each as the test says. For tests.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/ranks.h"
#include "cuda/gpu.h"

namespace tutti::test {

inline Options gpu_options(Options more = {}) {
  more.insert({"cuda_driver", Gpu::library()});
  more.insert({"cuda_module", Gpu::module()});
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

// With each rank on a GPU of its own.
inline std::vector<std::string> with_ranks_of_gpus(int nranks, const Options& options,
                                                   const std::function<std::string(tutti_comm_t*, int)>& body) {
  const Gpu& gpu = Gpu::driver();
  return with_ranks(nranks, gpu_options(options), body, [&](int rank) { gpu.use(rank); });
}

// How often the driver was asked for it meanwhile.
class Counted {
 public:
  explicit Counted(const char* call) : call_(call), before_(Gpu::driver().fake_calls(call)) {}
  int now() const { return Gpu::driver().fake_calls(call_) - before_; }

 private:
  const char* call_;
  int before_;
};

// "" or the error of the call, with its name.
inline std::string said(tutti_comm_t* comm, tutti_status_t status, const char* what = "") {
  return status == TUTTI_SUCCESS ? "" : std::string(what) + ": " + tutti_last_error(comm);
}

inline std::string sum(tutti_comm_t* comm, const OnGpu<int32_t>& in, const OnGpu<int32_t>& out,
                       tutti_stream_t stream) {
  return said(comm, tutti_all_reduce(in.data(), out.data(), in.host.size(), TUTTI_INT32, TUTTI_SUM, comm, stream));
}

inline void await_failure(tutti_comm_t* comm) {
  for (int i = 0; i < 2000 && tutti_comm_status(comm) == TUTTI_SUCCESS; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

inline bool has_become(const char* what, const std::vector<std::string>& sentences) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& each) { return each.find(what) != std::string::npos; });
}

}  // namespace tutti::test
