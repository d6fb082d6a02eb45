// The interpreter of GPUs, run by g++ thread for thread on simulated GPUs, whose threads take turns as a seed decides.
#include <catch2/catch.hpp>

#include "kernels/cuda/gpu_job.h"
#include "kernels/cuda/simulated_gpus.h"

namespace tutti::test {
namespace {

GpuJob::Launch on(SimulatedGpus& gpus) {
  return [&gpus](auto... launch) { return gpus.launch(launch...); };
}

uint32_t threads_for(int nranks, std::mt19937_64& random) {
  return static_cast<uint32_t>(nranks) + static_cast<uint32_t>(random() % 9);
}

}  // namespace

TEST_CASE("every algorithm runs on GPUs, call after call") {
  std::mt19937_64 random(1);
  for (int nranks = 2; nranks <= 8; ++nranks) {
    GpuJob job(nranks);
    for (const Algorithm* algorithm : algorithms()) {
      for (int i = 0; i < 6; ++i) {
        GpuCase which = draw_gpu_case(*algorithm, nranks, random);
        SimulatedGpus gpus(threads_for(nranks, random), random());
        INFO(nranks << " ranks, " << which.text());
        std::string wrong = job.run(which, random, on(gpus));
        if (!wrong.empty()) FAIL(wrong);
      }
    }
  }
}

TEST_CASE("every type and operation is combined on GPUs as on the host") {
  std::mt19937_64 random(2);
  for (const char* name : {"ring", "direct_two_shot", "double_binary_tree"}) {
    const Algorithm& algorithm = *find_algorithm(TUTTI_ALL_REDUCE, name);
    GpuJob job(3);
    for (Datatype datatype : kDatatypes) {
      for (ReduceOp op : ops_of(datatype)) {
        GpuCase which = draw_gpu_case(algorithm, 3, random);
        which.datatype = datatype;
        which.op = op;
        which.count = 100;
        SimulatedGpus gpus(threads_for(3, random), random());
        INFO(which.text());
        std::string wrong = job.run(which, random, on(gpus));
        if (!wrong.empty()) FAIL(wrong);
      }
    }
  }
}

}  // namespace tutti::test
