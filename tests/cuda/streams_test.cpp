// Calls on streams: they return at once, keep their order, and can be captured.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "cuda/jobs.h"

namespace tutti::test {
namespace {

constexpr size_t kCount = 5000;

std::string expect(const std::vector<float>& got, float wanted) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] != wanted) return "element " + std::to_string(i) + " is " + std::to_string(got[i]);
  }
  return "";
}

tutti_status_t sum(const OnGpu<float>& in, const OnGpu<float>& out, tutti_comm_t* comm, CUstream stream) {
  return tutti_all_reduce(in.data(), out.data(), in.host.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, stream);
}

TEST_CASE("a call returns before its stream gets to it, and sees what is on the stream before it") {
  const Gpu& gpu = Gpu::driver();
  std::atomic<bool> may_go{false};
  std::atomic<int> returned{0};
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int) {
    OnGpu<float> early(kCount, Where::kDevice, 1), in(kCount, Where::kDevice, 100), out(kCount);
    Stream stream;
    CUhostFn hold = [](void* go) {
      while (!*static_cast<std::atomic<bool>*>(go)) std::this_thread::yield();
    };
    must(gpu.cuLaunchHostFunc(stream.get(), hold, &may_go));
    must(gpu.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(in.data()), reinterpret_cast<CUdeviceptr>(early.data()),
                           in.bytes(), stream.get()));
    std::string error = said(comm, sum(in, out, comm, stream.get()));
    if (++returned == 2) may_go = true;  // here only if neither call waited
    must(stream.synchronize());
    return error + expect(out.download(), 2);
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("calls of one communicator keep their order, whichever streams they are on") {
  auto wrong = with_gpu_ranks(3, {}, [&](tutti_comm_t* comm, int) {
    constexpr int kCalls = 20;
    OnGpu<float> value(kCount, Where::kDevice, 1), host(kCount, Where::kHost, 2);
    std::vector<Stream> streams(3);
    std::string error;
    float wanted = 1;
    for (int i = 0; i < kCalls; ++i) {
      // In place: a call that came too early would add what is not there yet.
      error += said(comm, sum(value, value, comm, streams[i % streams.size()].get()));
      wanted = i % 5 == 4 ? wanted : wanted * 3;
      if (i % 5 != 4) continue;
      // A call of the host in between waits for those before it.
      error += said(comm, sum(host, host, comm, nullptr));
      must(streams[i % streams.size()].synchronize());
      error += expect(value.download(), wanted * 3);
      value.host.assign(kCount, 1);
      value.upload();
      wanted = 1;
    }
    return error;
  });
  CHECK(wrong == std::vector<std::string>(3));
}

