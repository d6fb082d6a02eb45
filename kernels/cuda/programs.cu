// The interpreter's instances, by names that the driver finds them by.
#include "kernels/cuda/program_run.h"

namespace tutti::cuda {
namespace {

// Words are in memory of any GPU and of the host: system scope.
class GpuEnv {
 public:
  __device__ uint32_t block() const { return blockIdx.x; }
  __device__ uint32_t thread() const { return threadIdx.x; }
  __device__ uint32_t threads() const { return blockDim.x; }

  template <class Value>
  __device__ Value load(uint64_t address) const {
    return *reinterpret_cast<const Value*>(address);
  }
  template <class Value>
  __device__ void store(uint64_t address, const Value& value) const {
    *reinterpret_cast<Value*>(address) = value;
  }
  __device__ uint64_t load_acquire(uint64_t address, Order) const {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
  }
  __device__ void store_release(uint64_t address, uint64_t value, Order) const {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
  }
  __device__ void sync(Barrier) const { __syncthreads(); }
  __device__ bool sync_or(bool mine, Barrier) const { return __syncthreads_or(mine) != 0; }
  __device__ bool is_cancelled(const uint32_t* word) const {
    return *reinterpret_cast<const volatile uint32_t*>(word) != 0;
  }
  __device__ void say_late(uint32_t* word, uint32_t value) const {
    *reinterpret_cast<volatile uint32_t*>(word) = value;
  }
  __device__ uint64_t now_ns() const {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
};

template <class Element>
__device__ void run_program(const ProgramArgs& args) {
  __shared__ ProgramBlock shared;
  GpuEnv env;
  ProgramRun<GpuEnv, Element>(args, env, shared).run();
}

}  // namespace

#define TUTTI_PROGRAM(name, element)                                   \
  extern "C" __global__ void __launch_bounds__(kProgramThreads, 1)     \
      tutti_program_##name(const __grid_constant__ ProgramArgs args) { \
    run_program<element>(args);                                        \
  }
#include "kernels/cuda/program_kernels.inc"
#undef TUTTI_PROGRAM

}  // namespace tutti::cuda
