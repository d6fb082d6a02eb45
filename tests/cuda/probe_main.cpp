// What tutti assumes of a GPU and its driver, and no document says: which of the driver's calls wait for what streams
// have to do, and what a hand-over from stream to stream takes. Ends with 77 where there is no GPU.
//   test_cuda_probe [DRIVER [ROUNDS]]     libcuda.so.1, 200
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/direct_access.h"
#include "cuda/driver.h"

namespace tutti::cuda {
namespace {

constexpr int kNoGpu = 77;
constexpr size_t kBufferBytes = 8 << 20;
constexpr auto kLongest = std::chrono::milliseconds(500);  // that a stream is held while a call is tried

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// What the two processes have in common.
struct Shared {
  alignas(64) std::atomic<int> step{0};
  alignas(64) uint32_t ping = 0;
  alignas(64) uint32_t pong = 0;
  CUipcMemHandle handle{};
};

// A process with the GPU in use.
class Process {
 public:
  Process(const Driver& driver, Shared& shared) : driver_(driver) {
    CUdevice device = 0;
    must("cuDeviceGet", driver.cuDeviceGet(&device, 0));
    must("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(&context_, device));
    must("cuCtxPushCurrent", driver.cuCtxPushCurrent(context_));
    must("cuMemHostRegister", driver.cuMemHostRegister(&shared, sizeof shared, CU_MEMHOSTREGISTER_DEVICEMAP));
    stream_ = make_stream();
    must("cuMemAlloc", driver.cuMemAlloc(&memory_, kBufferBytes));
    must("cuMemAlloc", driver.cuMemAlloc(&other_memory_, kBufferBytes));
    synchronize();
  }

  void must(const char* call, CUresult result) const {
    if (result == CUDA_SUCCESS) return;
    std::fprintf(stderr, "%s\n", std::string(driver_error(driver_, call, result).message()).c_str());
    std::_Exit(1);
  }
  CUstream make_stream() const {
    CUstream made = nullptr;
    must("cuStreamCreateWithPriority", driver_.cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0));
    return made;
  }
  void wait(uint32_t& word, uint32_t value) const { put(stream_, op(word, value, false)); }
  void store(uint32_t& word, uint32_t value) const { put(stream_, op(word, value, true)); }
  void synchronize() const { must("cuStreamSynchronize", driver_.cuStreamSynchronize(stream_)); }
  void copy(int times) const {
    for (int i = 0; i < times; ++i) {
      must("cuMemcpyAsync", driver_.cuMemcpyAsync(memory_, other_memory_, kBufferBytes, stream_));
    }
  }
  CUdeviceptr memory() const { return memory_; }
  CUcontext context() const { return context_; }

 private:
  CUstreamBatchMemOpParams op(uint32_t& word, uint32_t value, bool is_store) const {
    CUdeviceptr seen = 0;
    must("cuMemHostGetDevicePointer", driver_.cuMemHostGetDevicePointer(&seen, &word, 0));
    CUstreamBatchMemOpParams made{};
    if (is_store) {
      made.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      made.writeValue.address = seen;
      made.writeValue.value = value;
    } else {
      made.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
      made.waitValue.address = seen;
      made.waitValue.value = value;
      made.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    }
    return made;
  }
  void put(CUstream stream, CUstreamBatchMemOpParams op) const {
    must("cuStreamBatchMemOp", driver_.cuStreamBatchMemOp(stream, 1, &op, 0));
  }

