// Ranks of one GPU: one launch does a call, and nothing goes through the host.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cuda/jobs.h"

namespace tutti::test {
namespace {

TEST_CASE("calls among ranks of one GPU take one launch each and never the host") {
  constexpr int kRanks = 4, kCalls = 20;
  Counted launches("cuLaunchKernel"), host("cuLaunchHostFunc"), copies("cuMemcpyAsync");
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    std::string error;
    for (int i = 0; i < kCalls; ++i) error += sum(comm, in, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    return error + (out.download() == std::vector<int32_t>(1000, 10) ? "" : "another sum");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
  CHECK(launches.now() == kCalls);
  CHECK(host.now() == 0);
  CHECK(copies.now() == 0);
}

// A process has eight queues per device, here as on a GPU: streams beyond that share them.
TEST_CASE("threads on one GPU may have more streams than that has queues") {
  constexpr int kCalls = 20;
  for (int nranks : {9, 12, 16}) {
    INFO(nranks << " ranks");
    Counted launches("cuLaunchKernel");
    auto wrong = with_ranks_of_one_gpu(nranks, {{"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
      OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
      Stream streams[2];
      std::string error;
      for (int i = 0; i < kCalls; ++i) error += sum(comm, in, out, streams[(i + rank) % 2].get());
      for (const Stream& each : streams) {
        if (each.synchronize() != CUDA_SUCCESS) error += "a stream has failed";
      }
      int32_t all = nranks * (nranks + 1) / 2;
      return error + (out.download() == std::vector<int32_t>(1000, all) ? "" : "another sum");
    });
    CHECK(wrong == std::vector<std::string>(nranks));
    CHECK(launches.now() == kCalls);
  }
}

TEST_CASE("one thread has several ranks of one GPU by putting their calls into a group") {
  constexpr int kRanks = 4, kThreads = 2;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<tutti_comm_t*> comms(kRanks);
  int joined = 0, summed = 0;
  auto await = [&](int& count) {
    std::unique_lock lock(mutex);
    if (++count == kRanks) changed.notify_all();
    changed.wait(lock, [&] { return count == kRanks; });
  };
  auto wrong = with_ranks_of_one_gpu(kRanks, {{"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
    comms[static_cast<size_t>(rank)] = comm;
    await(joined);
    std::string error;
    if (rank < kThreads) {
      Stream streams[2];
      OnGpu<int32_t> in(100, Where::kDevice, 1);
      OnGpu<int32_t> outs[2] = {OnGpu<int32_t>(100), OnGpu<int32_t>(100)};
      tutti_group_begin();
      for (int i : {0, 1}) error += sum(comms[static_cast<size_t>(rank + i * kThreads)], in, outs[i], streams[i].get());
      error += said(comm, tutti_group_end());
      for (int i : {0, 1}) {
        must(streams[i].synchronize());
        error += outs[i].download() == std::vector<int32_t>(100, kRanks) ? "" : "another sum";
      }
    }
    await(summed);
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

// A thread of rank 0 is in a call, which waits on the host for rank 1; another one has the message that rank 1 waits
// for.
TEST_CASE("messages go on one GPU while another thread of the rank waits in a collective") {
  constexpr int kRanks = 2;
  const Gpu& gpu = Gpu::driver();
  bool rank_0_sends = GENERATE(true, false);
  std::atomic<bool> is_in_call{false};
  auto wrong = with_ranks_of_one_gpu(kRanks, {{"timeout_ms", "10000"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    // A stream that sends pinned memory goes on when that has been received.
    OnGpu<int32_t> message(64, rank == 0 ? Where::kDevice : Where::kPinned, rank == 0 ? 7 : 8);
    Stream messages;
    std::string error, error_of_call;
    auto all_reduce = [&] {
      gpu.use(0);
      Stream stream;
      error_of_call = sum(comm, in, out, stream.get());
      (void)stream.synchronize();
    };
    std::thread beside;
    if (rank == 0) {
      Counted events("cuEventRecord");
      beside = std::thread(all_reduce);
      while (events.now() == 0) std::this_thread::yield();  // it holds what it holds while it waits
      is_in_call = true;
    } else {
      while (!is_in_call) std::this_thread::yield();
    }
    bool sends = (rank == 0) == rank_0_sends;
    int peer = 1 - rank;
    error += sends ? said(comm, tutti_send(message.data(), 64, TUTTI_INT32, peer, 0, comm, messages.get()))
                   : said(comm, tutti_recv(message.data(), 64, TUTTI_INT32, peer, 0, comm, messages.get(), nullptr));
    (void)messages.synchronize();
    if (rank == 0) {
      beside.join();
    } else {
      all_reduce();
    }
    int32_t expected = rank_0_sends ? 7 : 8;
    if (message.download() != std::vector<int32_t>(64, expected)) error += "another message; ";
    if (out.download() != std::vector<int32_t>(1000, 3)) error += "another sum; ";
    return error + error_of_call;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("a barrier among ranks of one GPU needs no launch, and holds streams until all have come") {
  constexpr int kRanks = 3;
  Counted launches("cuLaunchKernel"), host("cuLaunchHostFunc");
  std::atomic<int> came{0};
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++came;
    std::string error = said(comm, tutti_barrier(comm, stream.get()));
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    return error + (came == kRanks ? "" : "not all have come");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
  CHECK(launches.now() == 0);
  CHECK(host.now() == 0);
}

TEST_CASE("hundreds of calls on one GPU may be under way, each on what the one before has stored") {
  constexpr int kRanks = 2, kCalls = 300;
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> a(100, Where::kDevice, rank == 0 ? 1 : 0), b(100);
    Stream stream;
    std::string error;
    // The sum doubles nothing: rank 1 gives zeros each time, from a third buffer.
    OnGpu<int32_t> zero(100);
    for (int i = 0; i < kCalls; ++i) {
      const OnGpu<int32_t>& from = i % 2 == 0 ? a : b;
      error += sum(comm, rank == 0 ? from : zero, i % 2 == 0 ? b : a, stream.get());
    }
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    return error + ((kCalls % 2 == 0 ? a : b).download() == std::vector<int32_t>(100, 1) ? "" : "another sum");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("calls of the GPU, of the host and through the host alternate, on several streams") {
  constexpr int kRanks = 3;
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream streams[2];
    std::string error;
    for (int i = 0; i < 30; ++i) {
      bool through_host = i % 3 == rank;  // for all, since one has its buffer elsewhere
      OnGpu<int32_t> in(500, through_host ? Where::kManaged : Where::kDevice, rank + i), out(500);
      const Stream& stream = streams[(i / 2 + rank) % 2];
      error += sum(comm, in, out, stream.get());
      int32_t mine = rank, all = 0;
      if (i % 4 == 0) error += said(comm, tutti_all_reduce(&mine, &all, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr));
      if (i % 4 == 0 && all != 3) error += "another sum on the host";
      if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
      if (out.download() != std::vector<int32_t>(500, 3 * i + 3)) error += "another sum in call " + std::to_string(i);
    }
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("groups and messages between calls of one GPU") {
  constexpr int kRanks = 2;
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> a(64, Where::kDevice, rank + 1), b(64, Where::kDevice, 10 * (rank + 1));
    OnGpu<int32_t> sum_a(64), sum_b(64), got(64);
    std::string error;
    for (int i = 0; i < 5; ++i) {
      error += sum(comm, a, sum_a, stream.get());
      tutti_group_begin();
      error += sum(comm, a, sum_a, stream.get()) + sum(comm, b, sum_b, stream.get());
      error += said(comm, tutti_send(a.data(), 64, TUTTI_INT32, 1 - rank, 3, comm, stream.get()));
      error += said(comm, tutti_recv(got.data(), 64, TUTTI_INT32, 1 - rank, 3, comm, stream.get(), nullptr));
      error += said(comm, tutti_group_end());
      error += sum(comm, b, sum_b, stream.get());
    }
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    if (sum_a.download() != std::vector<int32_t>(64, 3)) error += "another sum";
    if (sum_b.download() != std::vector<int32_t>(64, 30)) error += "another second sum";
    if (got.download() != std::vector<int32_t>(64, 2 - rank)) error += "another message";
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("a rank that repeats a captured call meets ranks that make it anew") {
  constexpr int kRanks = 2, kLaunches = 5;
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> in(256, Where::kDevice, rank + 1), out(256);
    std::string error = sum(comm, in, out, stream.get());
    if (rank == 0) {
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
      must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
      error += sum(comm, in, out, stream.get());
      must(gpu.cuStreamEndCapture(stream.get(), &graph));
      must(gpu.cuGraphInstantiateWithFlags(&exec, graph, 0));
      for (int i = 0; i < kLaunches; ++i) must(gpu.cuGraphLaunch(exec, stream.get()));
      error += sum(comm, in, out, stream.get());
      if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
      must(gpu.cuGraphExecDestroy(exec));
      must(gpu.cuGraphDestroy(graph));
    } else {
      for (int i = 0; i < kLaunches + 1; ++i) error += sum(comm, in, out, stream.get());
      if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    }
    return error + (out.download() == std::vector<int32_t>(256, 3) ? "" : "another sum");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("threads on one GPU need no handles of their memory") {
  constexpr int kRanks = 2;
  Counted launches("cuLaunchKernel"), host("cuLaunchHostFunc");
  Gpu::driver().fake_give_handles(0);
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    std::string error = sum(comm, in, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    return error + (out.download() == std::vector<int32_t>(1000, 3) ? "" : "another sum");
  });
  Gpu::driver().fake_give_handles(1);
  CHECK(wrong == std::vector<std::string>(kRanks));
  CHECK(launches.now() == 1);
  CHECK(host.now() == 0);
}

TEST_CASE("memory of a device is registered as it is, and what calls would look up is looked up then") {
  constexpr int kRanks = 2;
  Counted handles("cuIpcGetMemHandle");
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) -> std::string {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    OnGpu<int32_t> managed(1000, Where::kManaged), pinned(1000, Where::kPinned);
    Stream stream;
    std::vector<void*> made;
    std::string error;
    for (const OnGpu<int32_t>* each : {&in, &out, &out, &managed}) {
      made.push_back(nullptr);
      error += said(comm, tutti_comm_register(comm, each->data(), each->bytes(), &made.back()), "register");
    }
    error += said(comm, tutti_barrier(comm, nullptr));
    if (handles.now() != 2 * kRanks) error += "not looked up; ";
    error += sum(comm, in, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    if (handles.now() != 2 * kRanks) error += "looked up again; ";
    if (out.download() != std::vector<int32_t>(1000, 3)) error += "another sum; ";
    error += said(comm, tutti_comm_deregister(comm, made[1]), "deregister");
    if (tutti_comm_deregister(comm, made[1]) != TUTTI_INVALID_ARGUMENT) error += "deregistered twice; ";
    return error;  // the others are left to the communicator
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("a call on one GPU takes few of the driver's calls") {
  constexpr int kRanks = 4, kMostPerRank = 40;
  const Gpu& gpu = Gpu::driver();
  std::atomic<int> before{0}, after{0};
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    std::string error;
    for (int i = 0; i < 3; ++i) error += sum(comm, in, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";  // what is late there would count
    error += said(comm, tutti_barrier(comm, nullptr));
    if (rank == 0) before = gpu.fake_all_calls();
    error += said(comm, tutti_barrier(comm, nullptr));
    error += sum(comm, in, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    error += said(comm, tutti_barrier(comm, nullptr));
    if (rank == 0) after = gpu.fake_all_calls();
    error += said(comm, tutti_barrier(comm, nullptr));  // nobody leaves before
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
  UNSCOPED_INFO(after - before << " calls");
  CHECK(after - before <= kRanks * kMostPerRank);
}

TEST_CASE("ranks of one GPU that make different calls are told") {
  constexpr int kRanks = 2;
  auto wrong = with_ranks_of_one_gpu(kRanks, {{"timeout_ms", "5000"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    uint64_t count = rank == 0 ? 1000 : 999;
    std::string error =
        said(comm, tutti_all_reduce(in.data(), out.data(), count, TUTTI_INT32, TUTTI_SUM, comm, stream.get()));
    (void)stream.synchronize();
    return error + said(comm, tutti_comm_status(comm));
  });
  for (const std::string& each : wrong) {
    CHECK_THAT(each, Catch::Contains("1000"));
    CHECK_THAT(each, Catch::Contains("999"));
  }
}

TEST_CASE("a stream of another device than the ranks' goes through the host") {
  constexpr int kRanks = 2;
  Counted launches("cuLaunchKernel");
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(100, Where::kDevice, rank + 1), out(100);
    Gpu::driver().use(rank);
    Stream stream;
    std::string error = sum(comm, in, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    return error + (out.download() == std::vector<int32_t>(100, 3) ? "" : "another sum");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
  CHECK(launches.now() == 0);
}

TEST_CASE("a GPU that fails before a stream has come to a call is told to all its ranks") {
  constexpr int kRanks = 2;
  const Gpu& gpu = Gpu::driver();
  static std::atomic<bool> may_go{false};
  std::atomic<int> holding{0};
  auto wrong = with_ranks_of_one_gpu(kRanks, {{"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(100, Where::kDevice, rank + 1), out(100);
    Stream stream;
    must(gpu.cuLaunchHostFunc(
        stream.get(), [](void*) { while (!may_go) std::this_thread::yield(); }, nullptr));
    ++holding;
    std::string error = sum(comm, in, out, stream.get());
    while (holding < kRanks) std::this_thread::yield();  // then no call of the test itself can fail
    if (rank == 0) gpu.fake_break_device(CUDA_ERROR_ILLEGAL_ADDRESS);
    await_failure(comm);
    may_go = true;
    return said(comm, tutti_comm_status(comm));
  });
  gpu.fake_break_device(CUDA_SUCCESS);
  CHECK(has_become("CUDA_ERROR_ILLEGAL_ADDRESS", wrong));
  for (const std::string& each : wrong) CHECK_FALSE(each.empty());
}

TEST_CASE("a rank of a GPU that does not call is named, and the streams of the others go on") {
  constexpr int kRanks = 3;
  auto wrong = with_ranks_of_one_gpu(kRanks, {{"timeout_ms", "500"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    std::string error =
        said(comm, tutti_broadcast(in.data(), out.data(), 1000, TUTTI_INT32, 0, comm, stream.get()));
    if (rank == 1) {
      await_failure(comm);
      return std::string();
    }
    error += sum(comm, in, out, stream.get());
    (void)stream.synchronize();
    return error + said(comm, tutti_comm_status(comm));
  });
  std::string expected =
      "rank 1 has not called all_reduce (call 2 on this GPU); its last call there is broadcast (call 1)";
  CHECK_THAT(wrong[0], Catch::Contains(expected));
  CHECK_THAT(wrong[2], Catch::Contains(expected));
}

TEST_CASE("a stream of another rank of the GPU that does not come to a call is named") {
  constexpr int kRanks = 2;
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_ranks_of_one_gpu(kRanks, {{"timeout_ms", "500"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    static std::atomic<bool> may_go{false};
    if (rank == 1) {
      must(gpu.cuLaunchHostFunc(
          stream.get(), [](void*) { while (!may_go) std::this_thread::yield(); }, nullptr));
    }
    std::string error = sum(comm, in, out, stream.get());
    await_failure(comm);
    may_go = true;
    (void)stream.synchronize();
    return error + said(comm, tutti_comm_status(comm));
  });
  CHECK_THAT(wrong[0], Catch::Contains("the stream of rank 1 has not come to all_reduce"));
}

TEST_CASE("what fails in a launch on one GPU fails the call of all ranks, and frees their streams") {
  constexpr int kRanks = 3;
  for (const char* call : {"cuLaunchKernel", "cuStreamWaitEvent", "cuEventRecord", "cuStreamBatchMemOp"}) {
    INFO(call);
    auto wrong = with_ranks_of_one_gpu(kRanks, {{"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
      OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
      Stream stream;
      std::string error = sum(comm, in, out, stream.get());
      (void)stream.synchronize();
      if (rank == 0) Gpu::driver().fake_fail(call, 0, CUDA_ERROR_UNKNOWN);
      error += said(comm, tutti_barrier(comm, nullptr));
      error += sum(comm, in, out, stream.get());
      (void)stream.synchronize();
      await_failure(comm);
      return error + said(comm, tutti_comm_status(comm));
    });
    Gpu::driver().fake_fail("", 0, CUDA_SUCCESS);
    CHECK(has_become(call, wrong));
    for (const std::string& each : wrong) CHECK_FALSE(each.empty());
  }
}

// Behind a call a rank may free its buffers, which another rank's launch uses.
TEST_CASE("after a failure the streams of a GPU go on when the launches have ended") {
  constexpr int kRanks = 2;
  const Gpu& gpu = Gpu::driver();
  std::atomic<bool> is_behind[kRanks] = {};
  std::atomic<int> have_put{0}, have_looked{0};
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    if (rank == 0) gpu.fake_hold_kernels(0);
    std::string error = said(comm, tutti_barrier(comm, nullptr)) + sum(comm, in, out, stream.get());
    must(gpu.cuLaunchHostFunc(
        stream.get(), [](void* behind) { *static_cast<std::atomic<bool>*>(behind) = true; }, &is_behind[rank]));
    ++have_put;
    while (rank == 1 && have_put < kRanks) std::this_thread::yield();
    if (rank == 1) tutti_comm_abort(comm);
    await_failure(comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    if (is_behind[rank]) error += "a stream went on; ";
    if (++have_looked == kRanks) gpu.fake_hold_kernels(-1);
    (void)stream.synchronize();
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

// That its code cannot be brought there is for processes_main.cpp: this process may have loaded it before.
TEST_CASE("ranks of a GPU that does not tell which it is go through the host") {
  constexpr int kRanks = 2;
  Counted launches("cuLaunchKernel"), asked("cuDeviceGetUuid");
  Gpu::driver().fake_fail("cuDeviceGetUuid", 0, CUDA_ERROR_UNKNOWN);
  auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    std::string error = sum(comm, in, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    return error + (out.download() == std::vector<int32_t>(1000, 3) ? "" : "another sum");
  });
  Gpu::driver().fake_fail("", 0, CUDA_SUCCESS);
  CHECK(wrong == std::vector<std::string>(kRanks));
  CHECK(asked.now() == kRanks);
  CHECK(launches.now() == 0);
}

}  // namespace
}  // namespace tutti::test
