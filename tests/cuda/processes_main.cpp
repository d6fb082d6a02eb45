// One rank of a job whose ranks are processes, on one GPU or, with "each", on one of its own. Says what is wrong, and
// ends with 1.
//   processes sums [each]    collectives on memory that comes and goes
//   processes many [each]    thousands of calls
//   processes streams [each]  two streams, the first of which comes late to its call
//   processes killed [each]  rank 1 dies with a call under way: the others hear of it, and their streams go on
//   processes ahead [each]   rank 0 makes calls before the others do, and sends them what they need for these
//   processes graphs [each]  calls that some ranks have captured, and others make anew
//   processes bare [each]    memory without handles: calls go through the host
//   processes unloaded [each]  code that does not run there: the same
//   processes injected [each]  calls about other processes' memory that fail: the same
//   processes counted [each]   a call takes few of the driver's
//   processes freeing [each]  what the program frees holds all the driver up until its streams have got their calls
//   processes pinning each   what tutti pins does so, for just the call that a stream waits for: a sentence ends it
//   processes late [each]    rank 1 makes no call: the others hear of it, and their streams go on
//   processes told [each]    a profiler hears of each call, captured or not, wherever it is done
//   processes cost [each]    says how long calls take without a profiler, and with one
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/profile.h"
#include "cuda/gpu.h"
#include "tutti/tutti.h"