  const Driver& driver_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUdeviceptr other_memory_ = 0;
};

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// ---- Which calls wait

struct Call {
  const char* name;
  std::function<CUresult()> make;
};

// The calls that tutti may make while streams have something to do.
std::vector<Call> calls_of(const Driver& driver, const Shared& shared, std::vector<std::byte>& pages) {
  static CUdeviceptr opened = 0, allocated = 0;
  static CUstream stream = nullptr;
  static CUevent event = nullptr;
  constexpr size_t kPage = 4096;
  auto* page = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(pages.data()) + kPage - 1) / kPage * kPage);
  size_t size_bytes = (pages.size() - kPage) / kPage * kPage;
  return {
      {"cuMemHostRegister",
       [=, &driver] { return driver.cuMemHostRegister(page, size_bytes, CU_MEMHOSTREGISTER_PORTABLE); }},
      {"cuMemHostUnregister", [=, &driver] { return driver.cuMemHostUnregister(page); }},
      {"cuIpcOpenMemHandle",
       [&] { return driver.cuIpcOpenMemHandle(&opened, shared.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS); }},
      {"cuIpcCloseMemHandle", [&] { return driver.cuIpcCloseMemHandle(opened); }},
      {"cuMemAlloc", [&] { return driver.cuMemAlloc(&allocated, kBufferBytes); }},
      {"cuMemFree", [&] { return driver.cuMemFree(allocated); }},
      {"cuStreamCreateWithPriority",
       [&] { return driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0); }},
      {"cuStreamDestroy", [&] { return driver.cuStreamDestroy(stream); }},
      {"cuEventCreate", [&] { return driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING); }},
      {"cuEventDestroy", [&] { return driver.cuEventDestroy(event); }},
  };
}

// What a call takes while `hold` has something for the stream, which goes on behind `release`.
std::string time_of(const Call& call, const std::function<void()>& hold, const std::function<void()>& release) {
  std::atomic<bool> is_done{false};
  hold();
  std::thread watch([&] {
    auto end = Clock::now() + kLongest;
    while (!is_done && Clock::now() < end) std::this_thread::sleep_for(std::chrono::microseconds(100));
    release();
  });
  auto begin = Clock::now();
  CUresult result = call.make();
  double us = us_since(begin);
  is_done = true;
  watch.join();
  if (result != CUDA_SUCCESS) return fmt::format("error {}", static_cast<int>(result));
  return fmt::format("{:.0f}", us);
}

void say_which_wait(const Driver& driver, const Process& process, Shared& shared, int copies) {
  say(fmt::format("Which of the driver's calls wait: their time in us; {} ms is as long as a stream was held",
                  kLongest.count()));
  say(fmt::format("{:<28}{:>14}{:>22}{:>20}", "", "GPU idle", "stream at a word", "stream copies"));
  std::vector<std::byte> pages(8 << 20);
  std::vector<Call> calls = calls_of(driver, shared, pages);
  std::vector<std::string> lines(calls.size());
  uint32_t held = 0;
  for (int state = 0; state < 3; ++state) {
    for (size_t i = 0; i < calls.size(); ++i) {
      auto hold = [&] {
        ++held;
        if (state == 1) process.wait(shared.ping, held);
        if (state == 2) process.copy(copies);
      };
      auto release = [&] { std::atomic_ref(shared.ping).store(held, std::memory_order_release); };
      std::string time = time_of(calls[i], hold, release);
      process.synchronize();
      constexpr int kWidths[] = {14, 22, 20};
      lines[i] += fmt::format("{:>{}}", time, kWidths[state]);
    }
  }
  for (size_t i = 0; i < calls.size(); ++i) say(fmt::format("{:<28}{}", calls[i].name, lines[i]));
  auto begin = Clock::now();
  process.copy(copies);
  process.synchronize();
  say(fmt::format("{} such copies take {:.0f} us", copies, us_since(begin)));
}

// ---- What hand-overs take

// Streams of two processes wait for each other's words in turn.
void pass_between_processes(const Process& process, Shared& shared, bool is_first, int rounds, uint32_t from) {
  for (int i = 1; i <= rounds; ++i) {
    auto number = from + static_cast<uint32_t>(i);
    if (is_first) process.store(shared.ping, number);
    process.wait(is_first ? shared.pong : shared.ping, number);
    if (!is_first) process.store(shared.pong, number);
  }
}

void say_hand_over(const Driver& driver, const Process& process, int rounds) {
  CUevent events[2];
  CUstream streams[2] = {process.make_stream(), process.make_stream()};
  for (CUevent& each : events) process.must("cuEventCreate", driver.cuEventCreate(&each, CU_EVENT_DISABLE_TIMING));
  auto begin = Clock::now();
  for (int i = 0; i < 2 * rounds; ++i) {
    process.must("cuEventRecord", driver.cuEventRecord(events[i % 2], streams[i % 2]));
    process.must("cuStreamWaitEvent", driver.cuStreamWaitEvent(streams[(i + 1) % 2], events[i % 2], 0));
  }
  for (CUstream each : streams) process.must("cuStreamSynchronize", driver.cuStreamSynchronize(each));
  say(fmt::format("Two streams of a process, by events, there and back: {:.1f} us", us_since(begin) / rounds));
}