TEST_CASE("calls of a group on several streams start together") {
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) {
    constexpr size_t kMany = 400'000;
    OnGpu<float> first(kMany, Where::kDevice, 1.0F + static_cast<float>(rank)), second(kMany), third(kMany);
    OnGpu<float> host(kMany, Where::kHost, 1);
    Stream a, b;
    int peer = 1 - rank;
    std::string error = said(comm, tutti_group_begin());
    // Rank 0 sends first, rank 1 receives last.
    for (bool sends : {rank == 0, rank != 0}) {
      error += sends ? said(comm, tutti_send(first.data(), kMany, TUTTI_FLOAT32, peer, 1, comm, a.get()))
                     : said(comm, tutti_recv(second.data(), kMany, TUTTI_FLOAT32, peer, 1, comm, b.get(), nullptr));
    }
    error += said(comm, sum(first, third, comm, b.get()));
    error += said(comm, sum(host, host, comm, nullptr));
    error += said(comm, tutti_group_end());
    error += expect(host.download(), 2);
    must(b.synchronize());
    must(a.synchronize());
    return error + expect(second.download(), 1.0F + static_cast<float>(peer)) + expect(third.download(), 3);
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("small calls of a group are the same calls on all ranks, wherever their buffers are") {
  // By rank and call: on a stream, or on the host.
  const std::vector<std::vector<Where>> layouts = {{Where::kDevice, Where::kDevice, Where::kDevice},
                                                   {Where::kHost, Where::kHost, Where::kHost},
                                                   {Where::kHost, Where::kDevice, Where::kHost}};
  auto wrong = with_gpu_ranks(3, {}, [&](tutti_comm_t* comm, int rank) {
    constexpr size_t kFew = 100;
    std::vector<std::unique_ptr<OnGpu<float>>> buffers;
    for (int call = 0; call < 3; ++call) {
      buffers.push_back(std::make_unique<OnGpu<float>>(kFew + call, layouts[rank][call], 1.0F + call));
    }
    OnGpu<float> large(200'000, layouts[rank][2], 2);
    bool large_on_host = layouts[rank][2] == Where::kHost;
    Stream a, b;
    std::string error;
    for (int round = 0; round < 3; ++round) {
      for (int call = 0; call < 3; ++call) {
        buffers[call]->host.assign(kFew + call, 1.0F + call);
        buffers[call]->upload();
      }
      error += said(comm, tutti_group_begin());
      error += said(comm, sum(large, large, comm, large_on_host ? nullptr : b.get()));
      for (int call = 0; call < 3; ++call) {
        CUstream stream = layouts[rank][call] == Where::kHost ? nullptr : call % 2 == 0 ? a.get() : b.get();
        error += said(comm, sum(*buffers[call], *buffers[call], comm, stream));
      }
      error += said(comm, tutti_group_end());
      for (int call = 0; call < 3; ++call) {  // on the host they are complete
        if (layouts[rank][call] == Where::kHost) error += expect(buffers[call]->download(), 3 * (1.0F + call));
      }
      must(a.synchronize());
      must(b.synchronize());
      for (auto& buffer : buffers) error += expect(buffer->download(), 3 * (1.0F + (&buffer - buffers.data())));
    }
    return error + expect(large.download(), 2 * 27);
  });
  CHECK(wrong == std::vector<std::string>(3));
}

TEST_CASE("a group may have streams of two devices") {
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int) {
    std::string error;
    gpu.use(1);
    OnGpu<float> second(kCount, Where::kDevice, 2);
    Stream on_second;
    gpu.use(0);
    OnGpu<float> first(kCount, Where::kDevice, 1);
    Stream on_first;
    error += said(comm, tutti_group_begin());
    error += said(comm, sum(second, second, comm, on_second.get()));
    error += said(comm, sum(first, first, comm, on_first.get()));
    error += said(comm, tutti_group_end());
    must(on_first.synchronize());
    must(on_second.synchronize());
    return error + expect(first.download(), 2) + expect(second.download(), 4);
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("a message of the host does not overtake one of a stream") {
  const Gpu& gpu = Gpu::driver();
  std::atomic<bool> may_go{false};
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<float> first(kCount, Where::kDevice, 1), second(kCount, Where::kHost, 2);
    Stream stream;
    std::string error;
    if (rank == 1) {
      for (float wanted : {1.0F, 2.0F}) {
        error += said(comm, tutti_recv(second.data(), kCount, TUTTI_FLOAT32, 0, 0, comm, nullptr, nullptr));
        error += expect(second.download(), wanted);
      }
      return error;
    }
    CUhostFn hold = [](void* go) {
      while (!*static_cast<std::atomic<bool>*>(go)) std::this_thread::yield();
    };
    must(gpu.cuLaunchHostFunc(stream.get(), hold, &may_go));
    error += said(comm, tutti_send(first.data(), kCount, TUTTI_FLOAT32, 1, 0, comm, stream.get()));
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      may_go = true;
    });
    error += said(comm, tutti_send(second.data(), kCount, TUTTI_FLOAT32, 1, 0, comm, nullptr));
    later.join();
    must(stream.synchronize());
    return error;
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("a receive holds neither the sends nor the collectives of other streams") {
  auto wrong = with_gpu_ranks(2, {{"timeout_ms", "10000"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<float> in(kCount, Where::kDevice, 1.0F + static_cast<float>(rank));
    OnGpu<float> got(kCount), second(kCount), total(kCount);
    std::vector<Stream> streams(4);
    int peer = 1 - rank;
    auto receive = [&](const OnGpu<float>& to, int tag, const Stream& stream) {
      return said(comm, tutti_recv(to.data(), kCount, TUTTI_FLOAT32, peer, tag, comm, stream.get(), nullptr));
    };
    std::string error = receive(got, 1, streams[0]) + receive(second, 2, streams[1]);
    error += said(comm, sum(in, total, comm, streams[2].get()));
    for (int tag : {2, 1}) {  // the other way round
      error += said(comm, tutti_send(in.data(), kCount, TUTTI_FLOAT32, peer, tag, comm, streams[3].get()));
    }
    for (const Stream& stream : streams) must(stream.synchronize());
    float others = 1.0F + static_cast<float>(peer);
    return error + said(comm, tutti_comm_status(comm)) + expect(got.download(), others) +
           expect(second.download(), others) + expect(total.download(), 3);
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("a send lets its stream go on, and its buffer change, before the other rank receives") {
  constexpr size_t kLarge = 2'000'000;  // more than is kept for a receiver that has not called
  constexpr int kSends = 3;
  std::atomic<bool> has_passed{false};
  auto wrong = with_gpu_ranks(2, {{"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<float> data(kLarge, Where::kDevice, -1);
    Stream stream;
    std::string error;
    if (rank == 0) {
      for (int i = 0; i < kSends; ++i) {
        data.host.assign(kLarge, static_cast<float>(i));
        data.upload();
        error += said(comm, tutti_send(data.data(), kLarge, TUTTI_FLOAT32, 1, 0, comm, stream.get()));
        must(stream.synchronize());
      }
      has_passed = true;
      return error;
    }
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!has_passed && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (!has_passed) error += "the streams of the sends wait for the receives";
    for (int i = 0; i < kSends; ++i) {
      error += said(comm, tutti_recv(data.data(), kLarge, TUTTI_FLOAT32, 0, 0, comm, stream.get(), nullptr));
      must(stream.synchronize());
      error += expect(data.download(), static_cast<float>(i));
    }
    return error;
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("messages begin in the order of the program, whichever streams they are on") {
  const Gpu& gpu = Gpu::driver();
  for (int held : {0, 1}) {  // the rank whose first stream stands still for a while
    std::atomic<bool> may_go{false};
    auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) {
      OnGpu<float> first(kCount, Where::kDevice, 1), second(kCount, Where::kDevice, 2);
      Stream a, b;
      CUhostFn hold = [](void* go) {
        while (!*static_cast<std::atomic<bool>*>(go)) std::this_thread::yield();
      };
      if (rank == held) must(gpu.cuLaunchHostFunc(a.get(), hold, &may_go));
      auto message = [&](const OnGpu<float>& buffer, const Stream& stream) {
        float* data = buffer.data();
        if (rank == 0) return said(comm, tutti_send(data, kCount, TUTTI_FLOAT32, 1, 0, comm, stream.get()));
        return said(comm, tutti_recv(data, kCount, TUTTI_FLOAT32, 0, 0, comm, stream.get(), nullptr));
      };
      if (rank == 1) std::swap(first.host, second.host), first.upload(), second.upload();
      std::string error = message(first, a) + message(second, b);
      if (rank == held) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        may_go = true;
      }
      must(a.synchronize());
      must(b.synchronize());
      return error + expect(first.download(), 1) + expect(second.download(), 2);
    });
    CHECK(wrong == std::vector<std::string>(2));
  }
}

TEST_CASE("a captured call runs with each launch of its graph, beside others") {
  const Gpu& gpu = Gpu::driver();
  for (auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) {
      OnGpu<float> in(kCount, Where::kDevice, 1), out(kCount), other(kCount, Where::kDevice, 1);
      Stream stream;
      std::string error = said(comm, sum(in, out, comm, stream.get()));  // so that all memory is there
      must(stream.synchronize());
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
      must(gpu.cuStreamBeginCapture(stream.get(), mode));
      error += said(comm, sum(in, out, comm, stream.get()));
      error += said(comm, sum(out, in, comm, stream.get()));
      must(gpu.cuStreamEndCapture(stream.get(), &graph));
      must(gpu.cuGraphInstantiateWithFlags(&exec, graph, 0));
      must(gpu.cuGraphDestroy(graph));
      float wanted = 1;
      for (int launch = 0; launch < 6; ++launch) {
        must(gpu.cuGraphLaunch(exec, stream.get()));
        wanted *= 4;
        // One rank's stream is ahead of its host, the other's is not.
        if (launch % 2 == rank) must(stream.synchronize());
        error += said(comm, sum(other, other, comm, stream.get()));
      }
      must(stream.synchronize());
      error += expect(in.download(), wanted) + expect(out.download(), wanted / 2) + expect(other.download(), 64);
      must(gpu.cuGraphExecDestroy(exec));
      return error;
    });
    CHECK(wrong == std::vector<std::string>(2));
  }
}

TEST_CASE("a barrier on a stream holds the stream") {
  auto wrong = with_gpu_ranks(3, {}, [&](tutti_comm_t* comm, int) {
    OnGpu<float> any(1);
    Stream stream;
    std::string error;
    for (int i = 0; i < 5; ++i) error += said(comm, tutti_barrier(comm, stream.get()));
    must(stream.synchronize());
    return error;
  });
  CHECK(wrong == std::vector<std::string>(3));
}

TEST_CASE("a communicator of one rank copies on the stream, and has barriers and empty calls there") {
  auto wrong = with_gpu_ranks(1, {}, [&](tutti_comm_t* comm, int) {
    OnGpu<float> in(kCount, Where::kDevice, 3), out(kCount), pinned(kCount, Where::kPinned, 4);
    Stream stream;
    std::string error = said(comm, sum(in, out, comm, stream.get()));
    error += said(comm, tutti_barrier(comm, stream.get()));
    error += said(comm, tutti_all_reduce(nullptr, nullptr, 0, TUTTI_FLOAT32, TUTTI_SUM, comm, stream.get()));
    error += said(comm, sum(pinned, pinned, comm, stream.get()));
    must(stream.synchronize());
    return error + expect(out.download(), 3) + expect(pinned.download(), 4);
  });
  CHECK(wrong == std::vector<std::string>(1));
}

TEST_CASE("device buffers without a stream use the default stream of the device that they are on") {
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<float> in(kCount, Where::kDevice, 1), out(kCount);
    CUcontext before = nullptr, after = nullptr;
    must(gpu.cuCtxGetCurrent(&before));
    std::string error = said(comm, sum(in, out, comm, nullptr));
    must(gpu.cuCtxGetCurrent(&after));
    if (before != after) error += "another device is current";
    must(gpu.cuStreamSynchronize(nullptr));
    error += expect(out.download(), 2);
    // A thread that has no current device.
    std::thread([&] {
      error += said(comm, sum(out, in, comm, nullptr));
      must(gpu.cuCtxGetCurrent(&after));
      if (after != nullptr) error += "a device became current";
      gpu.use(rank % 2);
      must(gpu.cuStreamSynchronize(nullptr));
    }).join();
    return error + expect(in.download(), 4);
  });
  CHECK(wrong == std::vector<std::string>(2));
}

TEST_CASE("threads without a current device retain a device's context once") {
  const Gpu& gpu = Gpu::driver();
  if (gpu.fake_calls == nullptr) return;
  auto wrong = with_gpu_ranks(1, {}, [&](tutti_comm_t* comm, int) {
    OnGpu<float> value(kCount, Where::kDevice, 1);
    Counted retained("cuDevicePrimaryCtxRetain");
    std::string error;
    std::thread([&] {
      for (int i = 0; i < 5; ++i) error += said(comm, sum(value, value, comm, nullptr));
    }).join();
    must(gpu.cuStreamSynchronize(nullptr));
    return error + (retained.now() <= 1 ? "" : "retained again and again; ") + expect(value.download(), 1);
  });
  CHECK(wrong == std::vector<std::string>(1));
}

TEST_CASE("a communicator may be destroyed while a graph still has its calls") {
  const Gpu& gpu = Gpu::driver();
  std::vector<CUgraphExec> execs(2);
  std::vector<std::unique_ptr<OnGpu<float>>> buffers(2);
  auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) {
    buffers[rank] = std::make_unique<OnGpu<float>>(kCount, Where::kDevice, 1);
    Stream stream;
    CUgraph graph = nullptr;
    std::string error = said(comm, sum(*buffers[rank], *buffers[rank], comm, stream.get()));
    must(stream.synchronize());
    must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    error += said(comm, sum(*buffers[rank], *buffers[rank], comm, stream.get()));
    must(gpu.cuStreamEndCapture(stream.get(), &graph));
    must(gpu.cuGraphInstantiateWithFlags(&execs[rank], graph, 0));
    must(gpu.cuGraphDestroy(graph));
    return error;
  });
  CHECK(wrong == std::vector<std::string>(2));
  gpu.use(0);
  for (CUgraphExec exec : execs) {  // the stream is not held
    Stream stream;
    must(gpu.cuGraphLaunch(exec, stream.get()));
    must(stream.synchronize());
    must(gpu.cuGraphExecDestroy(exec));
  }
}

TEST_CASE("destroying a communicator holds no stream, whatever is on its way") {
  const Gpu& gpu = Gpu::driver();
  for (int round = 0; round < 10; ++round) {
    std::atomic<bool> may_go{false};
    std::vector<std::unique_ptr<OnGpu<float>>> values(2);
    std::vector<std::unique_ptr<Stream>> streams(2);
    auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) -> std::string {
      values[rank] = std::make_unique<OnGpu<float>>(kCount, Where::kDevice, 1);
      streams[rank] = std::make_unique<Stream>();
      auto& value = *values[rank];
      CUstream stream = streams[rank]->get();
      for (int call = 0; call < 10; ++call) (void)sum(value, value, comm, stream);
      CUhostFn hold = [](void* go) {
        while (!*static_cast<std::atomic<bool>*>(go)) std::this_thread::yield();
      };
      if (rank == 0) must(gpu.cuLaunchHostFunc(stream, hold, &may_go));
      for (int call = 0; call < 10; ++call) (void)sum(value, value, comm, stream);
      if (rank == round % 2) (void)tutti_comm_abort(comm);
      return "";
    });
    CHECK(wrong == std::vector<std::string>(2));
    may_go = true;
    gpu.use(0);
    for (auto& stream : streams) must(stream->synchronize());
  }
}

}  // namespace
}  // namespace tutti::test
