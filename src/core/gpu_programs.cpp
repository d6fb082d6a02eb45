#include "core/gpu_programs.h"

#include <algorithm>
#include <cstring>

#include "base/guard.h"
#include "base/log.h"
#include "executor/gpu_call.h"
#include "plan/collective.h"
#include "plan/partial.h"
#include "planner/gpu_tuning.h"
#include "topology/wires.h"

namespace tutti {
namespace {

constexpr uint64_t kProgramsBytes = 4 * 1024 * 1024;
constexpr uint64_t kAlignment = 256;
static_assert(kMostPlannedGpus == cuda::kMostGpus && kMostPlannedGpuChannels == cuda::kMostGpuChannels);

uint64_t aligned(uint64_t size_bytes) { return (size_bytes + kAlignment - 1) / kAlignment * kAlignment; }

Request request_of(const Offer::Shape& shape, int nranks) {
  auto collective = static_cast<Collective>(shape.collective);
  bool has_blocks = chunks_of(collective, nranks) > 0;
  uint64_t count = collective == TUTTI_BARRIER ? 0 : shape.count;
  return {.collective = collective,
          .datatype = static_cast<Datatype>(shape.datatype),
          .op = static_cast<ReduceOp>(shape.op),
          .root = shape.root,
          .count = has_blocks ? count * static_cast<uint64_t>(nranks) : count};
}

Tuning tuning_for(Tuning tuning, const Request& request) {
  if (find_algorithm(request.collective, tuning.algorithm) == nullptr) tuning.algorithm.clear();
  return tuning_for_gpus(std::move(tuning), request);
}

// "GPU-0a1b...-..." as the driver's identity has it.
std::string digits_of(std::string_view uuid) {
  constexpr std::string_view kPrefix = "GPU-";
  if (uuid.substr(0, kPrefix.size()) == kPrefix) uuid.remove_prefix(kPrefix.size());
  std::string digits(uuid);
  std::erase(digits, '-');
  return digits;
}

}  // namespace

Topology on_gpus(Topology topology, std::span<const std::string> gpus) {
  std::vector<int> found;
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    const std::vector<Gpu>& there = topology.hosts[topology.ranks[rank].host].inventory.gpus;
    auto its = std::find_if(there.begin(), there.end(),
                            [&](const Gpu& each) { return digits_of(each.uuid) == gpus[rank]; });
    if (its == there.end()) return topology;
    found.push_back(static_cast<int>(its - there.begin()));
  }
  for (size_t rank = 0; rank < found.size(); ++rank) topology.ranks[rank].gpu = found[rank];
  return topology;
}

bool knows_nvlinks(const Topology& topology) {
  return std::all_of(topology.ranks.begin(), topology.ranks.end(), [&](const TopologyRank& rank) {
    return rank.gpu >= 0 && topology.hosts[rank.host].inventory.gpus[rank.gpu].compute_capability != 0;
  });
}

Topology on_joined_gpus(Topology topology, std::span<const std::string> gpus) {
  // Assumed: as many links of the kind as the first GPUs that had switches for them.
  constexpr int kCapability = 80, kLinks = 12;
  NvLink assumed{.to_switch = true,
                 .links = kLinks,
                 .bytes_per_s = {nvlink_bytes_per_s(kCapability).value, Origin::kDefault}};
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    TopologyRank& its = topology.ranks[rank];
    std::vector<Gpu>& there = topology.hosts[its.host].inventory.gpus;
    if (its.gpu < 0) {
      its.gpu = static_cast<int>(there.size());
      there.push_back({.uuid = gpus[rank]});
    }
    there[its.gpu].nvlinks = {assumed};
  }
  return topology;
}

GpuPrograms::GpuPrograms(Basis basis, int rank, DeviceModule& module, const DeviceModule::Gpu& on, RankGpu& gpu)
    : basis_(std::move(basis)),
      rank_(rank),
      module_(module),
      on_(on),
      gpu_(gpu),
      arena_{.ranks = static_cast<uint32_t>(basis_.topology.nranks()),
             .channels = cuda::kMostGpuChannels,
             .slot_bytes = kGpuSlotBytes},
      places_(kProgramsBytes) {}

Result<std::unique_ptr<GpuPrograms>> GpuPrograms::create(Basis basis, int rank, DeviceModule& module,
                                                         const DeviceModule::Gpu& on, RankGpu& gpu) {
  std::unique_ptr<GpuPrograms> made(new GpuPrograms(std::move(basis), rank, module, on, gpu));
  TUTTI_TRY(made->prepare());
  return made;
}

Status GpuPrograms::prepare() {
  host_copy_ = TUTTI_TRY(Mapping::create_private(kProgramsBytes));
  TUTTI_TRY(module_.pin(host_copy_.bytes(), on_.context));
  is_pinned_ = true;
  memory_ = TUTTI_TRY(gpu_.allocate(aligned(arena_.size_bytes()) + kProgramsBytes));
  return {};
}

GpuPrograms::~GpuPrograms() {
  if (is_pinned_ && !module_.unpin(host_copy_.bytes().data(), on_.context)) (void)host_copy_.release();
}

