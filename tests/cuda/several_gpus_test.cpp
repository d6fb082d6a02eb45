// Ranks that each have a GPU: these do calls among themselves, and nothing goes through the host.
#include <catch2/catch.hpp>

#include <atomic>
#include <memory>
#include <random>

#include "core/call_places.h"
#include "core/gpu_programs.h"
#include "cuda/jobs.h"
#include "tutti/tutti_topology.h"

namespace tutti::test {
namespace {

std::vector<int32_t> filled(size_t count, int32_t value) { return std::vector<int32_t>(count, value); }

TEST_CASE("calls among several GPUs take a launch on each of them and never the host") {
  constexpr int kCalls = 20;
  for (int ranks : {2, 3, 4}) {
    Counted launches("cuLaunchKernel"), host("cuLaunchHostFunc");
    auto wrong = with_ranks_of_gpus(ranks, {}, [&](tutti_comm_t* comm, int rank) {
      OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
      Stream stream;
      std::string error;
      for (int i = 0; i < kCalls; ++i) error += sum(comm, in, out, stream.get());
      if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
      return error + (out.download() == filled(1000, ranks * (ranks + 1) / 2) ? "" : "another sum");
    });
    CHECK(wrong == std::vector<std::string>(ranks));
    CHECK(launches.now() == kCalls * ranks);
    CHECK(host.now() == 0);
  }
}

TEST_CASE("large calls among GPUs have many channels") {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 700'001;
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(kCount), out(kCount);
    for (size_t i = 0; i < kCount; ++i) in.host[i] = static_cast<int32_t>(i * (rank + 1));
    in.upload();
    Stream stream;
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = TUTTI_ALL_REDUCE;
    call.datatype = TUTTI_INT32;
    call.op = TUTTI_SUM;
    call.send_buffer = in.data();
    call.recv_buffer = out.data();
    call.count = kCount;
    call.stream = stream.get();
    tutti_plan_info_t info{};
    info.struct_size = sizeof info;
    std::string error = said(comm, tutti_comm_plan_info(comm, &call, &info));
    bool is_as_planned = std::string(info.transport) == "gpu" && info.channels == 32;
    if (!is_as_planned) error += "another way: " + std::string(info.transport);
    error += sum(comm, in, out, stream.get());
    error += sum(comm, out, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    out.download();
    for (size_t i = 0; i < kCount; ++i) {
      if (out.host[i] != static_cast<int32_t>(i * 40)) return error + "another sum at " + std::to_string(i);
    }
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("a barrier among GPUs needs no launch, and holds streams until all have come") {
  constexpr int kRanks = 3;
  Counted launches("cuLaunchKernel"), host("cuLaunchHostFunc");
  std::atomic<int> came{0};
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
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

TEST_CASE("hundreds of calls among GPUs may be under way, each on what the one before has stored") {
  constexpr int kRanks = 2, kCalls = 300;
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> a(100, Where::kDevice, rank == 0 ? 1 : 0), b(100), zero(100);
    Stream stream;
    std::string error;
    for (int i = 0; i < kCalls; ++i) {
      const OnGpu<int32_t>& from = i % 2 == 0 ? a : b;
      error += sum(comm, rank == 0 ? from : zero, i % 2 == 0 ? b : a, stream.get());
    }
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    return error + ((kCalls % 2 == 0 ? a : b).download() == filled(100, 1) ? "" : "another sum");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("calls of GPUs, of the host and through the host alternate, on several streams") {
  constexpr int kRanks = 3;
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream streams[2];
    std::string error;
    for (int i = 0; i < 30; ++i) {
      bool through_host = i % 3 == rank;  // for all, since one has its buffer elsewhere
      if (i >= 15) through_host = false;
      OnGpu<int32_t> in(500, through_host ? Where::kManaged : Where::kDevice, rank + i), out(500);
      const Stream& stream = streams[(i / 2 + rank) % 2];
      error += sum(comm, in, out, stream.get());
      int32_t mine = rank, all = 0;
      if (i % 4 == 0) error += said(comm, tutti_all_reduce(&mine, &all, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr));
      if (i % 4 == 0 && all != 3) error += "another sum on the host";
      if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
      if (out.download() != filled(500, 3 * i + 3)) error += "another sum in call " + std::to_string(i);
    }
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("groups, messages and graphs between calls among GPUs") {
  constexpr int kRanks = 2;
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> a(64, Where::kDevice, rank + 1), sum_a(64), got(64);
    std::string error;
    for (int i = 0; i < 5; ++i) {
      error += sum(comm, a, sum_a, stream.get());
      tutti_group_begin();
      error += sum(comm, a, sum_a, stream.get());
      error += said(comm, tutti_send(a.data(), 64, TUTTI_INT32, 1 - rank, 3, comm, stream.get()));
      error += said(comm, tutti_recv(got.data(), 64, TUTTI_INT32, 1 - rank, 3, comm, stream.get(), nullptr));
      error += said(comm, tutti_group_end());
      error += sum(comm, a, sum_a, stream.get());
    }
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    error += sum(comm, a, sum_a, stream.get());
    must(gpu.cuStreamEndCapture(stream.get(), &graph));
    must(gpu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) must(gpu.cuGraphLaunch(exec, stream.get()));
    error += sum(comm, a, sum_a, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    must(gpu.cuGraphExecDestroy(exec));
    must(gpu.cuGraphDestroy(graph));
    if (sum_a.download() != filled(64, 3)) error += "another sum";
    if (got.download() != filled(64, 2 - rank)) error += "another message";
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

// Rank 0 repeats a call that it has captured; the others do, too, or make it anew each time.
void check_graphs(bool all_capture, Where others) {
  constexpr int kRanks = 3, kLaunches = 5;
  const Gpu& gpu = Gpu::driver();
  Counted launches("cuLaunchKernel"), copies("cuMemcpyAsync");
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> in(256, rank == 0 ? Where::kDevice : others, rank + 1), out(256, Where::kDevice);
    std::string error;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    bool captures = rank == 0 || all_capture;
    if (captures) {
      must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
      error += sum(comm, in, out, stream.get());
      must(gpu.cuStreamEndCapture(stream.get(), &graph));
      must(gpu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    }
    for (int i = 0; i < kLaunches; ++i) {
      std::fill(in.host.begin(), in.host.end(), rank + i);
      in.upload();
      if (captures) must(gpu.cuGraphLaunch(exec, stream.get()));
      if (!captures) error += sum(comm, in, out, stream.get());
      if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
      if (out.download() != filled(256, 3 + 3 * i)) error += "another sum in launch " + std::to_string(i);
    }
    error += sum(comm, in, out, stream.get());
    error += sum(comm, out, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    if (out.download() != filled(256, 3 * (3 + 3 * (kLaunches - 1)))) error += "another sum after that";
    if (captures) {
      must(gpu.cuGraphExecDestroy(exec));
      must(gpu.cuGraphDestroy(graph));
    }
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
  int by_launches = others == Where::kDevice ? kLaunches + 2 : 1;
  CHECK(launches.now() == kRanks * by_launches);
  if (others == Where::kDevice) CHECK(copies.now() <= 2 * kRanks);  // of the programs, and no data
}

TEST_CASE("captured calls among GPUs are launches too, with each launch of the graph") {
  SECTION("where all ranks have captured them") { check_graphs(true, Where::kDevice); }
  SECTION("where others make them anew") { check_graphs(false, Where::kDevice); }
}

TEST_CASE("captured calls go through the host where it turns out that another rank has other buffers") {
  check_graphs(false, Where::kManaged);
}

TEST_CASE("a graph that is launched after a failure ends, and so does one that outlives its communicator") {
  constexpr int kRanks = 2;
  const Gpu& gpu = Gpu::driver();
  for (bool fails : {false, true}) {
    INFO("after a failure: " << fails);
    struct Left {
      std::unique_ptr<Stream> stream;
      std::unique_ptr<OnGpu<int32_t>> in, out;
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
    };
    std::vector<Left> all(kRanks);
    auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
      Left& left = all[static_cast<size_t>(rank)];
      left.stream = std::make_unique<Stream>();
      left.in = std::make_unique<OnGpu<int32_t>>(100, Where::kDevice, 1);
      left.out = std::make_unique<OnGpu<int32_t>>(100);
      must(gpu.cuStreamBeginCapture(left.stream->get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
      std::string error = sum(comm, *left.in, *left.out, left.stream->get());
      must(gpu.cuStreamEndCapture(left.stream->get(), &left.graph));
      must(gpu.cuGraphInstantiateWithFlags(&left.exec, left.graph, 0));
      must(gpu.cuGraphLaunch(left.exec, left.stream->get()));
      must(left.stream->synchronize());
      error += left.out->download() == filled(100, 2) ? "" : "another sum";
      if (!fails) return error;
      // One rank launches it, and the other one gives up.
      if (rank == 0) must(gpu.cuGraphLaunch(left.exec, left.stream->get()));
      if (rank == 1) tutti_comm_abort(comm);
      must(left.stream->synchronize());
      return error;
    });
    CHECK(wrong == std::vector<std::string>(kRanks));
    for (int rank = 0; rank < kRanks; ++rank) {
      gpu.use(rank);
      Left& left = all[static_cast<size_t>(rank)];
      must(gpu.cuGraphLaunch(left.exec, left.stream->get()));
      must(left.stream->synchronize());
      must(gpu.cuGraphExecDestroy(left.exec));
      must(gpu.cuGraphDestroy(left.graph));
      left = {};
    }
  }
}

// All goes well through the host.
void check_through_host(const Options& options = {}) {
  constexpr int kRanks = 2;
  Counted launches("cuLaunchKernel"), host("cuLaunchHostFunc");
  auto wrong = with_ranks_of_gpus(kRanks, options, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    std::string error = sum(comm, in, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    return error + (out.download() == filled(1000, 3) ? "" : "another sum");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
  CHECK(launches.now() == 0);
  CHECK(host.now() == kRanks);
}

TEST_CASE("GPUs that cannot reach each other's memory do their calls through the host") {
  Gpu::driver().fake_give_peer_access(0);
  check_through_host();
  Gpu::driver().fake_give_peer_access(1);
}

TEST_CASE("memory of a GPU that others cannot open goes through the host") {
  // The arenas have handles: what is without them is allocated later.
  constexpr int kRanks = 2;
  Counted launches("cuLaunchKernel"), host("cuLaunchHostFunc");
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Gpu::driver().fake_give_handles(0);
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    std::string error = sum(comm, in, out, stream.get());
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    return error + (out.download() == filled(1000, 3) ? "" : "another sum");
  });
  Gpu::driver().fake_give_handles(1);
  CHECK(wrong == std::vector<std::string>(kRanks));
  CHECK(launches.now() == 0);
  CHECK(host.now() == kRanks);
}

TEST_CASE("who says by which transport ranks exchange data has calls of GPUs go that way") {
  check_through_host({{"transport", "shm"}});
}

TEST_CASE("ranks of several GPUs that make different calls are told") {
  constexpr int kRanks = 2;
  auto wrong = with_ranks_of_gpus(kRanks, {{"timeout_ms", "5000"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    uint64_t count = rank == 0 ? 1000 : 999;
    std::string error =
        said(comm, tutti_all_reduce(in.data(), out.data(), count, TUTTI_INT32, TUTTI_SUM, comm, stream.get()));
    (void)stream.synchronize();
    return error + said(comm, tutti_comm_status(comm));
  });
  for (const std::string& each : wrong) CHECK_THAT(each, Catch::Contains("1000") && Catch::Contains("999"));
}

TEST_CASE("a rank of several GPUs that does not call is named, and the streams of the others go on") {
  constexpr int kRanks = 3;
  auto wrong = with_ranks_of_gpus(kRanks, {{"timeout_ms", "500"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    if (rank == 1) {
      await_failure(comm);
      return std::string();
    }
    std::string error = sum(comm, in, out, stream.get());
    (void)stream.synchronize();
    return error + said(comm, tutti_comm_status(comm));
  });
  CHECK_THAT(wrong[0], Catch::Contains("rank 1 has not called all_reduce (call 1 on the GPUs)"));
  CHECK_THAT(wrong[2], Catch::Contains("rank 1 has not called all_reduce (call 1 on the GPUs)"));
}

TEST_CASE("a stream that does not come to a call among GPUs is named") {
  constexpr int kRanks = 2;
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_ranks_of_gpus(kRanks, {{"timeout_ms", "500"}}, [&](tutti_comm_t* comm, int rank) {
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

TEST_CASE("a GPU that does not do its part of a call is named, and the kernels that wait for it end") {
  constexpr int kRanks = 3;
  const Gpu& gpu = Gpu::driver();
  // By which each waits for each.
  const Options options = {{"timeout_ms", "500"}, {"algorithm", "direct_one_shot"}};
  auto wrong = with_ranks_of_gpus(kRanks, options, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    std::string error = sum(comm, in, out, stream.get());
    (void)stream.synchronize();
    if (rank == 1) gpu.fake_hold_kernels(1);
    error += said(comm, tutti_barrier(comm, nullptr));
    error += sum(comm, in, out, stream.get());
    await_failure(comm);
    gpu.fake_hold_kernels(-1);
    (void)stream.synchronize();
    return error + said(comm, tutti_comm_status(comm));
  });
  CHECK(has_become("the GPU of rank 1 has sent nothing for 500 ms", wrong));
  for (const std::string& each : wrong) CHECK_FALSE(each.empty());
}

TEST_CASE("a rank that gives up while kernels wait for it ends them") {
  constexpr int kRanks = 3;
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    if (rank == 1) gpu.fake_hold_kernels(1);
    std::string error = said(comm, tutti_barrier(comm, nullptr)) + sum(comm, in, out, stream.get());
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // then the others mostly are in their kernels
      tutti_comm_abort(comm);
    }
    await_failure(comm);
    gpu.fake_hold_kernels(-1);
    (void)stream.synchronize();
    return error + said(comm, tutti_comm_status(comm));
  });
  for (const std::string& each : wrong) CHECK_THAT(each, Catch::Contains("rank 1 aborted"));
}

TEST_CASE("what fails in a launch on several GPUs fails the call of all ranks, and frees their streams") {
  constexpr int kRanks = 3;
  for (const char* call :
       {"cuLaunchKernel", "cuStreamBatchMemOp"}) {
    INFO(call);
    auto wrong = with_ranks_of_gpus(kRanks, {{"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
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

TEST_CASE("ranks are planned for on the GPUs that they use, if the host knows all of these") {
  const std::string first = "0a1b2c3d4e5f60718293a4b5c6d7e8f9", second = "1a1b2c3d4e5f60718293a4b5c6d7e8f9";
  Inventory inventory;
  inventory.cpu.logical_cpus = 2;
  inventory.gpus.resize(2);
  inventory.gpus[0].uuid = "GPU-1a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
  inventory.gpus[1].uuid = "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
  Topology host = single_host(inventory, 2);
  Topology placed = on_gpus(host, std::vector<std::string>{first, second});
  CHECK(placed.ranks[0].gpu == 1);
  CHECK(placed.ranks[1].gpu == 0);
  CHECK(on_gpus(host, std::vector<std::string>{first, "another"}) == host);
}

TEST_CASE("GPUs that take each other's atomic operations are planned for as joined by NVLink") {
  constexpr int kRanks = 4;
  auto info_of_large_calls = [](bool give) {
    Gpu::driver().fake_give_native_atomics(give ? 1 : 0);
    uint64_t predicted_ns = 0;
    auto algorithms = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
      Stream stream;
      tutti_plan_info_t info{};
      info.struct_size = sizeof info;
      tutti_call_t call{};
      call.struct_size = sizeof call;
      call.collective = TUTTI_ALL_REDUCE;
      call.datatype = TUTTI_FLOAT32;
      call.op = TUTTI_SUM;
      call.count = 16 << 20;
      call.stream = stream.get();
      std::string error = said(comm, tutti_comm_plan_info(comm, &call, &info));
      if (rank == 0) predicted_ns = info.predicted_ns;
      return error + info.algorithm;
    });
    Gpu::driver().fake_give_native_atomics(0);
    return std::pair(algorithms, predicted_ns);
  };
  auto [joined, joined_ns] = info_of_large_calls(true);
  auto [apart, apart_ns] = info_of_large_calls(false);
  CHECK(joined == std::vector<std::string>(kRanks, "direct_two_shot"));
  // Two times three quarters of 64 MiB by 12 links, of 23.5 GB/s each, and what is beside that.
  CHECK(joined_ns > 350'000);
  CHECK(joined_ns < 400'000);
  CHECK(apart_ns > 2 * joined_ns);
}

TEST_CASE("places of programs never overlap, and none is taken back before its last call is done") {
  constexpr uint64_t kRoom = 1000;
  std::mt19937_64 random(7);
  CallPlaces places(kRoom);
  struct Used {
    CallPlaces::Holder holder;
    uint64_t size_bytes = 0;
  };
  std::vector<Used> all(20);
  for (Used& each : all) each.size_bytes = 1 + random() % 400;
  uint32_t done = UINT32_MAX - 5000, refused = 0, taken = 0;  // so that the numbers go round
  for (uint32_t number = done + 1; taken < 10'000; ++number) {
    Used& used = all[random() % all.size()];
    while (!used.holder.offset && !places.take(used.holder, used.size_bytes, done)) {
      ++refused;
      REQUIRE(comes_before(done, number - 1));  // else nothing holds its place
      ++done;
    }
    ++taken;
    used.holder.last_use = number;
    if (random() % 2 == 0 && comes_before(done, number)) ++done;
    for (const Used& a : all) {
      bool is_under_way = a.holder.last_use != 0 && comes_before(done, a.holder.last_use);
      if (is_under_way) REQUIRE(a.holder.offset);
      if (!a.holder.offset) continue;
      REQUIRE(*a.holder.offset + a.size_bytes <= kRoom);
      for (const Used& b : all) {
        if (&a == &b || !b.holder.offset) continue;
        bool apart = *a.holder.offset + a.size_bytes <= *b.holder.offset ||
                     *b.holder.offset + b.size_bytes <= *a.holder.offset;
        REQUIRE(apart);
      }
    }
  }
  CHECK(refused > 0);
}

}  // namespace
}  // namespace tutti::test