// What a NIC finds: whether memory of any size has a dma-buf, also where it neither begins nor ends with a page.
void say_direct_access(const Driver& driver, const Process& process) {
  DirectAccess access(driver);
  for (size_t size_bytes : {size_t{700}, size_t{70'001}, size_t{3'000'001}, kBufferBytes}) {
    CUdeviceptr memory = 0;
    process.must("cuMemAlloc", driver.cuMemAlloc(&memory, size_bytes));
    auto allocation = access.allocation_of(reinterpret_cast<void*>(memory), process.context());
    std::string found = std::string(allocation.status().message());
    if (allocation.ok()) {
      auto dma_buf = access.open_dma_buf(*allocation);
      found = fmt::format("of {} at ...{:03x}, sees writes in order: {}; {}", allocation->bytes.size(), memory & 0xfff,
                          allocation->sees_writes,
                          dma_buf.ok() ? fmt::format("a dma-buf, {} bytes in", dma_buf->offset)
                                       : std::string(dma_buf.status().message()));
    }
    say(fmt::format("Allocation of {} bytes: {}", size_bytes, found));
    process.must("cuMemFree", driver.cuMemFree(memory));
  }
}

void await(const Shared& shared, int step) {
  while (shared.step.load(std::memory_order_acquire) < step) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// The other process: shares memory, and passes words back.
int be_other(const Driver& driver, Shared& shared, int rounds) {
  Process process(driver, shared);
  process.must("cuIpcGetMemHandle", driver.cuIpcGetMemHandle(&shared.handle, process.memory()));
  shared.step.store(1, std::memory_order_release);
  await(shared, 2);
  pass_between_processes(process, shared, false, rounds, shared.pong);
  shared.step.store(3, std::memory_order_release);
  process.synchronize();
  await(shared, 4);  // its memory is open until then
  return 0;
}

int probe(const Driver& driver, Shared& shared, int rounds) {
  Process process(driver, shared);
  await(shared, 1);
  say_which_wait(driver, process, shared, rounds);
  say_hand_over(driver, process, rounds);
  say_direct_access(driver, process);
  shared.ping = shared.pong = 0;
  shared.step.store(2, std::memory_order_release);
  await(shared, 3);
  auto begin = Clock::now();
  pass_between_processes(process, shared, true, rounds, 0);
  process.synchronize();
  say(fmt::format("Streams of two processes, by words, there and back: {:.1f} us; a time slice is 1000 or more",
                  us_since(begin) / rounds));
  shared.step.store(4, std::memory_order_release);
  return 0;
}

int run(const std::string& library, int rounds) {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  Shared& shared = *new (memory) Shared;
  pid_t child = ::fork();  // before either has opened the driver
  auto driver = Driver::open(library);
  bool is_there = driver.ok() && driver->cuInit(0) == CUDA_SUCCESS;
  int devices = 0;
  is_there = is_there && driver->cuDeviceGetCount(&devices) == CUDA_SUCCESS && devices > 0;
  if (child == 0) std::_Exit(is_there ? be_other(*driver, shared, rounds) : kNoGpu);
  int status = 0;
  if (!is_there) {
    say(driver.ok() ? "there is no GPU" : std::string(driver.status().message()));
    (void)::waitpid(child, &status, 0);
    return kNoGpu;
  }
  // Who waits for a process that has ended waits for ever.
  std::thread watch([&] {
    (void)::waitpid(child, &status, 0);
    if (status != 0) std::_Exit(1);
  });
  int result = probe(*driver, shared, rounds);
  watch.join();
  return result;
}

}  // namespace
}  // namespace tutti::cuda

int main(int argc, char** argv) {
  return tutti::cuda::run(argc > 1 ? argv[1] : "libcuda.so.1", argc > 2 ? std::atoi(argv[2]) : 200);
}
