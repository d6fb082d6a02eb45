// GPUs that run launches of the interpreter as fibers over weak memory, with mistakes if a test asks for them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kernels/cuda/gpu_job.h"
#include "kernels/cuda/program_bodies.h"

namespace tutti::test {

// What is wrong on all GPUs, or on the second one.
struct Mistake {
  std::optional<cuda::Barrier> missing;       // no thread waits there
  std::optional<cuda::Order> relaxed_store;   // it is no release
  std::optional<cuda::Order> relaxed_load;    // it is no acquire
  bool doubles_channel = false;               // the second GPU's first block walks the last one's channel
  bool shifts_ranges = false;                 // the second GPU cuts the data for one channel more than there are
};

class SimulatedGpus {
 public:
  SimulatedGpus(uint32_t threads, uint64_t seed, const Mistake& mistake = {})
      : threads_(threads), seed_(seed), mistake_(mistake) {}

  // One launch on each GPU, all at once. `memory`: what they may touch. "" or what went wrong. Launches that do not end
  // are cancelled.
  std::string launch(const std::string& kernel, std::span<cuda::ProgramArgs> args,
                     std::span<const GpuJob::Memory> memory);

  // The launches are cancelled after so many steps.
  void cancel_after(uint64_t steps) { cancel_after_ = steps; }

 private:
  const uint32_t threads_;
  uint64_t seed_;
  const Mistake mistake_;
  std::optional<uint64_t> cancel_after_;
};

}  // namespace tutti::test
