// What goes wrong on devices: one clear sentence, every rank told, and no stream held.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "cuda/jobs.h"

using Catch::Matchers::Contains;

namespace tutti::test {
namespace {

constexpr size_t kCount = 5000;

tutti_status_t sum(const OnGpu<float>& in, const OnGpu<float>& out, tutti_comm_t* comm, tutti_stream_t stream) {
  return tutti_all_reduce(in.data(), out.data(), kCount, TUTTI_FLOAT32, TUTTI_SUM, comm, stream);
}

TEST_CASE("host memory on a stream, and device memory in a started call, are refused") {
  auto wrong = with_gpu_ranks(1, {}, [&](tutti_comm_t* comm, int) -> std::string {
    OnGpu<float> host(kCount, Where::kHost), device(kCount);
    Stream stream;
    if (sum(device, host, comm, stream.get()) != TUTTI_INVALID_ARGUMENT) return "taken";
    std::string first = tutti_last_error(comm);
    tutti_request_t* request = nullptr;
    if (start_all_reduce(device.data(), device.data(), kCount, TUTTI_FLOAT32, TUTTI_SUM, comm, &request) !=
        TUTTI_INVALID_ARGUMENT) {
      return "started";
    }
    return first + "; " + tutti_last_error(comm);
  });
  CHECK_THAT(wrong[0], Contains("recv_buffer is memory that only the host can use") && Contains("pinned memory") &&
                           Contains("a buffer is a device's"));
}

TEST_CASE("a pair of buffers of which one is the host's alone is refused, and nothing of its group is started") {
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) -> std::string {
    OnGpu<float> host(kCount, Where::kHost, 1), device(kCount, Where::kDevice, 1);
    Stream stream;
    int peer = 1 - rank;
    std::string error;
    for (bool sends_device : {false, true}) {
      for (tutti_stream_t on : {static_cast<tutti_stream_t>(nullptr), static_cast<tutti_stream_t>(stream.get())}) {
        tutti_status_t status = tutti_send_recv(sends_device ? device.data() : host.data(), 10, peer, 0,
                                                sends_device ? host.data() : device.data(), 10, peer, 0, TUTTI_FLOAT32,
                                                comm, on, nullptr);
        if (status != TUTTI_INVALID_ARGUMENT) error += "taken; ";
      }
    }
    (void)tutti_group_begin();
    (void)sum(device, device, comm, stream.get());
    if (sum(host, device, comm, stream.get()) != TUTTI_INVALID_ARGUMENT) error += "taken in a group; ";
    if (tutti_group_end() != TUTTI_INVALID_ARGUMENT) error += "the group started; ";
    // The communicator goes on.
    error += said(comm, sum(device, device, comm, stream.get()));
    must(stream.synchronize());
    return error + (device.download()[0] == 2 ? "" : "the sum is wrong");
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("a buffer that this rank does not use may be anything") {
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) -> std::string {
    OnGpu<float> host(kCount, Where::kHost, 1), device(kCount, Where::kDevice, 1);
    Stream stream;
    std::string error;
    // Root 0 has both on the device; rank 1 has its input on the host, or its unused output.
    OnGpu<float>& input = rank == 0 ? device : host;
    error += said(comm, tutti_reduce(input.data(), device.data(), kCount, TUTTI_FLOAT32, TUTTI_SUM, 0, comm,
                                     rank == 0 ? stream.get() : nullptr));
    error += said(comm, tutti_reduce(device.data(), rank == 0 ? device.data() : host.data(), kCount, TUTTI_FLOAT32,
                                     TUTTI_SUM, 0, comm, stream.get()));
    must(stream.synchronize());
    if (rank == 0 && device.download()[0] != 3) error += "the sum is wrong";
    return error;
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("streams of which one is captured and one is not are refused, and the communicator goes on") {
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int) -> std::string {
    OnGpu<float> first(kCount, Where::kDevice, 1), second(kCount, Where::kDevice, 1);
    Stream a, b;
    CUgraph graph = nullptr;
    std::string error;
    must(gpu.cuStreamBeginCapture(b.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    (void)tutti_group_begin();
    (void)sum(first, first, comm, a.get());
    (void)sum(second, second, comm, b.get());
    if (tutti_group_end() != TUTTI_INVALID_USAGE) error += "taken; ";
    must(gpu.cuStreamEndCapture(b.get(), &graph));
    must(gpu.cuGraphDestroy(graph));
    error += said(comm, sum(first, first, comm, a.get()));
    must(a.synchronize());
    return error + (first.download()[0] == 2 ? "" : "the sum is wrong");
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("a driver's call that fails ends the communicator on all ranks, with its name") {
  const Gpu& gpu = Gpu::driver();
  if (gpu.fake_fail == nullptr) return;  // only the fake driver fails when it is told to
  for (const char* call : {"cuMemcpyAsync", "cuLaunchHostFunc", "cuStreamBatchMemOp", "cuEventRecord",
                           "cuStreamGetCaptureInfo"}) {
    INFO(call);
    auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) -> std::string {
      OnGpu<float> in(kCount, rank == 0 ? Where::kDevice : Where::kHost, 1);
      Stream stream;
      std::string error = said(comm, sum(in, in, comm, rank == 0 ? stream.get() : nullptr));
      must(stream.synchronize());
      if (!error.empty()) return "too early: " + error;
      if (rank == 0) gpu.fake_fail(call, 0, CUDA_ERROR_OUT_OF_MEMORY);
      error = said(comm, sum(in, in, comm, rank == 0 ? stream.get() : nullptr));
      if (rank == 0) gpu.fake_fail("", 0, CUDA_SUCCESS);
      must(stream.synchronize());  // whatever is on the stream gets through
      return error + "; then " + said(comm, sum(in, in, comm, rank == 0 ? stream.get() : nullptr));
    });
    CHECK_THAT(wrong[0], Contains(std::string(call) + ": CUDA_ERROR_OUT_OF_MEMORY (out of memory)"));
    CHECK_THAT(wrong[1], Contains("rank 0") && Contains(call));
  }
}

TEST_CASE("a capture that fails gives the memory of its call back") {
  constexpr size_t kMany = 777'777;
  const Gpu& gpu = Gpu::driver();
  if (gpu.fake_fail == nullptr) return;
  for (const char* call : {"cuUserObjectCreate", "cuGraphRetainUserObject"}) {
    INFO(call);
    auto fail_once = [&] {
      auto wrong = with_gpu_ranks(1, {}, [&](tutti_comm_t* comm, int) -> std::string {
        OnGpu<float> value(kMany);
        Stream stream;
        CUgraph graph = nullptr;
        must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        gpu.fake_fail(call, 0, CUDA_ERROR_OUT_OF_MEMORY);
        std::string error = said(comm, tutti_all_reduce(value.data(), value.data(), kMany, TUTTI_FLOAT32, TUTTI_SUM,
                                                        comm, stream.get()));
        gpu.fake_fail("", 0, CUDA_SUCCESS);
        if (gpu.cuStreamEndCapture(stream.get(), &graph) == CUDA_SUCCESS) must(gpu.cuGraphDestroy(graph));
        return error;
      });
      CHECK_THAT(wrong[0], Contains(call));
    };
    fail_once();
    Counted pinned("cuMemHostRegister");
    for (int i = 0; i < 3; ++i) fail_once();
    CHECK(pinned.now() == 0);
  }
}

TEST_CASE("a device that fails later is found, and the ranks that wait are told") {
  const Gpu& gpu = Gpu::driver();
  if (gpu.fake_break_device == nullptr) return;
  std::atomic<bool> has_called{false}, is_broken{false};
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) -> std::string {
    OnGpu<float> in(kCount, rank == 0 ? Where::kDevice : Where::kHost, 1);
    Stream stream;
    std::string error = said(comm, sum(in, in, comm, rank == 0 ? stream.get() : nullptr));
    if (rank != 0) {
      // Which asks the driver what the buffer is, while the device still works.
      tutti_call_t call{};
      call.struct_size = sizeof call;
      call.collective = TUTTI_ALL_REDUCE;
      call.datatype = TUTTI_FLOAT32;
      call.send_buffer = call.recv_buffer = in.data();
      call.count = kCount;
      tutti_request_t* request = nullptr;
      error += said(comm, tutti_start(comm, &call, &request));
      has_called = true;
      return error + said(comm, tutti_wait(&request));
    }
    must(stream.synchronize());
    // The stream is held when the device fails, so that it never gets to the call.
    CUhostFn hold = [](void* go) {
      while (!*static_cast<std::atomic<bool>*>(go)) std::this_thread::yield();
    };
    must(gpu.cuLaunchHostFunc(stream.get(), hold, &is_broken));
    error += said(comm, sum(in, in, comm, stream.get()));
    while (!has_called) std::this_thread::yield();
    gpu.fake_break_device(CUDA_ERROR_ILLEGAL_ADDRESS);
    is_broken = true;
    while (tutti_comm_status(comm) == TUTTI_SUCCESS) std::this_thread::yield();
    error += said(comm, tutti_comm_status(comm));
    (void)stream.synchronize();
    gpu.fake_break_device(CUDA_SUCCESS);
    return error;
  });
  CHECK_THAT(wrong[0], Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK_THAT(wrong[1], Contains("rank 0") && Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
}

}  // namespace
}  // namespace tutti::test
