// What a profiler, and ranks that ask, are told of calls that GPUs do alone.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <sstream>
#include <thread>

#include "base/sanitizers.h"
#include "core/profile.h"
#include "cuda/jobs.h"
#include "tutti/tutti_topology.h"

using Catch::Matchers::Contains;

namespace tutti::test {
namespace {

constexpr size_t kCount = 1000;

using Body = std::function<std::string(tutti_comm_t*, int)>;
std::vector<std::string> with_told_ranks(bool on_one_gpu, int nranks, const Options& options, const Body& body) {
  return on_one_gpu ? with_ranks_of_one_gpu(nranks, options, body) : with_ranks_of_gpus(nranks, options, body);
}

std::string algorithm_of(tutti_comm_t* comm, tutti_collective_t collective, uint64_t count, tutti_stream_t stream) {
  static float buffer[1];
  tutti_call_t call{};
  call.struct_size = sizeof call;
  call.collective = collective;
  call.datatype = TUTTI_INT32;
  call.count = count;
  call.stream = stream;
  call.send_buffer = call.recv_buffer = buffer;
  tutti_plan_info_t info{};
  info.struct_size = sizeof info;
  return tutti_comm_plan_info(comm, &call, &info) == TUTTI_SUCCESS ? info.algorithm : tutti_last_error(comm);
}

std::string install(tutti_comm_t* comm, Profile& profile) {
  tutti_profiler_t functions = profile.functions();
  return said(comm, tutti_comm_set_profiler(comm, &functions), "set_profiler");
}
// All that was told has ended, or this is refused.
std::string remove_profiler(tutti_comm_t* comm) {
  return said(comm, tutti_comm_set_profiler(comm, nullptr), "without a profiler");
}

// What GPUs do is told when it is made, and what the host does when it begins there: in another order.
std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string each; std::getline(in, each);) lines.push_back(each);
  std::sort(lines.begin(), lines.end());
  return lines;
}
std::string expect(const std::string& got, const std::string& want) {
  return sorted_lines(got) == sorted_lines(want) ? "" : fmt::format("got\n{}instead of\n{}", got, want);
}

std::string synchronized(const Stream& stream) {
  return stream.synchronize() == CUDA_SUCCESS ? "" : "the stream has failed; ";
}

void await(const std::function<bool()>& has_come) {
  for (int i = 0; i < 10'000 && !has_come(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::string line(int collective, int number, const std::string& algorithm, uint64_t in, uint64_t out, int rank,
                 const char* end = "success") {
  return fmt::format("{} #{} {} {}>{} to -1 by {} {}\n", collective, number, algorithm, in, out, rank, end);
}

// Of GPUs, of the host, and a group, which goes through the host; one numbering for all.
std::string check_mixed(tutti_comm_t* comm, int rank, int nranks) {
  auto n = static_cast<uint64_t>(nranks);
  Stream stream;
  OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount), all(kCount * n);
  int32_t mine = rank, most = 0;
  std::string error = sum(comm, in, out, stream.get());
  error += synchronized(stream);
  Profile profile;
  error += install(comm, profile);
  auto gather = [&] {
    return said(comm, tutti_all_gather(in.data(), all.data(), kCount, TUTTI_INT32, comm, stream.get()), "gather");
  };
  auto max = [&] {
    return said(comm, tutti_all_reduce(&mine, &most, 1, TUTTI_INT32, TUTTI_MAX, comm, nullptr), "max");
  };
  error += sum(comm, in, out, stream.get());
  error += gather();
  error += max();
  tutti_group_begin();
  error += sum(comm, in, out, stream.get());
  error += gather();
  error += said(comm, tutti_group_end(), "group");
  error += said(comm, tutti_barrier(comm, stream.get()), "barrier");
  error += sum(comm, in, out, stream.get());
  error += synchronized(stream);
  error += remove_profiler(comm);
  error += sum(comm, in, out, stream.get());
  error += synchronized(stream);

  uint64_t bytes = kCount * sizeof(int32_t);
  auto on_gpus = [&](tutti_collective_t collective, uint64_t count) {
    return algorithm_of(comm, collective, count, stream.get());
  };
  auto on_host = [&](tutti_collective_t collective, uint64_t count) {
    return algorithm_of(comm, collective, count, nullptr);
  };
  std::string want = line(TUTTI_ALL_REDUCE, 2, on_gpus(TUTTI_ALL_REDUCE, kCount), bytes, bytes, rank) +
                     line(TUTTI_ALL_GATHER, 3, on_gpus(TUTTI_ALL_GATHER, kCount), bytes, bytes * n, rank) +
                     line(TUTTI_ALL_REDUCE, 4, on_host(TUTTI_ALL_REDUCE, 1), 4, 4, rank) +
                     line(TUTTI_ALL_REDUCE, 5, on_host(TUTTI_ALL_REDUCE, kCount), bytes, bytes, rank) +
                     line(TUTTI_ALL_GATHER, 6, on_host(TUTTI_ALL_GATHER, kCount), bytes, bytes * n, rank) +
                     line(TUTTI_BARRIER, 7, on_gpus(TUTTI_BARRIER, 0), 0, 0, rank) +
                     line(TUTTI_ALL_REDUCE, 8, on_gpus(TUTTI_ALL_REDUCE, kCount), bytes, bytes, rank);
  return error + expect(profile.text(), want);
}