Status GpuPrograms::open(std::span<const DeviceBuffer> arenas) {
  for (size_t rank = 0; rank < arenas.size(); ++rank) {
    bool is_own = static_cast<int>(rank) == rank_;
    auto opened = is_own ? Result<uint64_t>(memory_.address) : gpu_.open(arenas[rank]);
    if (!opened.ok()) return std::move(opened).status().within(fmt::format("memory of rank {}'s GPU", rank));
    arenas_.push_back(*opened);
  }
  return {};
}

Result<const GpuPrograms::Planned*> GpuPrograms::plan_for(const Offer::Shape& shape) {
  std::lock_guard lock(mutex_);
  return planned(shape);
}

Result<const GpuPrograms::Planned*> GpuPrograms::planned(const Offer::Shape& shape) {
  Request request = request_of(shape, basis_.topology.nranks());
  uint64_t size_class = size_class_bytes(request.size_bytes());
  Key key{shape.collective, shape.datatype, shape.op, shape.root, size_class};
  auto found = planned_.find(key);
  if (found != planned_.end()) return const_cast<const Planned*>(found->second.get());
  request.count = std::max<uint64_t>(size_class / size_of(request.datatype), 1);
  Choice choice = TUTTI_TRY(choose(basis_.topology, request, tuning_for(basis_.tuning, request)));
  uint64_t value_bytes =
      choice.plan.shape().slice_bytes * partial_growth(request.collective, request.datatype, request.op);
  if (value_bytes > kGpuSlotBytes) {
    return error(Code::kInvalidUsage, "the plan has values of {} bytes; a GPU has room for {}", value_bytes,
                 kGpuSlotBytes);
  }
  auto made = std::make_unique<Planned>();
  made->digest = choice.plan.digest();
  made->plan = std::move(choice.plan);
  made->predicted_ns = choice.predicted_ns;
  std::vector<std::string_view> names;
  for (const Candidate& each : choice.candidates) {
    if (each.admitted) names.push_back(each.algorithm);
  }
  made->candidates = fmt::format("{}", fmt::join(names, " "));
  return const_cast<const Planned*>(planned_.emplace(key, std::move(made)).first->second.get());
}

GpuPrograms::Program& GpuPrograms::program_for(const Planned& planned, bool in_place) {
  bool takes = takes_output(planned.plan.shape(), in_place);
  auto [entry, is_new] = programs_.try_emplace({planned.digest, takes});
  Program& program = entry->second;
  if (!is_new) return program;
  auto encoded = encode_for_gpu(planned.plan, rank_, takes);
  if (encoded.ok() && encoded->size() > kProgramsBytes) {
    encoded = error(Code::kInvalidUsage, "the program has {} bytes; a GPU has room for {}", encoded->size(),
                    kProgramsBytes);
  }
  if (encoded.ok()) {
    program.bytes = std::move(*encoded);
  } else {
    program.why_not = std::move(encoded).status().within(planned.plan.shape().algorithm);
  }
  return program;
}

Status GpuPrograms::admit(const Offer::Shape& shape, bool in_place) {
  std::lock_guard lock(mutex_);
  return program_for(*TUTTI_TRY(planned(shape)), in_place).why_not;
}

Result<std::optional<GpuPrograms::Part>> GpuPrograms::part_of(std::span<const Offer> offers, const Place& place) {
  const Offer& own = offers[static_cast<size_t>(rank_)];
  Part part;
  if (own.shape.collective == TUTTI_BARRIER || own.shape.count == 0) return std::optional(part);
  std::lock_guard lock(mutex_);
  const Planned& plan = *TUTTI_TRY(planned(own.shape));
  Program& program = program_for(plan, own.in_place != 0);
  TUTTI_TRY(Status(program.why_not));
  uint64_t programs = memory_.address + aligned(arena_.size_bytes());
  if (!program.place.offset) {
    if (!places_.take(program.place, aligned(program.bytes.size()), place.done)) return std::optional<Part>();
    std::byte* copy = host_copy_.bytes().data() + *program.place.offset;
    std::memcpy(copy, program.bytes.data(), program.bytes.size());
    part.upload = {reinterpret_cast<void*>(programs + *program.place.offset), copy, program.bytes.size()};
  }
  program.place.last_use = place.number;
  std::vector<uint8_t> in_place;
  for (const Offer& each : offers) in_place.push_back(each.in_place);
  GpuCall call{.shape = &plan.plan.shape(),
               .datatype = static_cast<Datatype>(own.shape.datatype),
               .op = static_cast<ReduceOp>(own.shape.op),
               .count = own.shape.count,
               .in_place = in_place,
               .arena = arena_};
  part.kernel = gpu_kernel_name(call);
  part.args = gpu_args(call, rank_);
  part.args.program = reinterpret_cast<const cuda::GpuProgram*>(programs + *program.place.offset);
  part.args.limit_ns = place.limit_ns;
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    cuda::GpuRank& there = part.args.of[rank];
    Status opened = guarded([&]() -> Status {
      if (offers[rank].has_input != 0) there.input = TUTTI_TRY(gpu_.open(offers[rank].input));
      if (offers[rank].has_output != 0) there.output = TUTTI_TRY(gpu_.open(offers[rank].output));
      return {};
    });
    if (!opened.ok()) return std::move(opened).within(fmt::format("memory of rank {}", rank));
    there.arena = arenas_[rank];
  }
  return std::optional(part);
}

}  // namespace tutti
