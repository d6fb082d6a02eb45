// Kernels: launches run the bodies that g++ compiles from the same source.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "cuda/fake/calls.h"
#include "kernels/cuda/block_barrier.h"

namespace tutti::fake {
namespace {

// Of a launch: addresses as the host has them, and whether the kernel may use them.
class Addresses {
 public:
  explicit Addresses(CUcontext context) : context_(context) {}

  uint64_t seen(uint64_t address) {
    if (address == 0) return 0;
    Allocation allocation;
    std::byte* contents = nullptr;
    bool is_known = memory().find(reinterpret_cast<void*>(address), &allocation, &contents);
    are_reached_ = are_reached_ && is_known && reaches(context_, allocation);
    return reinterpret_cast<uint64_t>(contents);
  }
  template <class T>
  T* seen(T* pointer) {
    return reinterpret_cast<T*>(seen(reinterpret_cast<uint64_t>(pointer)));
  }
  // A kernel that is cancelled before it begins uses none of them.
  bool may_be_used(const uint32_t* cancelled) const {
    if (are_reached_ || cancelled == nullptr) return are_reached_;
    return std::atomic_ref(*const_cast<uint32_t*>(cancelled)).load(std::memory_order_acquire) != 0;
  }

 private:
  const CUcontext context_;
  bool are_reached_ = true;
};

// ---- The interpreter of Programs, whose threads wait for each other and for other GPUs: each is one of the host's.

struct Block {
  explicit Block(uint32_t threads) : barrier(threads) {}
  test::BlockBarrier barrier;
  cuda::ProgramBlock shared{};
};

class GpuThread : public cuda::HostEnv {
 public:
  GpuThread(Block& of, uint32_t block, uint32_t thread, uint32_t threads)
      : of_(of), block_(block), thread_(thread), threads_(threads) {}
  uint32_t block() const override { return block_; }
  uint32_t thread() const override { return thread_; }
  uint32_t threads() const override { return threads_; }
  void read(void* to, uint64_t address, size_t size_bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(address), size_bytes);
  }
  void write(uint64_t address, const void* from, size_t size_bytes) override {
    std::memcpy(reinterpret_cast<void*>(address), from, size_bytes);
  }
  uint64_t load_acquire(uint64_t address, cuda::Order) override {
    constexpr uint32_t kAwake = 32;
    if (++looks_ % kAwake == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    } else {
      std::this_thread::yield();
    }
    return std::atomic_ref(*reinterpret_cast<uint64_t*>(address)).load(std::memory_order_acquire);
  }
  void store_release(uint64_t address, uint64_t value, cuda::Order) override {
    std::atomic_ref(*reinterpret_cast<uint64_t*>(address)).store(value, std::memory_order_release);
  }
  bool sync_or(bool mine, cuda::Barrier) override { return of_.barrier.arrive(mine); }
  bool is_cancelled(const uint32_t* word) override {
    bool is_told = std::atomic_ref(*const_cast<uint32_t*>(word)).load(std::memory_order_acquire) != 0;
    return is_told || has_device_failed();
  }
  void say_late(uint32_t* word, uint32_t value) override {
    std::atomic_ref(*word).store(value, std::memory_order_release);
  }
  uint64_t now_ns() override {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  }