TEST_CASE("a profiler is told of calls of GPUs as of others, in one numbering") {
  for (bool on_one_gpu : {true, false}) {
    for (int nranks : {2, 4}) {
      INFO((on_one_gpu ? "one GPU, " : "a GPU each, ") << nranks);
      Counted launches("cuLaunchKernel");
      auto wrong = with_told_ranks(on_one_gpu, nranks, {},
                                   [&](tutti_comm_t* comm, int rank) { return check_mixed(comm, rank, nranks); });
      for (const std::string& each : wrong) CHECK(each == "");
      CHECK(launches.now() == (on_one_gpu ? 5 : 5 * nranks));  // it takes no other way for that
    }
  }
}

TEST_CASE("the end of a call of GPUs is told although the program makes no other call") {
  constexpr int kRanks = 2, kCalls = 3;
  for (bool on_one_gpu : {true, false}) {
    INFO("on one GPU: " << on_one_gpu);
    auto wrong = with_told_ranks(on_one_gpu, kRanks, {}, [&](tutti_comm_t* comm, int rank) {
      Stream stream;
      OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
      Profile profile;
      std::string error = install(comm, profile);
      for (int i = 0; i < kCalls; ++i) error += sum(comm, in, out, stream.get());
      error += synchronized(stream);
      await([&] { return profile.running() == 0; });
      error += profile.running() == 0 && profile.begun() == kCalls ? "" : profile.text();
      return error + remove_profiler(comm);
    });
    for (const std::string& each : wrong) CHECK(each == "");
  }
}

TEST_CASE("a call of a GPU begins for a profiler when it is made, and ends when all ranks have come") {
  constexpr int kRanks = 2;
  std::atomic<bool> may_come{false};
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
    Profile profile;
    std::string error = install(comm, profile);
    if (rank == 1) await([&] { return may_come.load(); });
    error += sum(comm, in, out, stream.get());
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (profile.begun() != 1 || profile.running() != 1) error += "not under way: " + profile.text();
      if (tutti_comm_set_profiler(comm, nullptr) != TUTTI_INVALID_USAGE) error += "changed while a call is under way; ";
      may_come = true;
    }
    error += synchronized(stream);
    error += remove_profiler(comm);
    return error + (profile.begun() == 1 && profile.running() == 0 ? "" : profile.text());
  });
  for (const std::string& each : wrong) CHECK(each == "");
}

