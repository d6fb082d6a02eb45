// Any of the driver's calls may fail, at any time: then the ranks say which, or go on without it; none waits for ever,
// and what is said to be done is right.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <thread>

#include "cuda/jobs.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 2;
constexpr size_t kCount = 1000;
const std::vector<int32_t> kSum(kCount, 3);

constexpr const char* kCalls[] = {
#define TUTTI_CUDA_CALL(name, version) #name,
    TUTTI_CUDA_CALLS(TUTTI_CUDA_CALL)
#undef TUTTI_CUDA_CALL
};

struct Buffers {
  explicit Buffers(int rank, Where where) : in(kCount, where, rank + 1), out(kCount, where) {}
  OnGpu<int32_t> in, out;
  std::string sum(tutti_comm_t* comm, const Stream& stream) {
    return said(comm, tutti_all_reduce(in.data(), out.data(), kCount, TUTTI_INT32, TUTTI_SUM, comm, stream.get()));
  }
};

// "" when all went well, or the communicator's failure.
std::string call_all(tutti_comm_t* comm, const Stream& stream, std::vector<std::unique_ptr<Buffers>>& all) {
  std::string error;
  for (auto& buffers : all) error += buffers->sum(comm, stream);
  (void)stream.synchronize();
  if (tutti_comm_status(comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
  if (!error.empty()) return error;
  for (auto& buffers : all) error += buffers->out.download() == kSum ? "" : "another sum; ";
  return error;
}

std::vector<std::unique_ptr<Buffers>> make_buffers(int rank) {
  std::vector<std::unique_ptr<Buffers>> all;
  for (Where where : {Where::kDevice, Where::kManaged, Where::kDevice}) {
    all.push_back(std::make_unique<Buffers>(rank, where));
  }
  return all;
}

void check(const std::string& call, const std::vector<std::string>& said_by) {
  bool has_failed = false, is_named = false;
  for (const std::string& each : said_by) {
    UNSCOPED_INFO(each);
    CHECK_THAT(each, !Catch::Contains("another sum"));
    has_failed = has_failed || !each.empty();
    is_named = is_named || each.find(call) != std::string::npos;
  }
  for (const std::string& each : said_by) UNSCOPED_INFO(each);
  CHECK(has_failed == is_named);
}

const Options kOptions = {{"timeout_ms", "20000"}};

using Names = std::set<std::string>;

// Each of these was made at the time, and failed.
void check_made(const Names& failed, const Names& must_be_made) {
  for (const std::string& call : must_be_made) {
    INFO(call);
    CHECK(failed.contains(call));
  }
}

// The call fails while ranks join: on `device`, and on those that are `step` further for each. Whether it was made.
bool fails_while_joining(const char* call, int after, int device, int step) {
  const Gpu& gpu = Gpu::driver();
  INFO(call << " after " << after);
  std::atomic<int> here{0};
  std::atomic<bool> may_join{false};
  auto wrong = with_ranks(
      kRanks, gpu_options(kOptions),
      [&](tutti_comm_t* comm, int rank) {
        gpu.fake_fail("", 0, CUDA_SUCCESS);
        auto all = make_buffers(rank);
        Stream stream;
        return call_all(comm, stream, all);
      },
      [&](int rank) {
        gpu.use(device + rank * step);
        if (++here == kRanks) {
          gpu.fake_fail(call, after, CUDA_ERROR_UNKNOWN);
          may_join = true;
        }
        while (!may_join) std::this_thread::yield();
      });
  gpu.fake_fail("", 0, CUDA_SUCCESS);
  check(call, wrong);
  return gpu.fake_has_failed() != 0;
}

// Where ranks are: rank * `step` is the device of each.
void check_joining(int step, const Names& must_be_made) {
  Names failed;
  for (const char* call : kCalls) {
    for (int after : {0, 1}) {
      if (fails_while_joining(call, after, 0, step)) failed.insert(call);
    }
  }
  check_made(failed, must_be_made);
}

// What fails while ranks leave is nobody's loss any more.
void check_leaving(int step, const Names& must_be_made) {
  const Gpu& gpu = Gpu::driver();
  Names failed;
  for (const char* call : kCalls) {
    INFO(call);
    auto body = [&](tutti_comm_t* comm, int rank) {
      std::string error;
      {
        auto all = make_buffers(rank);
        Stream stream;
        error = call_all(comm, stream, all);
      }
      error += said(comm, tutti_barrier(comm, nullptr));
      if (rank == 0) gpu.fake_fail(call, 0, CUDA_ERROR_UNKNOWN);
      return error;
    };
    auto wrong = step == 0 ? with_ranks_of_one_gpu(kRanks, kOptions, body) : with_ranks_of_gpus(kRanks, kOptions, body);
    gpu.fake_fail("", 0, CUDA_SUCCESS);
    if (gpu.fake_has_failed()) failed.insert(call);
    CHECK(wrong == std::vector<std::string>(kRanks));
  }
  check_made(failed, must_be_made);
}

void check_calls(int step, const Names& must_be_made) {
  const Gpu& gpu = Gpu::driver();
  Names failed;
  for (const char* call : kCalls) {
    for (int after : {0, 1, 3}) {
      INFO(call << " after " << after);
      auto body = [&](tutti_comm_t* comm, int rank) {
        auto all = make_buffers(rank);
        Stream stream;
        std::string error = call_all(comm, stream, all);
        error += said(comm, tutti_barrier(comm, nullptr));
        if (rank == 0) gpu.fake_fail(call, after, CUDA_ERROR_UNKNOWN);
        error += said(comm, tutti_barrier(comm, nullptr));
        if (!error.empty()) return error;
        for (auto& buffers : all) std::fill(buffers->out.host.begin(), buffers->out.host.end(), 0);
        return call_all(comm, stream, all);
      };
      auto wrong = step == 0 ? with_ranks_of_one_gpu(kRanks, kOptions, body)
                             : with_ranks_of_gpus(kRanks, kOptions, body);
      gpu.fake_fail("", 0, CUDA_SUCCESS);
      if (gpu.fake_has_failed()) failed.insert(call);
      check(call, wrong);
    }
  }
  check_made(failed, must_be_made);
}

// Rank 0 captures a call; what fails is named, and nothing is left behind.
void check_captures(int step) {
  const Gpu& gpu = Gpu::driver();
  for (const char* call : {"cuUserObjectCreate", "cuGraphRetainUserObject", "cuStreamGetCaptureInfo",
                           "cuStreamBatchMemOp", "cuLaunchHostFunc", "cuEventRecord"}) {
    INFO(call);
    Counted releases("cuUserObjectRelease");
    auto body = [&](tutti_comm_t* comm, int rank) -> std::string {
      Stream stream;
      Buffers buffers(rank, Where::kDevice);
      std::string error = buffers.sum(comm, stream);
      (void)stream.synchronize();
      error += said(comm, tutti_barrier(comm, nullptr));
      if (rank != 0 || !error.empty()) return error;
      CUgraph graph = nullptr;
      must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
      gpu.fake_fail(call, 0, CUDA_ERROR_UNKNOWN);
      error = buffers.sum(comm, stream);
      gpu.fake_fail("", 0, CUDA_SUCCESS);
      if (gpu.cuStreamEndCapture(stream.get(), &graph) == CUDA_SUCCESS) must(gpu.cuGraphDestroy(graph));
      return error;
    };
    auto wrong = step == 0 ? with_ranks_of_one_gpu(kRanks, kOptions, body) : with_ranks_of_gpus(kRanks, kOptions, body);
    CHECK(gpu.fake_has_failed());
    CHECK_THAT(wrong[0], Catch::Contains(call));
    CHECK(releases.now() == (std::string(call) == "cuGraphRetainUserObject" ? 1 : 0));
  }
}

// Other processes' memory is for processes_main.cpp.
const Names kJoinOnOne = {"cuCtxGetCurrent",   "cuCtxGetDevice",       "cuDeviceGetUuid",
                          "cuCtxPushCurrent",  "cuDeviceGetAttribute", "cuMemHostRegister",
                          "cuEventCreate",     "cuMemHostGetDevicePointer"};
const Names kJoinOnTwo = {"cuCtxGetCurrent",    "cuCtxGetDevice",        "cuDeviceGetUuid",
                          "cuCtxPushCurrent",   "cuDeviceGetAttribute",  "cuMemHostRegister",
                          "cuMemAlloc",         "cuMemsetD8Async",       "cuMemHostGetDevicePointer",
                          "cuDeviceGet",        "cuDeviceGetCount",      "cuDeviceGetP2PAttribute",
                          "cuMemGetAddressRange", "cuIpcGetMemHandle",   "cuStreamCreateWithPriority",
                          "cuPointerGetAttributes", "cuCtxEnablePeerAccess", "cuCtxGetStreamPriorityRange",
                          "cuStreamSynchronize"};
const Names kCallsMade = {"cuPointerGetAttributes", "cuCtxPushCurrent", "cuStreamGetCtx",  "cuStreamGetCaptureInfo",
                          "cuStreamWaitEvent",      "cuEventRecord",    "cuLaunchKernel",  "cuStreamBatchMemOp",
                          "cuMemcpyAsync",          "cuLaunchHostFunc"};

const Names kLeaveOne = {"cuEventQuery", "cuEventDestroy", "cuMemHostUnregister", "cuCtxPushCurrent"};
const Names kLeaveTwo = {"cuEventQuery", "cuMemFree", "cuStreamDestroy", "cuMemHostUnregister", "cuCtxPushCurrent"};

// Once in a process it is brought there, so each of these has a device of its own.
TEST_CASE("ranks of a GPU that code cannot be brought to go through the host") {
  int device = 1;
  for (const char* call : {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncGetAttribute"}) {
    CHECK(fails_while_joining(call, 0, device++, 0));
  }
}

TEST_CASE("a device whose context cannot be had is named, for a thread without a current device") {
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_ranks(1, gpu_options(kOptions), [&](tutti_comm_t* comm, int) {
    gpu.use(3);
    OnGpu<int32_t> value(kCount);
    std::string error;
    std::thread([&] {
      gpu.fake_fail("cuDevicePrimaryCtxRetain", 0, CUDA_ERROR_UNKNOWN);
      error = sum(comm, value, value, nullptr);
      gpu.fake_fail("", 0, CUDA_SUCCESS);
    }).join();
    return error;
  });
  CHECK_THAT(wrong[0], Catch::Contains("cuDevicePrimaryCtxRetain"));
}

TEST_CASE("a driver's call that fails while ranks join is named, or done without") {
  SECTION("on one GPU") { check_joining(0, kJoinOnOne); }
  SECTION("on two") { check_joining(1, kJoinOnTwo); }
}

TEST_CASE("a driver's call that fails in calls is named, or done without") {
  SECTION("on one GPU") { check_calls(0, kCallsMade); }
  SECTION("on two") { check_calls(1, kCallsMade); }
}

TEST_CASE("a driver's call that fails while ranks leave harms nobody") {
  SECTION("on one GPU") { check_leaving(0, kLeaveOne); }
  SECTION("on two") { check_leaving(1, kLeaveTwo); }
}

TEST_CASE("a driver's call that fails in a capture is named") {
  SECTION("on one GPU") { check_captures(0); }
  SECTION("on two") { check_captures(1); }
}

}  // namespace
}  // namespace tutti::test