 private:
  Block& of_;
  const uint32_t block_, thread_, threads_;
  uint32_t looks_ = 0;
};

// With a few threads for each block: those that have peers, and one more.
void run_program(cuda::ProgramBody body, const cuda::ProgramArgs& args, uint32_t blocks) {
  uint32_t few = args.ranks + 1;
  std::deque<Block> all;
  std::deque<GpuThread> envs;
  std::vector<std::thread> threads;
  for (uint32_t b = 0; b < blocks; ++b) {
    Block& block = all.emplace_back(few);
    for (uint32_t t = 0; t < few; ++t) {
      GpuThread& env = envs.emplace_back(block, b, t, few);
      threads.emplace_back([&] { body(args, env, block.shared); });
    }
  }
  for (std::thread& each : threads) each.join();
}

CUresult launch_program(CUfunction function, unsigned blocks, unsigned threads, const cuda::ProgramArgs& given,
                        CUstream stream) {
  if (blocks != given.channels || threads != cuda::kProgramThreads) return CUDA_ERROR_INVALID_VALUE;
  auto args = std::make_shared<cuda::ProgramArgs>(given);
  Addresses addresses(stream->context);
  args->program = addresses.seen(given.program);
  args->cancelled = addresses.seen(given.cancelled);
  args->late = addresses.seen(given.late);
  for (uint32_t rank = 0; rank < given.ranks; ++rank) {
    for (uint64_t cuda::GpuRank::*place : {&cuda::GpuRank::input, &cuda::GpuRank::output, &cuda::GpuRank::arena}) {
      args->of[rank].*place = addresses.seen(given.of[rank].*place);
    }
  }
  return put(stream, [=, body = function->program, context = stream->context] {
    if (has_device_failed()) return true;
    if (holds_kernels(context)) return false;
    if (addresses.may_be_used(args->cancelled)) {
      run_program(body, *args, blocks);
    } else {
      fail_device(CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    return true;
  });
}

CUresult launch_fused(CUfunction function, unsigned blocks, unsigned threads, const cuda::FusedArgs& given,
                      CUstream stream) {
  auto args = std::make_shared<cuda::FusedArgs>(given);
  Addresses addresses(stream->context);
  for (uint64_t& address : args->addresses) address = addresses.seen(address);
  return put(stream, [=, body = function->fused, context = stream->context] {
    if (has_device_failed()) return true;
    if (holds_kernels(context)) return false;
    if (!addresses.may_be_used(args->cancelled)) {
      fail_device(CUDA_ERROR_ILLEGAL_ADDRESS);
      return true;
    }
    // Each with a few of its threads, which do what all would.
    unsigned few = std::min(threads, 4U);
    for (unsigned block = 0; block < blocks; ++block) {
      for (unsigned thread = 0; thread < few; ++thread) body(*args, {block, blocks, thread, few});
    }
    return true;
  });
}

}  // namespace
}  // namespace tutti::fake

using namespace tutti::fake;

CALL cuModuleLoadData(CUmodule* module, const void* image) {
  BEGIN(cuModuleLoadData);
  NEEDS_CONTEXT();
  constexpr uint32_t kFatBinary = 0xba55ed50;
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != kFatBinary) return CUDA_ERROR_INVALID_IMAGE;
  *module = new CUmod_st;
  return CUDA_SUCCESS;
}
CALL cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  BEGIN(cuModuleGetFunction);
  auto* fused = tutti::cuda::fused_body(name);
  auto* program = tutti::cuda::program_body(name);
  if (fused == nullptr && program == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = new CUfunc_st{fused, program};
  return CUDA_SUCCESS;
}
CALL cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction function) {
  BEGIN(cuFuncGetAttribute);
  *value = 32;
  function->is_loaded = true;
  return CUDA_SUCCESS;
}
CALL cuLaunchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                    unsigned, CUstream handle, void** parameters, void**) {
  BEGIN(cuLaunchKernel);
  NEEDS_CONTEXT();
  if (blocks == 0 || threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  if (!function->is_loaded) {
    std::fprintf(stderr, "a kernel is brought to the device by its first launch, which may wait for that\n");
    std::abort();
  }
  CUstream stream = resolve(handle);
  if (function->program != nullptr) {
    const auto& args = *static_cast<tutti::cuda::ProgramArgs*>(parameters[0]);
    return launch_program(function, blocks, threads, args, stream);
  }
  return launch_fused(function, blocks, threads, *static_cast<tutti::cuda::FusedArgs*>(parameters[0]), stream);
}
