// Every collective, with any of the driver's calls that it takes failing: one error with words, no rank that waits for
// ever, no result that is wrong and said to be right, and the process goes on with other communicators.
#include <catch2/catch.hpp>

#include <atomic>
#include <barrier>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "cuda/jobs.h"
#include "cuda/tested_calls.h"

namespace tutti::test {
namespace {

constexpr const char* kCalls[] = {
#define TUTTI_CUDA_CALL(name, version) #name,
    TUTTI_CUDA_CALLS(TUTTI_CUDA_CALL)
#undef TUTTI_CUDA_CALL
};

// What the test does itself meanwhile, and tutti does not on its way.
const std::set<std::string> kOfTheTest = {"cuMemAlloc", "cuMemFree", "cuStreamSynchronize"};

// What may fail without a word: there is nothing else to be done, or the call goes through the host. And what a thread
// asks from time to time, perhaps when the call is over.
const std::set<std::string> kMayBeSilent = {
    "cuCtxPopCurrent", "cuCtxPushCurrent",  "cuThreadExchangeStreamCaptureMode", "cuStreamDestroy",
    "cuEventDestroy",  "cuIpcGetMemHandle", "cuIpcCloseMemHandle",               "cuMemHostUnregister",
    "cuEventQuery"};

enum class Placed { kOnOneGpu, kOnGpus, kMixed };

constexpr tutti_collective_t kAll[] = {TUTTI_ALL_REDUCE,     TUTTI_REDUCE,     TUTTI_BROADCAST,
                                       TUTTI_ALL_GATHER,     TUTTI_REDUCE_SCATTER, TUTTI_ALL_TO_ALL,
                                       TUTTI_GATHER,         TUTTI_SCATTER,    TUTTI_BARRIER};

struct Job {
  Placed placed = Placed::kOnOneGpu;
  int nranks = 2;
  TestedCall call;
};

int contexts_of_thread() {
  int contexts = 0, mode = 0;
  Gpu::driver().fake_thread_state(&contexts, &mode);
  return contexts;
}

bool has_failed_within(tutti_comm_t* comm, std::chrono::milliseconds limit) {
  auto end = std::chrono::steady_clock::now() + limit;
  while (tutti_comm_status(comm) == TUTTI_SUCCESS && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return tutti_comm_status(comm) != TUTTI_SUCCESS;
}

// The collective once, then `between` on rank 0, and again. Gives what each rank says of the second.
std::vector<std::string> make_twice(const Job& job, const std::function<void()>& between,
                                    const std::function<void()>& behind) {
  std::barrier all_are_there(job.nranks);  // of the ranks' threads, since a failure would come into one of tutti's
  std::atomic<bool> has_error = false;
  auto body = [&](tutti_comm_t* comm, int rank) {
    Where where = job.placed == Placed::kMixed && rank % 2 == 1 ? Where::kHost : Where::kDevice;
    Stream stream;
    std::string error = run(job.call, comm, rank, job.nranks, stream, where);
    all_are_there.arrive_and_wait();
    if (rank == 0) between();
    all_are_there.arrive_and_wait();
    if (!error.empty()) return "before all: " + error;
    int contexts = contexts_of_thread();
    error = run(job.call, comm, rank, job.nranks, stream, where);
    // Its end may be told to the host after the stream has gone on, and may fail there when only others have been told.
    all_are_there.arrive_and_wait();
    if (tutti_comm_status(comm) != TUTTI_SUCCESS) error = tutti_last_error(comm);
    if (!error.empty()) has_error = true;
    all_are_there.arrive_and_wait();
    if (has_error && error.empty() && has_failed_within(comm, std::chrono::seconds(2))) error = tutti_last_error(comm);
    if (contexts_of_thread() != contexts) error += "the thread's contexts have changed";
    all_are_there.arrive_and_wait();
    if (rank == 0) behind();
    return error;
  };
  const Options options = {{"timeout_ms", "20000"}};
  switch (job.placed) {
    case Placed::kOnOneGpu: return with_ranks_of_one_gpu(job.nranks, options, body);
    case Placed::kOnGpus: return with_ranks_of_gpus(job.nranks, options, body);
    default: return with_gpu_ranks(job.nranks, options, body);
  }
}

// How often all ranks together make each of the driver's calls for it.
std::map<std::string, int> calls_of(const Job& job) {
  std::map<std::string, int> before, made;
  auto look = [](std::map<std::string, int>& at) {
    for (const char* call : kCalls) at[call] = Gpu::driver().fake_calls(call);
  };
  auto wrong = make_twice(job, [&] { look(before); }, [&] { look(made); });
  CHECK(wrong == std::vector<std::string>(static_cast<size_t>(job.nranks)));
  for (auto& [call, number] : made) number -= before[call];
  std::erase_if(made, [](const auto& each) { return each.second == 0 || kOfTheTest.contains(each.first); });
  return made;
}

void check_failure(const Job& job, const std::string& call, int after) {
  const Gpu& gpu = Gpu::driver();
  INFO("collective " << job.call.collective << " of " << job.nranks << " ranks, placed "
                     << static_cast<int>(job.placed) << ": " << call << " after " << after);
  bool has_been_seen = false;  // before its communicator goes
  auto wrong = make_twice(job, [&] { gpu.fake_fail(call.c_str(), after, CUDA_ERROR_UNKNOWN); },
                          [&] { has_been_seen = gpu.fake_has_failed() != 0; });
  gpu.fake_fail("", 0, CUDA_SUCCESS);
  bool has_failed = false, is_named = false;
  for (const std::string& each : wrong) {
    UNSCOPED_INFO(each);
    CHECK_THAT(each, !Catch::Contains("another result") && !Catch::Contains("before all") &&
                         !Catch::Contains("contexts") && !Catch::Contains("stream has failed"));
    has_failed = has_failed || !each.empty();
    is_named = is_named || each.find(call) != std::string::npos;
  }
  for (const std::string& each : wrong) UNSCOPED_INFO(each);
  CHECK(has_failed == is_named);
  if (has_been_seen && !kMayBeSilent.contains(call)) CHECK(is_named);
}

// The first and the last of each of the driver's calls.
void check(Placed placed, int nranks) {
  if (Gpu::driver().fake_fail == nullptr) return;
  for (tutti_collective_t collective : kAll) {
    Job job{.placed = placed, .nranks = nranks, .call = {collective, tested_types()[8], kSumOp, 100}};
    auto made = calls_of(job);
    CHECK(!made.empty());
    for (const auto& [call, number] : made) {
      check_failure(job, call, 0);
      if (number > 1) check_failure(job, call, number - 1);
    }
  }
}

TEST_CASE("a driver's call that fails in any collective of 2 ranks of one GPU") { check(Placed::kOnOneGpu, 2); }
TEST_CASE("a driver's call that fails in any collective of 4 ranks of one GPU") { check(Placed::kOnOneGpu, 4); }
TEST_CASE("a driver's call that fails in any collective of 2 ranks with a GPU each") { check(Placed::kOnGpus, 2); }
TEST_CASE("a driver's call that fails in any collective of 4 ranks with a GPU each") { check(Placed::kOnGpus, 4); }
TEST_CASE("a driver's call that fails in any collective of a GPU and a CPU rank") { check(Placed::kMixed, 2); }
TEST_CASE("a driver's call that fails in any collective of 2 GPU and 2 CPU ranks") { check(Placed::kMixed, 4); }

}  // namespace
}  // namespace tutti::test
