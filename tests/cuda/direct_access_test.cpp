// Messages of GPU memory between ranks that RDMA devices join: they leave from where they are and arrive where they
// belong, and go through the host's memory where anything stands in the way. On the driver and the libibverbs of the
// tests.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <functional>

#include "base/capture.h"
#include "base/sanitizers.h"
#include "core/messages.h"
#include "cuda/over_verbs.h"

namespace tutti::test {
namespace {

constexpr size_t kCount = 300'000;  // floats

// What a rank sends to the next one and receives from the one before, on a stream. It lies within allocations, as that
// of frameworks does.
class Ring {
 public:
  Ring(tutti_comm_t* comm, int rank, int nranks, size_t count = kCount)
      : comm_(comm), next_((rank + 1) % nranks), before_((rank + nranks - 1) % nranks), rank_(rank),
        out(kInset + count), in(kInset + count) {}

  std::string exchange(int tag) {
    tutti_group_begin();
    std::string wrong = start(tag);
    wrong += said(comm_, tutti_group_end());
    return wrong + finish(tag);
  }
  std::string start(int tag) {
    prepare(tag);
    std::string wrong = send(tag);
    return wrong + receive(tag);
  }
  void prepare(int tag) {
    fill(std::span(out.host).subspan(kInset), rank_, next_, tag);
    out.upload();
    std::fill(in.host.begin(), in.host.end(), -1.0F);
    in.upload();
  }
  std::string send(int tag) {
    size_t count = out.host.size() - kInset;
    return said(comm_, tutti_send(out.data() + kInset, count, TUTTI_FLOAT32, next_, tag, comm_, get()));
  }
  std::string receive(int tag) {
    size_t count = in.host.size() - kInset;
    return said(comm_, tutti_recv(in.data() + kInset, count, TUTTI_FLOAT32, before_, tag, comm_, get(), nullptr));
  }
  // Of the stream; then what is wrong with what has come.
  std::string finish(int tag) {
    std::string wrong = finish();
    if (!wrong.empty()) return wrong;
    auto all = std::span(in.download());
    bool is_clean = std::all_of(all.begin(), all.begin() + kInset, [](float each) { return each == -1; });
    return compare(all.subspan(kInset), before_, rank_, tag) + (is_clean ? "" : "something is before it; ");
  }
  std::string finish() {
    std::string wrong;
    if (stream.synchronize() != CUDA_SUCCESS) wrong += "the stream has failed; ";
    if (tutti_comm_status(comm_) != TUTTI_SUCCESS) wrong += tutti_last_error(comm_);
    return wrong;
  }
  CUstream get() const { return stream.get(); }

 private:
  static constexpr size_t kInset = 77;
  tutti_comm_t* const comm_;
  const int next_, before_, rank_;

