// Collectives that move memory of GPUs between ranks that RDMA devices join: NICs read and write it where it is, or it
// goes through the host's memory where anything stands in the way. On the driver and the libibverbs of the tests.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>

#include "base/capture.h"
#include "base/sanitizers.h"
#include "core/messages.h"
#include "cuda/over_verbs.h"
#include "cuda/tested_calls.h"

namespace tutti::test {
namespace {

constexpr uint64_t kCount = 70'003;  // of floats in a block: more than 256 KiB

const TestedType& float32() {
  const auto& types = tested_types();
  return *std::find_if(types.begin(), types.end(), [](const TestedType& type) { return type.id == TUTTI_FLOAT32; });
}

TestedCall moving(tutti_collective_t collective, bool in_place = false, uint64_t count = kCount) {
  return {.collective = collective, .type = float32(), .op = kSumOp, .count = count, .in_place = in_place,
          .misalignment = 4};
}

// Ranks have what they send and receive in both buffers: by copies of the driver's, one each.
int own_blocks(tutti_collective_t collective, bool in_place, int nranks) {
  if (in_place) return 0;
  return collective == TUTTI_ALL_GATHER || collective == TUTTI_ALL_TO_ALL ? nranks : 1;
}

// The driver's copies that so many such calls cost, after the first.
int copies_of(const TestedCall& call, int nranks, const Options& options, int calls = 3) {
  std::atomic<int> copies{0};
  check_all(with_gpu_ranks(nranks, options, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    std::string wrong = run(call, comm, rank, nranks, stream);
    wrong += said(comm, tutti_barrier(comm, nullptr));
    Counted counted("cuMemcpyAsync");
    wrong += said(comm, tutti_barrier(comm, nullptr));
    for (int i = 0; i < calls; ++i) wrong += run(call, comm, rank, nranks, stream);
    wrong += said(comm, tutti_barrier(comm, nullptr));
    if (rank == 0) copies = counted.now();
    return wrong;
  }));
  return copies;
}

}  // namespace

TEST_CASE("collectives that move GPU memory cross without a copy but of what a rank has itself") {
  Fakes fakes;
  int nranks = GENERATE(2, 4);
  for (tutti_collective_t collective : kMoving) {
    for (bool in_place : {false, true}) {
      if (in_place && collective == TUTTI_ALL_TO_ALL) continue;  // nobody may store there before it has left
      INFO("collective " << collective << (in_place ? " in place" : ""));
      int own = own_blocks(collective, in_place, nranks);
      CHECK(copies_of(moving(collective, in_place), nranks, over_verbs()) == 3 * own);
    }
  }
  CHECK(fakes.registered() == 0);  // the ranks have left
  fakes.check_used_well();
}

TEST_CASE("they do so by every algorithm that keeps nothing on the way") {
  Fakes fakes;
  struct Case {
    tutti_collective_t collective;
    const char* algorithm;
  };
  for (auto [collective, algorithm] : {Case{TUTTI_BROADCAST, "direct"}, Case{TUTTI_BROADCAST, "chain"},
                                       Case{TUTTI_BROADCAST, "binomial_tree"}, Case{TUTTI_ALL_GATHER, "direct"},
                                       Case{TUTTI_ALL_GATHER, "ring"}, Case{TUTTI_ALL_TO_ALL, "direct"},
                                       Case{TUTTI_ALL_TO_ALL, "pairwise"}, Case{TUTTI_GATHER, "direct"},
                                       Case{TUTTI_SCATTER, "direct"}, Case{TUTTI_SCATTER, "sequential"}}) {
    INFO("collective " << collective << ", " << algorithm);
    CHECK(copies_of(moving(collective), 3, over_verbs({{"algorithm", algorithm}})) ==
          3 * own_blocks(collective, false, 3));
  }
  fakes.check_used_well();
}