// One rank has its buffers elsewhere, so that the others' calls go through the host after all.
TEST_CASE("a call that GPUs were to do and that goes through the host is told once, with its number") {
  constexpr int kCalls = 4;
  for (bool on_one_gpu : {true, false}) {
    for (int nranks : {2, 4}) {
      INFO((on_one_gpu ? "one GPU, " : "a GPU each, ") << nranks);
      auto wrong = with_told_ranks(on_one_gpu, nranks, {}, [&](tutti_comm_t* comm, int rank) {
        Stream stream;
        OnGpu<int32_t> in(kCount, rank == 1 ? Where::kManaged : Where::kDevice, 1), out(kCount);
        OnGpu<int32_t> on_device(kCount);
        Profile profile;
        std::string error = install(comm, profile), want;
        std::string algorithm = algorithm_of(comm, TUTTI_ALL_REDUCE, kCount, rank == 1 ? nullptr : stream.get());
        std::string of_gpus = algorithm_of(comm, TUTTI_ALL_REDUCE, kCount, stream.get());
        for (int i = 0; i < kCalls; ++i) {
          error += sum(comm, in, out, stream.get());
          if (i % 2 == rank % 2) error += synchronized(stream);  // another one decides
          want += line(TUTTI_ALL_REDUCE, 2 * i + 1, algorithm, kCount * 4, kCount * 4, rank);
          error += sum(comm, on_device, on_device, stream.get());
          want += line(TUTTI_ALL_REDUCE, 2 * i + 2, of_gpus, kCount * 4, kCount * 4, rank);
        }
        error += synchronized(stream);
        error += remove_profiler(comm);
        if (out.download() != std::vector<int32_t>(kCount, nranks)) error += "another sum; ";
        return error + expect(profile.text(), want);
      });
      for (const std::string& each : wrong) CHECK(each == "");
    }
  }
}

// Ranks with a GPU each make calls of graphs by launches; threads on one GPU make them through the host.
TEST_CASE("each replay of a captured call is told, and the capture is not") {
  constexpr int kRanks = 2, kLaunches = 5;
  const Gpu& gpu = Gpu::driver();
  for (bool on_one_gpu : {true, false}) {
    for (Where others : {Where::kDevice, Where::kManaged}) {
      INFO("on one GPU: " << on_one_gpu << ", others: " << static_cast<int>(others));
      auto wrong = with_told_ranks(on_one_gpu, kRanks, {}, [&](tutti_comm_t* comm, int rank) {
        Stream stream;
        OnGpu<int32_t> in(kCount, rank == 0 ? Where::kDevice : others, rank + 1), out(kCount);
        Profile profile;
        std::string error = install(comm, profile), want;
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        error += sum(comm, in, out, stream.get());
        must(gpu.cuStreamEndCapture(stream.get(), &graph));
        must(gpu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        if (profile.begun() != 0) error += "the capture was told; ";
        bool by_gpus = !on_one_gpu && (rank == 0 || others == Where::kDevice);
        std::string algorithm = algorithm_of(comm, TUTTI_ALL_REDUCE, kCount, by_gpus ? stream.get() : nullptr);
        for (int i = 0; i < kLaunches; ++i) {
          must(gpu.cuGraphLaunch(exec, stream.get()));
          want += line(TUTTI_ALL_REDUCE, i + 1, algorithm, kCount * 4, kCount * 4, rank);
        }
        error += synchronized(stream);
        // What goes through the host is told before its stream goes on, too.
        error += remove_profiler(comm);
        error += expect(profile.text(), want);
        must(gpu.cuGraphExecDestroy(exec));
        must(gpu.cuGraphDestroy(graph));
        return error + (out.download() == std::vector<int32_t>(kCount, 3) ? "" : "another sum");
      });
      for (const std::string& each : wrong) CHECK(each == "");
    }
  }
}

// Streams of graphs come to calls whenever they do: also while the profiler changes, which then is refused, or first.
TEST_CASE("a profiler that is taken away while graphs run has been told of the end of each call") {
  constexpr int kRanks = 2, kLaunches = 300;
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    std::string error = sum(comm, in, out, stream.get());
    must(gpu.cuStreamEndCapture(stream.get(), &graph));
    must(gpu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    Profile profile;
    tutti_profiler_t functions = profile.functions();
    std::atomic<bool> have_run{false};
    std::thread changes([&] {
      for (bool sets = true; !have_run.load(); sets = !sets) {
        (void)tutti_comm_set_profiler(comm, sets ? &functions : nullptr);
      }
    });
    for (int i = 0; i < kLaunches; ++i) must(gpu.cuGraphLaunch(exec, stream.get()));
    error += synchronized(stream);
    have_run = true;
    changes.join();
    error += remove_profiler(comm);
    if (profile.running() != 0) error += profile.text();
    must(gpu.cuGraphExecDestroy(exec));
    must(gpu.cuGraphDestroy(graph));
    return error;
  });
  for (const std::string& each : wrong) CHECK(each == "");
}