 public:
  OnGpu<float> out, in;
  Stream stream;
};

// Copies that the ranks' rounds of exchanges cost, after the first, which connects them.
int copies_of_rounds(int nranks, const Options& options, const std::function<void()>& before = {}) {
  std::atomic<int> copies{0};
  check_all(with_gpu_ranks(nranks, options, [&](tutti_comm_t* comm, int rank) {
    Ring ring(comm, rank, nranks);
    std::string wrong = ring.exchange(0);
    wrong += said(comm, tutti_barrier(comm, nullptr));
    Counted counted("cuMemcpyAsync");
    if (rank == 0 && before) before();
    wrong += said(comm, tutti_barrier(comm, nullptr));
    for (int tag = 1; tag < 4; ++tag) wrong += ring.exchange(tag);
    wrong += said(comm, tutti_barrier(comm, nullptr));
    if (rank == 0) copies = counted.now();
    return wrong;
  }));
  return copies;
}

}  // namespace

TEST_CASE("messages of GPU memory cross without a copy, once their ranks are connected") {
  Fakes fakes;
  int nranks = GENERATE(2, 4);
  CHECK(copies_of_rounds(nranks, over_verbs()) == 0);
  CHECK(fakes.registered() == 0);  // the ranks have left
  fakes.check_used_well();
}

TEST_CASE("where driver, device or library has no dmabuf, or it is turned off, messages go through the host") {
  Fakes fakes;
  Options options = over_verbs();
  std::string why;
  SECTION("the driver has none") {
    fakes.gpu.fake_give_direct_access(kFakeOrdered);
    why = "the CUDA driver has no dma-buf here";
  }
  SECTION("the driver cannot say when a GPU sees what was written") {
    fakes.gpu.fake_give_direct_access(kFakeDmaBuf);
    why = "the CUDA driver cannot have a stream wait until the GPU sees";
  }
  SECTION("the device takes none") {
    fakes.verbs->set_faults({.dma_buf_error = EOPNOTSUPP});
    why = "cannot register GPU memory with fake";
  }
  SECTION("the library is older") {
    options = over_verbs({}, TUTTI_TEST_OLD_VERBS_LIBRARY);
    why = "version 34 of rdma-core or newer is needed";
  }
  SECTION("it is turned off") { options.insert({"ib_dmabuf", "0"}); }
  std::string said_of_it;
  {
    StderrCapture log;
    ::setenv("TUTTI_LOG", "info", 1);
    CHECK(copies_of_rounds(2, options) > 0);
    ::unsetenv("TUTTI_LOG");
    said_of_it = log.text();
  }
  INFO(said_of_it);
  CHECK(count_of("GPU memory goes through the host's", said_of_it) == (why.empty() ? 0 : 2));
  if (!why.empty()) CHECK(count_of(why, said_of_it) == 2);  // by each rank, once
  CHECK(fakes.registered() == 0);
  fakes.check_used_well();
}

TEST_CASE("what a device has written is made visible to a GPU that does not see it by itself") {
  Fakes fakes;
  bool is_ordered = GENERATE(false, true);
  fakes.gpu.fake_give_direct_access(kFakeDmaBuf | kFakeFlushes | (is_ordered ? kFakeOrdered : 0));
  Counted flushes("CU_STREAM_WAIT_VALUE_FLUSH");
  CHECK(copies_of_rounds(2, over_verbs()) == 0);
  CHECK(flushes.now() == (is_ordered ? 0 : 6));  // for each message received after the first
}

TEST_CASE("messages arrive whole, whichever end is a GPU's and however short they are") {
  Fakes fakes;
  bool is_refused = GENERATE(false, true);
  if (is_refused) fakes.verbs->set_faults({.dma_buf_error = EOPNOTSUPP});
  check_all(with_gpu_ranks(2, over_verbs(), [&](tutti_comm_t* comm, int rank) {
    std::string wrong;
    int tag = 0;
    Stream stream;
    // The last ones are longer than a part of a message by little.
    for (size_t count : {size_t{5}, size_t{1000}, kCount, size_t{16384} * 2 + 1, (size_t{1} << 20) + 3}) {
      if (kUnderThreadSanitizer && count > 1'000'000) continue;
      for (Where from : {Where::kDevice, Where::kPinned}) {
        for (Where to : {Where::kDevice, Where::kPinned}) {
          ++tag;
          OnGpu<float> data(rank == 0 ? count : kCount + count, rank == 0 ? from : to, -1.0F);
          tutti_message_t message{};
          if (rank == 0) {
            fill(data.host, 0, 1, tag);
            data.upload();
            wrong += said(comm, tutti_send(data.data(), count, TUTTI_FLOAT32, 1, tag, comm, stream.get()));
            must(stream.synchronize());
            continue;
          }
          wrong += said(comm, tutti_recv(data.data(), data.host.size(), TUTTI_FLOAT32, 0, tag, comm, stream.get(),
                                         &message));
          must(stream.synchronize());
          wrong += compare(std::span(data.download()).first(count), 0, 1, tag);
          if (message.count != count) wrong += "another count; ";
          auto rest = std::span(data.host).subspan(count);
          if (std::any_of(rest.begin(), rest.end(), [](float each) { return each != -1; })) wrong += "behind it; ";
        }
      }
    }
    return wrong + said(comm, tutti_comm_status(comm));
  }));
  fakes.check_used_well();
}

TEST_CASE("a GPU's data reaches a receiver that has ordinary memory") {
  Fakes fakes;
  constexpr size_t kOdd = 3 * 16384 + 7;  // its last piece is short enough for a line
  check_all(with_gpu_ranks(2, over_verbs(), [&](tutti_comm_t* comm, int rank) {
    std::string wrong;
    for (int tag = 1; tag < 4; ++tag) {
      wrong += said(comm, tutti_barrier(comm, nullptr));
      if (rank == 1) {
        std::vector<float> data(kOdd);
        wrong += receive(comm, data, 0, tag);
        wrong += compare(data, 0, 1, tag);
        continue;
      }
      OnGpu<float> data(kOdd);
      Stream stream;
      fill(data.host, 0, 1, tag);
      data.upload();
      Counted copies("cuMemcpyAsync");
      wrong += said(comm, tutti_send(data.data(), kOdd, TUTTI_FLOAT32, 1, tag, comm, stream.get()));
      must(stream.synchronize());
      if (tag > 1 && copies.now() != 0) wrong += "it was copied; ";
    }
    return wrong;
  }));
  fakes.check_used_well();
}

TEST_CASE("memory that is freed, and other memory at its address, is not mistaken for what was registered") {
  Fakes fakes;
  check_all(with_gpu_ranks(2, over_verbs(), [&](tutti_comm_t* comm, int rank) {
    std::string wrong;
    for (int tag = 0; tag < 6; ++tag) {
      Ring ring(comm, rank, 2, kCount + static_cast<size_t>(tag % 2));
      wrong += ring.exchange(tag);
    }
    wrong += said(comm, tutti_barrier(comm, nullptr));
    // Those of the last exchange, and of one before it that nothing has looked at since.
    if (rank == 0 && fakes.registered() > 8) wrong += "what was freed stays registered; ";
    return wrong + said(comm, tutti_barrier(comm, nullptr));
  }));
  CHECK(fakes.registered() == 0);
  fakes.check_used_well();
}

TEST_CASE("more buffers than may be registered at a time take turns, and all arrive") {
  Fakes fakes;
  check_all(with_gpu_ranks(2, over_verbs({{"ib_regions", "3"}}), [&](tutti_comm_t* comm, int rank) {
    std::string wrong;
    std::vector<std::unique_ptr<Ring>> rings;
    constexpr int kRings = 5;
    for (int i = 0; i < kRings; ++i) rings.push_back(std::make_unique<Ring>(comm, rank, 2));
    for (auto& ring : rings) wrong += ring->exchange(0);
    wrong += said(comm, tutti_barrier(comm, nullptr));
    Counted copies("cuMemcpyAsync");
    for (int round = 1; round < 3; ++round) {
      for (auto& ring : rings) wrong += ring->exchange(round);
    }
    if (copies.now() > 0) wrong += "what is not under way any more takes room; ";
    wrong += said(comm, tutti_barrier(comm, nullptr));
    if (rank == 0) fakes.verbs->set_faults({.lag = 20});
    tutti_group_begin();
    for (int i = 0; i < kRings; ++i) wrong += rings[i]->start(10 + i);
    wrong += said(comm, tutti_group_end());
    for (int i = 0; i < kRings; ++i) wrong += rings[i]->finish(10 + i);
    return wrong;
  }));
  fakes.check_used_well();
}

TEST_CASE("a captured message goes through the host, each time") {
  Fakes fakes;
  check_all(with_gpu_ranks(2, over_verbs(), [&](tutti_comm_t* comm, int rank) {
    const Gpu& gpu = Gpu::driver();
    Ring ring(comm, rank, 2);
    std::string wrong = ring.exchange(0);
    CUgraph graph = nullptr;
    CUgraphExec launchable = nullptr;
    Counted copies("cuMemcpyAsync");
    must(gpu.cuStreamBeginCapture(ring.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    wrong += rank == 0 ? ring.send(7) : ring.receive(7);
    if (copies.now() == 0) wrong += "the graph would use what is registered now; ";
    must(gpu.cuStreamEndCapture(ring.get(), &graph));
    must(gpu.cuGraphInstantiateWithFlags(&launchable, graph, 0));
    for (int launch = 0; launch < 3; ++launch) {
      ring.prepare(launch);
      must(gpu.cuGraphLaunch(launchable, ring.get()));
      wrong += rank == 1 ? ring.finish(launch) : ring.finish();
      wrong += said(comm, tutti_barrier(comm, nullptr));
    }
    must(gpu.cuGraphExecDestroy(launchable));
    must(gpu.cuGraphDestroy(graph));
    return wrong;
  }));
}

TEST_CASE("a driver's call that fails on the way is done without, or named") {
  Fakes fakes;
  for (const char* call : {"cuMemGetHandleForAddressRange", "cuMemGetAddressRange", "cuDeviceGetAttribute",
                           "cuPointerGetAttributes", "cuCtxGetDevice", "cuDeviceGet", "cuCtxPushCurrent"}) {
    for (int after : {0, 1, 2}) {
      INFO(call << " after " << after);
      fakes.reset();
      fakes.gpu.fake_give_direct_access(kFakeDmaBuf | kFakeFlushes);
      auto wrong = with_gpu_ranks(2, over_verbs(), [&](tutti_comm_t* comm, int rank) {
        Ring ring(comm, rank, 2);
        std::string error = ring.exchange(0);
        error += said(comm, tutti_barrier(comm, nullptr));
        if (rank == 0) fakes.gpu.fake_fail(call, after, CUDA_ERROR_UNKNOWN);
        error += said(comm, tutti_barrier(comm, nullptr));
        for (int tag = 1; tag < 3 && error.empty(); ++tag) error += ring.exchange(tag);
        return error;
      });
      CHECK(fakes.gpu.fake_has_failed());
      bool has_failed = false, is_named = false;
      for (const std::string& each : wrong) {
        UNSCOPED_INFO(each);
        CHECK_THAT(each, !Catch::Contains("element"));
        has_failed = has_failed || !each.empty();
        is_named = is_named || each.find(call) != std::string::npos;
      }
      CHECK(has_failed == is_named);
      CHECK(fakes.registered() == 0);
    }
  }
}

}  // namespace tutti::test
