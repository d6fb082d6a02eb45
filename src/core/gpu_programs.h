// GpuPrograms: calls of ranks that each have a GPU, and reach each other's memory. Every GPU runs its rank's part of
// a Plan (kernels/cuda/program_run.h). Here is what that takes: the Plans, the Programs and a place for them in the
// GPU's memory, and the arenas that messages go through.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/fd.h"
#include "core/call_places.h"
#include "core/fused_calls.h"
#include "device/device.h"
#include "kernels/cuda/gpu_program.h"
#include "planner/planner.h"

namespace tutti {

// The ranks, each on its GPU where the host's inventory has all of these; else as they are. `gpus`: their UUIDs, by
// rank, as 32 digits.
Topology on_gpus(Topology topology, std::span<const std::string> gpus);
// Whether the inventory tells what is between the ranks' GPUs.
bool knows_nvlinks(const Topology& topology);
// For GPUs of which only the driver knows that there are NVLinks between all of them: ranks on such GPUs.
Topology on_joined_gpus(Topology topology, std::span<const std::string> gpus);

class GpuPrograms {
 public:
  // What all ranks plan by.
  struct Basis {
    Topology topology;
    Tuning tuning;
  };
  // `gpu` outlives it. May wait for the device.
  static Result<std::unique_ptr<GpuPrograms>> create(Basis basis, int rank, DeviceModule& module,
                                                     const DeviceModule::Gpu& on, RankGpu& gpu);
  // The GPU does nothing of what was made here any more. The arena stays, unless it was freed.
  ~GpuPrograms();

  // What other ranks open, and opens theirs, which are given by rank.
  const DeviceBuffer& arena() const { return memory_; }
  Status open(std::span<const DeviceBuffer> arenas);
  // Once no rank has it open.
  void free_arena() noexcept { gpu_.free(memory_); }

  struct Planned {
    Plan plan;
    uint64_t digest = 0;
    uint64_t predicted_ns = 0;
    std::string candidates;  // as those of Prepared
  };
  // For calls that all ranks make alike. Any thread; the result lives as long as this. Errors: no plan.
  Result<const Planned*> plan_for(const Offer::Shape& shape);
  // Ok if this rank's part has room on its GPU. Any thread.
  Status admit(const Offer::Shape& shape, bool in_place);

  // This rank's part of a call that all ranks have admitted.
  struct Part {
    StreamCopy upload;   // of no bytes: the Program is there
    std::string kernel;  // "": the call moves no data
    cuda::ProgramArgs args;
  };
  struct Place {
    uint32_t number = 0;  // of the call, and
    uint32_t done = 0;    // of the last one that the GPU has done
    uint64_t limit_ns = 0;
  };
  // `offers`: of the call, by rank. Nothing: its Program has no room before more calls are done. One thread at a time.
  Result<std::optional<Part>> part_of(std::span<const Offer> offers, const Place& place);

 private:
  // One Program serves all calls with its Plan, wherever their types have the same.
  struct Program {
    Status why_not;
    std::vector<std::byte> bytes;
    CallPlaces::Holder place;  // in the GPU's memory
  };
  using Key = std::tuple<int32_t, int32_t, int32_t, int32_t, uint64_t>;

  GpuPrograms(Basis basis, int rank, DeviceModule& module, const DeviceModule::Gpu& on, RankGpu& gpu);
  Status prepare();
  // With mutex_:
  Result<const Planned*> planned(const Offer::Shape& shape);
  Program& program_for(const Planned& planned, bool in_place);

  const Basis basis_;
  const int rank_;
  DeviceModule& module_;
  const DeviceModule::Gpu on_;
  RankGpu& gpu_;
  const cuda::GpuArena arena_;
  DeviceBuffer memory_;            // the arena, and behind it the Programs
  Mapping host_copy_;              // of the Programs, pinned: what is uploaded
  bool is_pinned_ = false;
  std::vector<uint64_t> arenas_;   // of all ranks, for this rank's kernels

  std::mutex mutex_;               // guards what follows
  std::map<Key, std::unique_ptr<Planned>> planned_;
  std::map<std::pair<uint64_t, bool>, Program> programs_;  // by the Plan's digest, and whether messages are stored into
                                                           // the rank's output
  CallPlaces places_;              // of Programs
};

}  // namespace tutti