TEST_CASE("results are right by every algorithm, in place and not, with blocks of any size") {
  Fakes fakes;
  bool is_refused = GENERATE(false, true);
  if (is_refused) fakes.verbs->set_faults({.dma_buf_error = EOPNOTSUPP});
  for (const char* algorithm : {"", "ring", "bruck", "direct", "pairwise", "chain", "binomial_tree", "sequential"}) {
    INFO("algorithm " << algorithm);
    check_all(with_gpu_ranks(4, over_verbs({{"algorithm", algorithm}}), [&](tutti_comm_t* comm, int rank) {
      std::string wrong;
      Stream stream;
      // The last slices of some are short enough for a line.
      for (uint64_t count : {uint64_t{100}, uint64_t{16384}, uint64_t{16385}, uint64_t{65536 + 5}, uint64_t{300'001}}) {
        if (kUnderThreadSanitizer && count > 100'000) continue;
        for (tutti_collective_t collective : kMoving) {
          wrong += run(moving(collective, false, count), comm, rank, 4, stream);
          if (collective != TUTTI_ALL_TO_ALL) wrong += run(moving(collective, true, count), comm, rank, 4, stream);
        }
        wrong += run({TUTTI_ALL_REDUCE, float32(), kSumOp, count}, comm, rank, 4, stream);
      }
      return wrong + said(comm, tutti_comm_status(comm));
    }));
  }
  fakes.check_used_well();
}

TEST_CASE("ranks whose memory is a GPU's and such with the host's make one call") {
  Fakes fakes;
  constexpr int kRanks = 3;
  for (int on_device : {0, 1, 2}) {
    for (bool is_other : {false, true}) {  // all but that one are on devices
      INFO("rank " << on_device << (is_other ? " alone on the host" : " alone on a device"));
      check_all(with_gpu_ranks(kRanks, over_verbs(), [&](tutti_comm_t* comm, int rank) {
        std::string wrong;
        Stream stream;
        Where where = (rank == on_device) != is_other ? Where::kDevice : Where::kHost;
        tutti_stream_t on = where == Where::kHost ? nullptr : stream.get();
        for (int call = 0; call < 3; ++call) {
          OnGpu<float> mine(kCount, where), all(kRanks * kCount, where, -1.0F), back(kCount, where, -1.0F);
          fill(mine.host, rank, 0, call);
          mine.upload();
          wrong += said(comm, tutti_all_gather(mine.data(), all.data(), kCount, TUTTI_FLOAT32, comm, on));
          wrong += said(comm, tutti_broadcast(mine.data(), back.data(), kCount, TUTTI_FLOAT32, 1, comm, on));
          must(stream.synchronize());
          auto gathered = std::span(all.download());
          for (int from = 0; from < kRanks; ++from) {
            wrong += compare(gathered.subspan(from * kCount, kCount), from, 0, call);
          }
          wrong += compare(back.download(), 1, 0, call);
        }
        return wrong + said(comm, tutti_comm_status(comm));
      }));
    }
  }
  fakes.check_used_well();
}

TEST_CASE("what a device has written in a collective is made visible to a GPU that does not see it by itself") {
  Fakes fakes;
  bool is_ordered = GENERATE(false, true);
  fakes.gpu.fake_give_direct_access(kFakeDmaBuf | kFakeFlushes | (is_ordered ? kFakeOrdered : 0));
  Counted flushes("CU_STREAM_WAIT_VALUE_FLUSH");
  CHECK(copies_of(moving(TUTTI_ALL_GATHER), 2, over_verbs()) == 6);
  CHECK(flushes.now() == (is_ordered ? 0 : 6));  // by each rank for each call after the first
}

TEST_CASE("collectives are direct where messages are not to be") {
  Fakes fakes;
  CHECK(copies_of(moving(TUTTI_ALL_GATHER), 2, over_verbs({{"ib_dmabuf", "2"}})) == 6);
  check_all(with_gpu_ranks(2, over_verbs({{"ib_dmabuf", "2"}}), [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<float> data(kCount);
    std::string wrong;
    for (int tag = 0; tag < 3; ++tag) {
      wrong += said(comm, tutti_barrier(comm, nullptr));
      Counted copies("cuMemcpyAsync");
      wrong += said(comm, tutti_barrier(comm, nullptr));
      wrong += said(comm, rank == 0 ? tutti_send(data.data(), kCount, TUTTI_FLOAT32, 1, tag, comm, stream.get())
                                    : tutti_recv(data.data(), kCount, TUTTI_FLOAT32, 0, tag, comm, stream.get(),
                                                 nullptr));
      must(stream.synchronize());
      if (copies.now() == 0) wrong += "a message was not staged; ";
    }
    return wrong;
  }));
  CHECK(copies_of(moving(TUTTI_ALL_GATHER), 2, over_verbs({{"ib_dmabuf", "0"}})) > 6);
}

TEST_CASE("a rank whose memory cannot be registered says so and takes part through the host") {
  Fakes fakes;
  fakes.verbs->set_faults({.dma_buf_error = EOPNOTSUPP});
  std::string said_of_it;
  {
    StderrCapture log;
    ::setenv("TUTTI_LOG", "info", 1);
    CHECK(copies_of(moving(TUTTI_ALL_GATHER), 2, over_verbs()) > 6);
    ::unsetenv("TUTTI_LOG");
    said_of_it = log.text();
  }
  INFO(said_of_it);
  CHECK(count_of("GPU memory goes through the host's: cannot register GPU memory with fake", said_of_it) == 2);
  fakes.check_used_well();
}

TEST_CASE("a collective of GPU memory goes on over the other devices when one is gone") {
  Fakes fakes;
  constexpr int kRanks = 2;  // one of whose four queue pairs lies within the other device
  Options options = over_verbs({{"ib_device", "fake0,fake0,fake1,fake1"}});
  check_all(with_gpu_ranks(kRanks, options, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    std::string wrong = run(moving(TUTTI_ALL_GATHER), comm, rank, kRanks, stream);
    wrong += said(comm, tutti_barrier(comm, nullptr));
    if (rank == 0) fakes.verbs->set_faults({.gone_device = "fake0"});
    for (int i = 0; i < 3; ++i) {
      wrong += run(moving(TUTTI_ALL_GATHER, false, 400'000), comm, rank, kRanks, stream);
      wrong += run(moving(TUTTI_BROADCAST), comm, rank, kRanks, stream);
    }
    return wrong + said(comm, tutti_comm_status(comm));
  }));
}

TEST_CASE("freed memory, and other memory at its address, is not mistaken for what was registered for a collective") {
  Fakes fakes;
  check_all(with_gpu_ranks(3, over_verbs(), [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    std::string wrong;
    for (uint64_t i = 0; i < 6; ++i) {  // run() has buffers of its own each time
      wrong += run(moving(TUTTI_ALL_GATHER, false, kCount + i % 2), comm, rank, 3, stream);
      wrong += run(moving(TUTTI_SCATTER, false, kCount + i % 2), comm, rank, 3, stream);
    }
    return wrong;
  }));
  CHECK(fakes.registered() == 0);
  fakes.check_used_well();
}

TEST_CASE("a captured collective goes through the host, each time") {
  Fakes fakes;
  check_all(with_gpu_ranks(2, over_verbs(), [&](tutti_comm_t* comm, int rank) {
    const Gpu& gpu = Gpu::driver();
    Stream stream;
    std::string wrong = run(moving(TUTTI_ALL_GATHER), comm, rank, 2, stream);
    OnGpu<float> mine(kCount), all(2 * kCount);
    CUgraph graph = nullptr;
    CUgraphExec launchable = nullptr;
    must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    Counted copies("cuMemcpyAsync");
    wrong += said(comm, tutti_all_gather(mine.data(), all.data(), kCount, TUTTI_FLOAT32, comm, stream.get()));
    if (copies.now() < 2) wrong += "the graph would use what is registered now; ";
    must(gpu.cuStreamEndCapture(stream.get(), &graph));
    must(gpu.cuGraphInstantiateWithFlags(&launchable, graph, 0));
    for (int launch = 0; launch < 3; ++launch) {
      fill(mine.host, rank, 0, launch);
      mine.upload();
      must(gpu.cuGraphLaunch(launchable, stream.get()));
      must(stream.synchronize());
      auto gathered = std::span(all.download());
      for (int from : {0, 1}) wrong += compare(gathered.subspan(from * kCount, kCount), from, 0, launch);
      wrong += said(comm, tutti_barrier(comm, nullptr));
    }
    must(gpu.cuGraphExecDestroy(launchable));
    must(gpu.cuGraphDestroy(graph));
    return wrong;
  }));
}

// As cudaMalloc() may.
TEST_CASE("a call that all ranks have made ends while the driver waits for the streams, whatever its size") {
  Fakes fakes;
  // The last slice of an odd size is short enough for a line.
  auto count = GENERATE(uint64_t{2 * 65'536}, uint64_t{2 * 65'536 + 5});
  bool flushes = GENERATE(false, true);
  if (flushes) fakes.gpu.fake_give_direct_access(kFakeDmaBuf | kFakeFlushes);
  std::atomic<bool> goes_on{false};
  std::atomic<int> called{0};
  check_all(with_gpu_ranks(2, over_verbs({{"timeout_ms", "20000"}}), [&](tutti_comm_t* comm, int rank) {
    const Gpu& gpu = fakes.gpu;
    Stream stream;
    OnGpu<float> mine(count), all(2 * count);
    auto gather = [&] {
      return said(comm, tutti_all_gather(mine.data(), all.data(), count, TUTTI_FLOAT32, comm, stream.get()));
    };
    std::string wrong;
    for (int i = 0; i < 2; ++i) {
      wrong += gather();
      must(stream.synchronize());
    }
    fill(mine.host, rank, 0, 1);
    mine.upload();
    auto hold = [](void* until) {
      while (!*static_cast<std::atomic<bool>*>(until)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    must(gpu.cuLaunchHostFunc(stream.get(), hold, &goes_on));
    wrong += gather();
    ++called;
    if (rank == 0) {
      while (called < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      gpu.fake_wait_for_streams(1);
      std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        goes_on = true;
      });
      CUdeviceptr allocated = 0;
      must(gpu.cuMemAlloc(&allocated, 64));
      later.join();
      gpu.fake_wait_for_streams(0);
      must(gpu.cuMemFree(allocated));
    }
    must(stream.synchronize());
    wrong += said(comm, tutti_comm_status(comm));
    auto gathered = std::span(all.download());
    for (int from : {0, 1}) wrong += compare(gathered.subspan(from * count, count), from, 0, 1);
    return wrong;
  }));
  fakes.check_used_well();
}

TEST_CASE("a driver's call that fails in a collective is done without, or named") {
  Fakes fakes;
  for (const char* call : {"cuMemGetHandleForAddressRange", "cuMemGetAddressRange", "cuPointerGetAttributes",
                           "cuMemcpyAsync"}) {
    for (int after : {0, 1, 2}) {
      INFO(call << " after " << after);
      fakes.reset();
      fakes.gpu.fake_give_direct_access(kFakeDmaBuf | kFakeFlushes);
      auto wrong = with_gpu_ranks(2, over_verbs(), [&](tutti_comm_t* comm, int rank) {
        Stream stream;
        std::string error = run(moving(TUTTI_ALL_GATHER), comm, rank, 2, stream);
        error += said(comm, tutti_barrier(comm, nullptr));
        if (rank == 0) fakes.gpu.fake_fail(call, after, CUDA_ERROR_UNKNOWN);
        error += said(comm, tutti_barrier(comm, nullptr));
        for (int i = 0; i < 2 && error.empty(); ++i) {
          OnGpu<float> mine(kCount), all(2 * kCount);
          error += said(comm, tutti_all_gather(mine.data(), all.data(), kCount, TUTTI_FLOAT32, comm, stream.get()));
          must(stream.synchronize());
          if (tutti_comm_status(comm) != TUTTI_SUCCESS) error += tutti_last_error(comm);
        }
        return error;
      });
      CHECK(fakes.gpu.fake_has_failed());
      bool has_failed = !wrong[0].empty() || !wrong[1].empty();
      bool is_named = has_become(call, wrong);
      for (const std::string& each : wrong) UNSCOPED_INFO(each);
      CHECK(has_failed == is_named);
      CHECK(fakes.registered() == 0);
    }
  }
}

}  // namespace tutti::test