namespace tutti::test {
namespace {

struct Job {
  tutti_comm_t* comm = nullptr;
  int rank = 0;
  int nranks = 0;
  bool on_one_gpu = true;
};

int wrong(const Job& job, const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", job.rank, what.c_str());
  return 1;
}

std::string check(const Job& job, const Stream& stream, size_t count) {
  auto n = static_cast<size_t>(job.nranks);
  // Allocated anew each time, mostly at the addresses of the last time.
  OnGpu<int32_t> in(count * n), out(count * n), sum(count * n), block(count);
  for (size_t i = 0; i < in.host.size(); ++i) in.host[i] = static_cast<int32_t>(i * 7 + job.rank);
  in.upload();
  tutti_all_reduce(in.data(), sum.data(), count * n, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
  tutti_all_to_all(in.data(), out.data(), count, TUTTI_INT32, job.comm, stream.get());
  tutti_reduce_scatter(in.data(), block.data(), count, TUTTI_INT32, TUTTI_MAX, job.comm, stream.get());
  if (stream.synchronize() != CUDA_SUCCESS || tutti_comm_status(job.comm) != TUTTI_SUCCESS) {
    return tutti_last_error(job.comm);
  }
  sum.download();
  out.download();
  block.download();
  for (size_t i = 0; i < in.host.size(); ++i) {
    auto base = static_cast<int32_t>(i * 7);
    if (sum.host[i] != base * job.nranks + job.nranks * (job.nranks - 1) / 2) return "another sum";
    size_t from = i / count, at = static_cast<size_t>(job.rank) * count + i % count;
    if (out.host[i] != static_cast<int32_t>(at * 7 + from)) return "other blocks";
    if (i < count && block.host[i] != static_cast<int32_t>(at * 7) + job.nranks - 1) return "another maximum";
  }
  return "";
}

int run_sums(const Job& job) {
  const Gpu& gpu = Gpu::driver();
  Stream stream;
  int calls = 0;
  for (size_t count : {1, 5, 1000, 40'000, 1000, 40'000, 3}) {
    std::string what = check(job, stream, count);
    if (!what.empty()) return wrong(job, std::to_string(count) + " elements: " + what);
    calls += 3;
  }
  int32_t launches = gpu.fake_calls("cuLaunchKernel"), all = 0;
  if (gpu.fake_calls("cuLaunchHostFunc") != 0) return wrong(job, "calls went through the host");
  tutti_all_reduce(&launches, &all, 1, TUTTI_INT32, TUTTI_SUM, job.comm, nullptr);
  if (!job.on_one_gpu) calls *= job.nranks;
  if (all != calls) return wrong(job, std::to_string(all) + " launches for " + std::to_string(calls) + " calls");
  // What was opened of other processes is closed when its place has something else, and at the end.
  return tutti_comm_finalize(job.comm) == TUTTI_SUCCESS ? 0 : wrong(job, tutti_last_error(job.comm));
}

// Each rank's thread looks for what is decided, some of the times just when another rank decides.
int run_many(const Job& job) {
  Stream stream;
  for (int i = 0; i < 4000; ++i) {
    if (tutti_barrier(job.comm, stream.get()) != TUTTI_SUCCESS) return wrong(job, tutti_last_error(job.comm));
    if (i % 4 == 3 && stream.synchronize() != CUDA_SUCCESS) return wrong(job, "the stream has failed");
  }
  return tutti_comm_finalize(job.comm) == TUTTI_SUCCESS ? 0 : wrong(job, tutti_last_error(job.comm));
}

// Call 1 is made last by other ranks than call 2, on another stream, which on the rank that makes that one last would
// be there before what call 1 sends.
int run_streams(const Job& job) {
  constexpr int kStepMs = 10;
  const Gpu& gpu = Gpu::driver();
  auto sleep = [](int steps) { std::this_thread::sleep_for(std::chrono::milliseconds(steps * kStepMs)); };
  CUhostFn late = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(6 * kStepMs)); };
  for (int latest = 0; latest < job.nranks; ++latest) {
    Stream first, second;
    OnGpu<int32_t> one(1000, Where::kDevice, 1), value(1000);
    auto sum = [&](const Stream& stream) {
      tutti_all_reduce(value.data(), value.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
    };
    tutti_barrier(job.comm, nullptr);
    must(gpu.cuLaunchHostFunc(first.get(), late, nullptr));
    must(gpu.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(value.data()), reinterpret_cast<CUdeviceptr>(one.data()),
                           one.bytes(), first.get()));
    if (job.rank != latest) sleep(1);
    sum(first);
    if (job.rank == latest) sleep(2);
    sum(second);
    must(first.synchronize());
    must(second.synchronize());
    if (value.download() != std::vector<int32_t>(1000, job.nranks * job.nranks)) return wrong(job, "another sum");
  }
  return tutti_comm_finalize(job.comm) == TUTTI_SUCCESS ? 0 : wrong(job, tutti_last_error(job.comm));
}

int run_killed(const Job& job) {
  ::signal(SIGTERM, SIG_IGN);  // the launcher ends the others, which have something to say first
  Stream stream;
  OnGpu<int32_t> in(1000), out(1000);
  tutti_all_reduce(in.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
  (void)stream.synchronize();
  if (job.rank == 1 && job.on_one_gpu) ::kill(::getpid(), SIGKILL);
  // Else the others are in their kernels then, which wait for this one's.
  if (job.rank == 1) Gpu::driver().fake_hold_kernels(1);
  tutti_all_reduce(in.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
  if (job.rank == 1) {
    ::usleep(100'000);
    ::kill(::getpid(), SIGKILL);
  }
  (void)stream.synchronize();
  for (int i = 0; i < 2000 && tutti_comm_status(job.comm) == TUTTI_SUCCESS; ++i) ::usleep(5000);
  std::string why = tutti_last_error(job.comm);
  if (why.find("rank 1") == std::string::npos) return wrong(job, "unexpected: " + why);
  std::printf("rank %d has heard\n", job.rank);
  return 0;
}

int run_ahead(const Job& job) {
  constexpr int kCalls = 60;
  Stream stream;
  OnGpu<int32_t> a(1000, Where::kDevice, 1), b(1000);
  int32_t message = 7;
  auto call = [&] {
    for (int i = 0; i < kCalls; ++i) {
      const OnGpu<int32_t>& from = i % 2 == 0 ? a : b;
      const OnGpu<int32_t>& to = i % 2 == 0 ? b : a;
      tutti_all_reduce(from.data(), to.data(), 1000, TUTTI_INT32, TUTTI_MAX, job.comm, stream.get());
    }
  };
  if (job.rank == 0) call();
  for (int peer = 1; job.rank == 0 && peer < job.nranks; ++peer) {
    tutti_send(&message, 1, TUTTI_INT32, peer, 0, job.comm, nullptr);
  }
  if (job.rank != 0) {
    tutti_recv(&message, 1, TUTTI_INT32, 0, 0, job.comm, nullptr, nullptr);
    call();
  }
  if (stream.synchronize() != CUDA_SUCCESS || tutti_comm_status(job.comm) != TUTTI_SUCCESS) {
    return wrong(job, tutti_last_error(job.comm));
  }
  return a.download() == std::vector<int32_t>(1000, 1) ? 0 : wrong(job, "another maximum");
}

// How many ranks repeat the call, the first ones; the others make it anew each time.
std::string repeat(const Job& job, int capturing, Where last) {
  constexpr int kLaunches = 70;  // more than a rank may be ahead
  const Gpu& gpu = Gpu::driver();
  Stream stream;
  OnGpu<int32_t> in(1000, job.rank == job.nranks - 1 ? last : Where::kDevice, 1), sum(1000), all(1000 * job.nranks);
  auto call = [&] {
    tutti_all_reduce(in.data(), sum.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
    tutti_all_gather(sum.data(), all.data(), 1000, TUTTI_INT32, job.comm, stream.get());
    tutti_all_reduce(sum.data(), in.data(), 1000, TUTTI_INT32, TUTTI_MIN, job.comm, stream.get());
    tutti_barrier(job.comm, stream.get());
  };
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  if (job.rank < capturing) {
    must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    call();
    must(gpu.cuStreamEndCapture(stream.get(), &graph));
    must(gpu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  }
  uint32_t expected = 1;
  for (int i = 0; i < kLaunches; ++i) {
    expected *= static_cast<uint32_t>(job.nranks);
    exec != nullptr ? must(gpu.cuGraphLaunch(exec, stream.get())) : call();
  }
  call();
  expected *= static_cast<uint32_t>(job.nranks);
  if (stream.synchronize() != CUDA_SUCCESS || tutti_comm_status(job.comm) != TUTTI_SUCCESS) {
    return tutti_last_error(job.comm);
  }
  if (exec != nullptr) {
    must(gpu.cuGraphExecDestroy(exec));
    must(gpu.cuGraphDestroy(graph));
  }
  auto value = static_cast<int32_t>(expected);
  if (in.download() != std::vector<int32_t>(1000, value)) return "another minimum";
  bool is_right = all.download() == std::vector<int32_t>(all.host.size(), value);
  return is_right ? "" : "other sums";
}

int run_graphs(const Job& job) {
  const Gpu& gpu = Gpu::driver();
  int32_t most = 0, copies = 0;
  for (int capturing : {1, job.nranks - 1, job.nranks}) {
    int before = gpu.fake_calls("cuMemcpyAsync");
    std::string what = repeat(job, capturing, Where::kDevice);
    if (!what.empty()) return wrong(job, std::to_string(capturing) + " capture: " + what);
    copies += gpu.fake_calls("cuMemcpyAsync") - before;
  }
  constexpr int kPrograms = 8;
  tutti_all_reduce(&copies, &most, 1, TUTTI_INT32, TUTTI_MAX, job.comm, nullptr);
  if (most > (job.on_one_gpu ? 0 : kPrograms)) return wrong(job, std::to_string(most) + " copies: through the host");
  std::string what = repeat(job, 1, Where::kManaged);
  if (!what.empty()) return wrong(job, "with other memory: " + what);
  return tutti_comm_finalize(job.comm) == TUTTI_SUCCESS ? 0 : wrong(job, tutti_last_error(job.comm));
}

// Rank 0 calls when the others have: on one GPU it is the one that launches.
std::string sum_once(const Job& job, const Stream& stream, const OnGpu<int32_t>& in, OnGpu<int32_t>& out) {
  int32_t word = 0;
  for (int peer = 1; job.rank == 0 && peer < job.nranks; ++peer) {
    tutti_recv(&word, 1, TUTTI_INT32, peer, 0, job.comm, nullptr, nullptr);
  }
  tutti_all_reduce(in.data(), out.data(), in.host.size(), TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
  if (job.rank != 0) tutti_send(&word, 1, TUTTI_INT32, 0, 0, job.comm, nullptr);
  if (stream.synchronize() != CUDA_SUCCESS || tutti_comm_status(job.comm) != TUTTI_SUCCESS) {
    return tutti_last_error(job.comm);
  }
  return out.download() == std::vector<int32_t>(in.host.size(), job.nranks) ? "" : "another sum";
}

// What the job has done, or not done, before it joined keeps its GPUs from doing calls.
int run_through_host(const Job& job) {
  const Gpu& gpu = Gpu::driver();
  Stream stream;
  OnGpu<int32_t> in(1000, Where::kDevice, 1), out(1000);
  std::string what = sum_once(job, stream, in, out);
  if (!what.empty()) return wrong(job, what);
  if (gpu.fake_calls("cuLaunchKernel") != 0) return wrong(job, "there was a launch");
  return gpu.fake_calls("cuLaunchHostFunc") > 0 ? 0 : wrong(job, "the call did not go through the host");
}

// Each fails once, on all ranks, and is done without or named.
int run_injected(const Job& job) {
  const Gpu& gpu = Gpu::driver();
  Stream stream;
  auto small = std::make_unique<OnGpu<int32_t>>(1000, Where::kDevice, 1);
  OnGpu<int32_t> out(1000);
  std::string what = sum_once(job, stream, *small, out);
  if (!what.empty()) return wrong(job, "before all: " + what);
  // The rank that launches closes what has gone, and opens anew; where ranks have a GPU each, all do.
  for (const char* call : {"cuIpcGetMemHandle", "cuIpcCloseMemHandle", "cuIpcOpenMemHandle"}) {
    small.reset();
    small = std::make_unique<OnGpu<int32_t>>(1000, Where::kDevice, 1);  // at the same address
    int32_t before = gpu.fake_calls(call), made = 0, all = 0;
    gpu.fake_fail(call, 0, CUDA_ERROR_UNKNOWN);
    what = sum_once(job, stream, *small, out);
    gpu.fake_fail("", 0, CUDA_SUCCESS);
    // Too late to go through the host, where ranks have a GPU each.
    bool ends_it = !job.on_one_gpu && std::string(call) == "cuIpcOpenMemHandle";
    if (ends_it) return what.find(call) != std::string::npos ? 0 : wrong(job, "unexpected: " + what);
    if (!what.empty()) return wrong(job, std::string(call) + ": " + what);
    made = gpu.fake_calls(call) - before;
    if (tutti_all_reduce(&made, &all, 1, TUTTI_INT32, TUTTI_SUM, job.comm, nullptr) != TUTTI_SUCCESS) {
      return wrong(job, std::string("after ") + call + ": " + tutti_last_error(job.comm));
    }
    if (all == 0) return wrong(job, std::string(call) + " was not made");
  }
  return 0;
}

int run_counted(const Job& job) {
  constexpr int kMost = 40;
  const Gpu& gpu = Gpu::driver();
  Stream stream;
  OnGpu<int32_t> in(1000, Where::kDevice, 1), out(1000);
  std::string what;
  int made = 0;
  for (int i = 0; i < 4; ++i) {
    int before = gpu.fake_all_calls();
    what += sum_once(job, stream, in, out);
    made = gpu.fake_all_calls() - before;  // in the last of these, which has all that can be kept
  }
  std::printf("rank %d made %d calls\n", job.rank, made);
  if (made > kMost) return wrong(job, std::to_string(made) + " calls of the driver for one");
  return what.empty() ? 0 : wrong(job, what);
}

// Where the driver gives no handles, so that what goes through the host needs nothing of it.
int run_freeing(const Job& job) {
  const Gpu& gpu = Gpu::driver();
  Stream stream;
  OnGpu<int32_t> in(1000, Where::kDevice, 1), out(1000);
  auto other = std::make_unique<OnGpu<int32_t>>(1000);
  auto call_twice = [&] {
    for (int i = 0; i < 2; ++i) {
      tutti_all_reduce(in.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
    }
  };
  call_twice();  // what has to be pinned is
  (void)stream.synchronize();
  if (job.rank != 0) ::usleep(300'000);
  if (job.rank == 0) gpu.fake_wait_for_streams(1);
  call_twice();
  other.reset();
  if (stream.synchronize() != CUDA_SUCCESS || tutti_comm_status(job.comm) != TUTTI_SUCCESS) {
    return wrong(job, tutti_last_error(job.comm));
  }
  gpu.fake_wait_for_streams(0);
  return out.download() == std::vector<int32_t>(1000, job.nranks) ? 0 : wrong(job, "another sum");
}

// Rank 1 has its buffers elsewhere. When that turns out the others need pinned memory, and their streams wait already.
int run_pinning(const Job& job) {
  const Gpu& gpu = Gpu::driver();
  Where where = job.rank == 1 ? Where::kManaged : Where::kDevice;
  Stream stream;
  OnGpu<int32_t> in(1000, where, 1), out(1000, where);
  gpu.fake_wait_for_streams(1);
  tutti_all_reduce(in.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
  if (stream.synchronize() != CUDA_SUCCESS) return wrong(job, "the stream has failed");
  for (int i = 0; i < 2000 && tutti_comm_status(job.comm) == TUTTI_SUCCESS; ++i) ::usleep(5000);
  gpu.fake_wait_for_streams(0);
  std::string why = tutti_last_error(job.comm);
  bool is_named = why.find("in a call of the CUDA driver for all_reduce (call 1 on the GPUs)") != std::string::npos;
  return is_named ? 0 : wrong(job, "unexpected: " + why);
}

// Rank 1 has its buffers elsewhere in the second of two calls. Each is made anew once, and in all launches of a graph.
int run_told(const Job& job) {
  constexpr int kLaunches = 5;
  const Gpu& gpu = Gpu::driver();
  Stream stream;
  OnGpu<int32_t> in(1000, Where::kDevice, 1), out(1000);
  OnGpu<int32_t> other(1000, job.rank == 1 ? Where::kManaged : Where::kDevice, 1);
  Profile profile;
  tutti_profiler_t functions = profile.functions();
  tutti_comm_set_profiler(job.comm, &functions);
  auto call = [&] {
    tutti_all_reduce(in.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
    tutti_all_reduce(other.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
  };
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  call();
  must(stream.synchronize());
  must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  call();
  must(gpu.cuStreamEndCapture(stream.get(), &graph));
  must(gpu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0; i < kLaunches; ++i) must(gpu.cuGraphLaunch(exec, stream.get()));
  if (stream.synchronize() != CUDA_SUCCESS || tutti_comm_status(job.comm) != TUTTI_SUCCESS ||
      tutti_comm_set_profiler(job.comm, nullptr) != TUTTI_SUCCESS) {
    return wrong(job, tutti_last_error(job.comm));
  }
  must(gpu.cuGraphExecDestroy(exec));
  must(gpu.cuGraphDestroy(graph));
  std::set<uint64_t> numbers;
  for (const Told& each : profile.told) numbers.insert(each.call.sequence);
  constexpr size_t kTold = 2 * (kLaunches + 1);
  bool are_all = numbers.size() == kTold && *numbers.begin() == 1 && *numbers.rbegin() == kTold;
  if (!are_all || profile.begun() != kTold || profile.running() != 0 || profile.was_told_by_two_at_once) {
    return wrong(job, "told:\n" + profile.text());
  }
  if (out.download() != std::vector<int32_t>(1000, job.nranks)) return wrong(job, "another sum");
  return tutti_comm_finalize(job.comm) == TUTTI_SUCCESS ? 0 : wrong(job, tutti_last_error(job.comm));
}

// By turns, and whatever it takes.
int run_cost(const Job& job) {
  constexpr int kRounds = 10, kCalls = 50;
  Stream stream;
  OnGpu<int32_t> in(1000), out(1000);
  tutti_profiler_t nothing{sizeof nothing, [](void*, const tutti_profiled_call_t*) -> void* { return nullptr; },
                           [](void*, void*, tutti_status_t) {}, nullptr};
  std::vector<double> us[2];  // of a call, without a profiler and with one
  for (int round = 0; round < 2 * kRounds; ++round) {
    tutti_comm_set_profiler(job.comm, round % 2 == 0 ? nullptr : &nothing);
    tutti_barrier(job.comm, nullptr);
    auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) {
      tutti_all_reduce(in.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
    }
    must(stream.synchronize());
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begun;
    us[round % 2].push_back(took.count() / kCalls);
  }
  for (auto& each : us) std::sort(each.begin(), each.end());
  double without = us[0][kRounds / 2], with = us[1][kRounds / 2];
  if (job.rank == 0) {
    std::printf("a call takes %.1f us without a profiler, %.1f us with one: %.2f times\n", without, with,
                with / without);
  }
  return tutti_comm_finalize(job.comm) == TUTTI_SUCCESS ? 0 : wrong(job, tutti_last_error(job.comm));
}

int run_late(const Job& job) {
  Stream stream;
  OnGpu<int32_t> in(1000), out(1000);
  if (job.rank != 1) {
    tutti_all_reduce(in.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
    (void)stream.synchronize();
  }
  for (int i = 0; i < 2000 && tutti_comm_status(job.comm) == TUTTI_SUCCESS; ++i) ::usleep(5000);
  std::string why = tutti_last_error(job.comm);
  bool is_named = why.find("rank 1 has not called all_reduce") != std::string::npos;
  if (job.rank == 1) return why.empty() ? wrong(job, "has heard nothing") : 0;
  return is_named ? 0 : wrong(job, "unexpected: " + why);
}

// What the driver keeps for the calling thread: its contexts, and how its captures are.
std::pair<int, int> thread_state() {
  std::pair<int, int> state;
  const Gpu& gpu = Gpu::driver();
  if (gpu.fake_thread_state != nullptr) gpu.fake_thread_state(&state.first, &state.second);
  return state;
}

int run(const std::string& what, bool on_one_gpu) {
  const char* rank = std::getenv("TUTTI_RANK");
  Gpu::driver().use(on_one_gpu || rank == nullptr ? 0 : std::atoi(rank));
  if (what == "bare" || what == "freeing") Gpu::driver().fake_give_handles(0);
  if (what == "unloaded") Gpu::driver().fake_fail("cuModuleLoadData", 0, CUDA_ERROR_NO_BINARY_FOR_GPU);
  auto before = thread_state();
  Job job{.on_one_gpu = on_one_gpu};
  if (tutti_comm_init_from_environment(&job.comm, nullptr) != TUTTI_SUCCESS) {
    return wrong(job, tutti_last_error(nullptr));
  }
  tutti_comm_rank(job.comm, &job.rank);
  tutti_comm_size(job.comm, &job.nranks);
  static const std::map<std::string, int (*)(const Job&)> bodies = {
      {"sums", run_sums}, {"killed", run_killed},     {"ahead", run_ahead},       {"bare", run_through_host},
      {"late", run_late}, {"injected", run_injected}, {"counted", run_counted},   {"unloaded", run_through_host},
      {"many", run_many}, {"freeing", run_freeing},   {"pinning", run_pinning},   {"graphs", run_graphs},
      {"told", run_told}, {"cost", run_cost},         {"streams", run_streams}};
  auto* body = bodies.at(what);
  int result = body(job);
  tutti_comm_destroy(job.comm);
  if (result == 0 && thread_state() != before) return wrong(job, "the thread's contexts or captures have changed");
  return result;
}

}  // namespace
}  // namespace tutti::test

int main(int argc, char** argv) {
  bool on_one_gpu = argc < 3 || std::string(argv[2]) != "each";
  return tutti::test::run(argc > 1 ? argv[1] : "sums", on_one_gpu);
}
