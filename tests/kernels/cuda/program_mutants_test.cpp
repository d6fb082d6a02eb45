// Mistakes that are made on purpose, and what finds them. Those in the order of reads and later stores of other GPUs
// show with threads alone: program_threads_main.cpp.
#include <catch2/catch.hpp>

#include "kernels/cuda/simulated_gpus.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 3;
constexpr int kMostCalls = 60;

// The calls until something was wrong; kMostCalls: nothing was.
int calls_until_wrong(const Mistake& mistake, std::string& wrong) {
  std::mt19937_64 random(3);
  for (int i = 0; i < kMostCalls; ++i) {
    GpuCase which = draw_gpu_case(*algorithms()[i % algorithms().size()], kRanks, random);
    which.channels = 2;
    which.count = 600;  // so that slots are used again
    which.slice_bytes = 64;
    GpuJob job(kRanks);
    SimulatedGpus gpus(8, random(), mistake);
    wrong = job.run(which, random, [&](auto... launch) { return gpus.launch(launch...); });
    if (!wrong.empty()) return i;
  }
  return kMostCalls;
}

}  // namespace

TEST_CASE("each mistake in waiting, ordering and dividing the work is found") {
  struct Named {
    const char* name;
    Mistake mistake;
  };
  const Named all[] = {{"no barrier before an op", {.missing = cuda::Barrier::kReady}},
                       {"no barrier after places are found", {.missing = cuda::Barrier::kPlaced}},
                       {"no barrier after results are stored", {.missing = cuda::Barrier::kStored}},
                       {"messages are no releases", {.relaxed_store = cuda::Order::kMessage}},
                       {"messages are no acquires", {.relaxed_load = cuda::Order::kMessage}},
                       {"two blocks of a GPU walk one channel", {.doubles_channel = true}},
                       {"a GPU divides the data otherwise", {.shifts_ranges = true}}};
  for (const Named& each : all) {
    std::string wrong;
    int calls = calls_until_wrong(each.mistake, wrong);
    INFO(each.name << ", call " << calls << ": " << wrong);
    CHECK(calls < kMostCalls);
  }
  std::string wrong;
  CHECK(calls_until_wrong({}, wrong) == kMostCalls);
  CHECK(wrong.empty());
}

TEST_CASE("a launch whose peers do not come ends when it is cancelled, and says for whom it waited too long") {
  std::mt19937_64 random(4);
  GpuCase which = draw_gpu_case(*find_algorithm(TUTTI_ALL_REDUCE, "ring"), kRanks, random);
  which.count = 100;
  std::vector<uint32_t> late(kRanks);
  bool is_limited = GENERATE(false, true);
  GpuJob job(kRanks);
  SimulatedGpus gpus(8, 5);
  gpus.cancel_after(is_limited ? 1'000'000 : 20'000);
  std::string wrong = job.run(which, random, [&](const std::string& kernel, auto args, auto memory) {
    for (cuda::ProgramArgs& each : args) {
      each.late = &late[each.rank];
      if (is_limited) each.limit_ns = 50'000;
    }
    // The last one is not there.
    return gpus.launch(kernel, args.first(kRanks - 1), memory);
  });
  CHECK(wrong.find("is wrong") != std::string::npos);  // all have left, without a result
  CHECK(late[0] == (is_limited ? kRanks : 0));
  CHECK(late[1] == (is_limited ? 1 : 0));
}

}  // namespace tutti::test
