// The interpreter's kernels on one GPU, where ranks cannot each have their own: here each has a stream of one process,
// and all of their blocks have room on the GPU at once, so that they may wait for each other. What they receive is
// compared with what a plain loop on the host gives. Says what is wrong, and ends with 1; 77: there is no GPU.
//   test_cuda_interpreter [DRIVER [CASES]]     libcuda.so.1, 1000
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>

#include "cuda/driver.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/gpu_job.h"

namespace tutti::test {
namespace {

using cuda::Driver;

constexpr int kNoGpu = 77;
constexpr int kMostRanks = 8;
constexpr uint64_t kLimitNs = 5'000'000'000;

// Memory of the host, as it lies on the GPU while launches run: at the same distance from where lines begin.
class Copies {
 public:
  Copies(const Driver& driver, CUstream stream) : driver_(driver), stream_(stream) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  ~Copies() {
    for (const Copy& each : copies_) (void)driver_.cuMemFree(each.allocated);
  }

  Status add(const GpuJob::Memory& memory) {
    constexpr uint64_t kLine = 256;
    CUdeviceptr allocated = 0;
    TUTTI_CUDA_TRY(driver_, cuMemAlloc, &allocated, memory.size_bytes + 2 * kLine);
    uint64_t begin = (allocated + kLine - 1) / kLine * kLine + memory.address % kLine;
    copies_.push_back({memory, allocated, begin});
    return move(begin, memory.address, memory.size_bytes);
  }
  Status take_back() {
    for (const Copy& each : copies_) TUTTI_TRY(move(each.memory.address, each.begin, each.memory.size_bytes));
    return {};
  }
  uint64_t on_gpu(uint64_t address) const {
    for (const Copy& each : copies_) {
      uint64_t end = each.memory.address + std::max<uint64_t>(each.memory.size_bytes, 1);
      if (address >= each.memory.address && address < end) return each.begin + (address - each.memory.address);
    }
    return address;  // of a buffer that is not used
  }

 private:
  struct Copy {
    GpuJob::Memory memory;
    CUdeviceptr allocated = 0;
    uint64_t begin = 0;
  };
  Status move(uint64_t to, uint64_t from, uint64_t size_bytes) const {
    if (size_bytes == 0) return {};
    TUTTI_CUDA_TRY(driver_, cuMemcpyAsync, to, from, size_bytes, stream_);
    TUTTI_CUDA_TRY(driver_, cuStreamSynchronize, stream_);
    return {};
  }

  const Driver& driver_;
  const CUstream stream_;
  std::deque<Copy> copies_;
};

class OneGpu {
 public:
  explicit OneGpu(const Driver& driver) : driver_(driver) {}

  Status open() {
    CUdevice device = 0;
    CUcontext context = nullptr;
    TUTTI_CUDA_TRY(driver_, cuInit, 0);
    TUTTI_CUDA_TRY(driver_, cuDeviceGet, &device, 0);
    TUTTI_CUDA_TRY(driver_, cuDevicePrimaryCtxRetain, &context, device);
    TUTTI_CUDA_TRY(driver_, cuCtxPushCurrent, context);
    CUmodule module = nullptr;
    TUTTI_CUDA_TRY(driver_, cuModuleLoadData, &module, cuda::kProgramCode.image);
    for (const char* name : cuda::kProgramCode.kernels) {
      int registers = 0;
      TUTTI_CUDA_TRY(driver_, cuModuleGetFunction, &kernels_[name], module, name);
      TUTTI_CUDA_TRY(driver_, cuFuncGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernels_[name]);
    }
    for (CUstream& stream : streams_) {
      TUTTI_CUDA_TRY(driver_, cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
    }
    return {};
  }

  Status launch(const std::string& kernel, std::span<cuda::ProgramArgs> args, std::span<const GpuJob::Memory> memory) {
    struct Words {
      uint32_t cancelled = 0;
      uint32_t late = 0;
    } words;
    Copies copies(driver_, streams_[0]);
    for (const GpuJob::Memory& each : memory) TUTTI_TRY(copies.add(each));
    TUTTI_TRY(copies.add({reinterpret_cast<uint64_t>(&words), sizeof words}));
    auto on_gpu = [&]<class T>(T* pointer) {
      return reinterpret_cast<T*>(copies.on_gpu(reinterpret_cast<uint64_t>(pointer)));
    };
    for (cuda::ProgramArgs& each : args) {
      each.program = on_gpu(each.program);
      each.cancelled = on_gpu(&words.cancelled);
      each.late = on_gpu(&words.late);
      each.limit_ns = kLimitNs;
      for (uint32_t rank = 0; rank < each.ranks; ++rank) {
        cuda::GpuRank& there = each.of[rank];
        there = {copies.on_gpu(there.input), copies.on_gpu(there.output), copies.on_gpu(there.arena),
                 there.takes_output};
      }
    }
    for (cuda::ProgramArgs& each : args) {
      void* parameters[] = {&each};
      TUTTI_CUDA_TRY(driver_, cuLaunchKernel, kernels_.at(kernel), each.channels, 1, 1, cuda::kProgramThreads, 1, 1, 0,
                     streams_[each.rank], parameters, nullptr);
    }
    for (CUstream stream : streams_) TUTTI_CUDA_TRY(driver_, cuStreamSynchronize, stream);
    TUTTI_TRY(copies.take_back());
    if (words.late == 0) return {};
    return error(Code::kTimeout, "a kernel has waited in vain for that of rank {}", words.late - 1);
  }

 private:
  const Driver& driver_;
  std::map<std::string, CUfunction> kernels_;
  CUstream streams_[kMostRanks] = {};
};

std::string run(OneGpu& gpu, int cases) {
  std::mt19937_64 random(8);
  int done = 0;
  for (int round = 0; done < cases; ++round) {
    int nranks = 2 + round % (kMostRanks - 1);
    GpuJob job(nranks);
    for (const Algorithm* algorithm : algorithms()) {
      if (done++ >= cases) break;
      GpuCase which = draw_gpu_case(*algorithm, nranks, random);
      which.count *= 1 + random() % 8;
      std::string wrong = job.run(which, random, [&](const std::string& kernel, auto args, auto memory) {
        return std::string(gpu.launch(kernel, args, memory).message());
      });
      if (!wrong.empty()) return fmt::format("{} ranks, {}: {}", nranks, which.text(), wrong);
    }
  }
  return "";
}

int run(const char* library, int cases) {
  auto driver = Driver::open(library);
  if (!driver.ok() || cuda::kProgramCode.image == nullptr) {
    std::string why(driver.ok() ? "this build has no device code" : driver.status().message());
    std::printf("not run: %s\n", why.c_str());
    return kNoGpu;
  }
  OneGpu gpu(*driver);
  if (Status opened = gpu.open(); !opened.ok()) {
    std::printf("not run: %s\n", std::string(opened.message()).c_str());
    return kNoGpu;
  }
  std::string wrong = run(gpu, cases);
  std::printf("%s\n", wrong.empty() ? fmt::format("{} calls are right", cases).c_str() : wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tutti::test

int main(int argc, char** argv) {
  return tutti::test::run(argc > 1 ? argv[1] : "libcuda.so.1", argc > 2 ? std::atoi(argv[2]) : 1000);
}