TEST_CASE("a call of GPUs that fails is told as failed, once") {
  constexpr int kRanks = 2;
  for (bool on_one_gpu : {true, false}) {
    INFO("on one GPU: " << on_one_gpu);
    Profile profiles[kRanks];
    auto wrong = with_told_ranks(on_one_gpu, kRanks, {{"timeout_ms", "1500"}}, [&](tutti_comm_t* comm, int rank) {
      Stream stream;
      OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
      std::string error = install(comm, profiles[rank]);
      error += sum(comm, in, out, stream.get());
      error += synchronized(stream);
      if (!error.empty()) return error;
      if (rank == 0) (void)sum(comm, in, out, stream.get());
      await_failure(comm);
      (void)stream.synchronize();
      // As for every call: once the caller knows, its end is told or about to be.
      await([&] { return profiles[rank].running() == 0; });
      // The other one may hear of it first from what they share.
      bool has_failed = rank == 0 ? tutti_comm_status(comm) == TUTTI_TIMEOUT : tutti_comm_status(comm) != TUTTI_SUCCESS;
      return std::string(has_failed ? "" : tutti_last_error(comm));
    });
    for (const std::string& each : wrong) CHECK(each == "");
    CHECK(profiles[0].begun() == 2);
    CHECK(profiles[1].begun() == 1);
    for (const Profile& each : profiles) CHECK_THAT(each.text(), Contains("#1 ") && Contains("success"));
    CHECK_THAT(profiles[0].text(), Contains("#2 ") && Contains("timeout"));
  }
}

// Whose buffers are elsewhere makes another call. The gates of the others open behind what went wrong on the host.
TEST_CASE("a call that GPUs were to do and that fails on the host is told as failed") {
  constexpr int kRanks = 2;
  for (bool on_one_gpu : {true, false}) {
    INFO("on one GPU: " << on_one_gpu);
    Profile profile;
    auto wrong = with_told_ranks(on_one_gpu, kRanks, {}, [&](tutti_comm_t* comm, int rank) {
      Stream stream;
      OnGpu<int32_t> in(kCount, rank == 1 ? Where::kManaged : Where::kDevice, 1), out(kCount);
      std::string error = rank == 0 ? install(comm, profile) : "";
      if (!error.empty()) return error;
      (void)tutti_all_reduce(in.data(), out.data(), rank == 0 ? kCount : kCount / 2, TUTTI_INT32, TUTTI_SUM, comm,
                             stream.get());
      await_failure(comm);
      (void)stream.synchronize();
      await([&] { return rank == 1 || profile.running() == 0; });
      return error;
    });
    for (const std::string& each : wrong) CHECK(each == "");
    CHECK(profile.begun() == 1);
    CHECK_THAT(profile.text(), Contains("#1 ") && !Contains("success") && !Contains("runs"));
  }
}

// Behind it the host has nothing to do any more, but the stream has.
TEST_CASE("a call that goes through the host after all has ended when its communicator is finalized") {
  constexpr int kRanks = 2;
  constexpr size_t kLarge = kUnderThreadSanitizer ? 1'000'000 : 4'000'000;
  Profile profile;
  std::atomic<bool> has_come{false};
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> in(kLarge, rank == 1 ? Where::kManaged : Where::kDevice, 1), out(kLarge);
    std::string error = rank == 0 ? install(comm, profile) : "";
    if (rank == 0) await([&] { return has_come.load(); });
    error += sum(comm, in, out, stream.get());
    has_come = true;
    error += said(comm, tutti_comm_finalize(comm), "finalize");
    if (rank == 0 && profile.running() != 0) error += "still under way: " + profile.text();
    return error + synchronized(stream);
  });
  for (const std::string& each : wrong) CHECK(each == "");
  CHECK_THAT(profile.text(), Contains("#1 ") && Contains("success"));
}

TEST_CASE("what was told has ended when its communicator has") {
  constexpr int kRanks = 2;
  for (bool aborts : {true, false}) {
    INFO("aborts: " << aborts);
    Profile profile;
    auto wrong = with_ranks_of_gpus(kRanks, {{"timeout_ms", "1500"}}, [&](tutti_comm_t* comm, int rank) {
      Stream stream;
      OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
      std::string error = rank == 0 ? install(comm, profile) : "";
      if (rank == 0) error += sum(comm, in, out, stream.get());
      if (rank == 0 && aborts) tutti_comm_abort(comm);
      if (rank == 1) await_failure(comm);
      return error;
    });
    for (const std::string& each : wrong) CHECK(each == "");
    CHECK(profile.begun() == 1);
    CHECK(profile.running() == 0);
    CHECK_THAT(profile.text(), Contains(aborts ? "aborted" : "timeout"));
  }
}

// No stream has come to the call, so no rank is late, and each leaves after its deadline.
TEST_CASE("a call of GPUs that is under way when its communicator is destroyed is told as aborted") {
  constexpr int kRanks = 2;
  CUhostFn hold = [](void* go) {
    while (!*static_cast<std::atomic<bool>*>(go)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  struct Used {
    Stream stream;
    OnGpu<int32_t> in{kCount}, out{kCount};
  };
  for (bool on_one_gpu : {true, false}) {
    INFO("on one GPU: " << on_one_gpu);
    std::atomic<bool> may_go{false};
    std::unique_ptr<Used> used[kRanks];  // for longer than the communicators
    Profile profiles[kRanks];
    auto wrong = with_told_ranks(on_one_gpu, kRanks, {{"timeout_ms", "1500"}}, [&](tutti_comm_t* comm, int rank) {
      used[rank] = std::make_unique<Used>();
      must(Gpu::driver().cuLaunchHostFunc(used[rank]->stream.get(), hold, &may_go));
      std::string error = install(comm, profiles[rank]);
      return error + sum(comm, used[rank]->in, used[rank]->out, used[rank]->stream.get());
    });
    for (const std::string& each : wrong) CHECK(each == "");
    for (const Profile& each : profiles) CHECK_THAT(each.text(), Contains("#1 ") && Contains("aborted"));
    may_go = true;
    for (const auto& each : used) CHECK(each->stream.synchronize() == CUDA_SUCCESS);
  }
}

TEST_CASE("a rank that others wait for answers with the last call that it has made, also one of its GPU") {
  constexpr int kRanks = 2;
  for (bool on_one_gpu : {true, false}) {
    INFO("on one GPU: " << on_one_gpu);
    auto wrong = with_told_ranks(on_one_gpu, kRanks, {{"timeout_ms", "1500"}}, [&](tutti_comm_t* comm, int rank) {
      Stream stream;
      OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
      std::string error = said(comm, tutti_barrier(comm, nullptr), "barrier");
      error += sum(comm, in, out, stream.get());
      error += sum(comm, in, out, stream.get());
      error += synchronized(stream);
      if (!error.empty()) return error;
      int32_t word = 0;
      if (rank == 0) (void)tutti_recv(&word, 1, TUTTI_INT32, 1, 0, comm, nullptr, nullptr);
      await_failure(comm);
      return std::string(tutti_last_error(comm));
    });
    CHECK_THAT(wrong[0], Contains("rank 0 waits for rank 1, whose last call is all_reduce #3 of 1000 int32 (sum)"));
  }
}

TEST_CASE("calls that differ after some of GPUs are named with their number among all") {
  constexpr int kRanks = 2;
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
    std::string error = sum(comm, in, out, stream.get());
    error += sum(comm, in, out, stream.get());
    error += synchronized(stream);
    int32_t mine[2] = {}, all[2] = {};
    if (!error.empty()) return error;
    return said(comm, tutti_all_reduce(mine, all, rank + 1, TUTTI_INT32, TUTTI_MAX, comm, nullptr));
  });
  const std::string first = "rank 0 called all_reduce #3 of 1 int32 (max)";
  const std::string second = "rank 1 called all_reduce #3 of 2 int32 (max)";
  bool is_named = has_become((first + ", but " + second).c_str(), wrong) ||
                  has_become((second + ", but " + first).c_str(), wrong);
  for (const std::string& each : wrong) UNSCOPED_INFO(each);
  CHECK(is_named);
}

}  // namespace
}  // namespace tutti::test
