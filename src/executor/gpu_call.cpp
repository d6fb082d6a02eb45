#include "executor/gpu_call.h"

#include <algorithm>
#include <cstring>

#include "executor/lower.h"
#include "kernels/cuda/piece.h"
#include "plan/partial.h"

namespace tutti {
namespace {

using cuda::GpuOp;
using cuda::GpuOperand;
using cuda::GpuProgram;
using cuda::GpuSection;
using cuda::GpuSend;
using cuda::GpuSpace;
using cuda::GpuSpan;

static_assert(static_cast<int>(Space::kInput) == static_cast<int>(GpuSpace::kInput));
static_assert(static_cast<int>(Space::kOutput) == static_cast<int>(GpuSpace::kOutput));
static_assert(static_cast<int>(Space::kTemp) == static_cast<int>(GpuSpace::kTemp));
static_assert(static_cast<int>(Space::kArrival) == static_cast<int>(GpuSpace::kArrival));
static_assert(kNoChunk == cuda::kNoGpuChunk);

Status too_large(std::string_view what, uint64_t has, uint64_t most) {
  return error(Code::kInvalidUsage, "the plan has {} {}; a GPU has room for {}", has, what, most);
}

// Gathers the tables of all channels.
class Encoder {
 public:
  explicit Encoder(bool takes_output) : takes_output_(takes_output) {}

  Status add(const Program& program) {
    temps_ = std::max(temps_, static_cast<uint64_t>(program.temps));
    if (temps_ > cuda::kMostGpuTemps) return too_large("temps", temps_, cuda::kMostGpuTemps);
    GpuSpan& sections = head_.channels[channels_++];
    sections.first = static_cast<uint32_t>(sections_.size());
    sections.count = static_cast<uint32_t>(program.sections.size());
    for (const ProgramSection& section : program.sections) {
      GpuSection encoded{.most_lag = section.most_lag};
      encoded.ops.first = static_cast<uint32_t>(ops_.size());
      for (uint32_t i = 0; i < section.ops.count; ++i) {
        TUTTI_TRY(add(program, program.ops[section.ops.first + i]));
      }
      encoded.ops.count = static_cast<uint32_t>(ops_.size()) - encoded.ops.first;
      sections_.push_back(encoded);
    }
    return {};
  }

  std::vector<std::byte> take() {
    std::vector<std::byte> bytes(sizeof head_);
    auto append = [&](const auto& table) {
      auto at = static_cast<uint32_t>((bytes.size() + 7) / 8 * 8);
      size_t size_bytes = table.size() * sizeof(table[0]);
      bytes.resize(at + size_bytes);
      if (size_bytes > 0) std::memcpy(bytes.data() + at, table.data(), size_bytes);
      return at;
    };
    head_.sections = append(sections_);
    head_.ops = append(ops_);
    head_.operands = append(operands_);
    head_.sends = append(sends_);
    head_.releases = append(releases_);
    std::memcpy(bytes.data(), &head_, sizeof head_);
    return bytes;
  }

 private:
  Status add(const Program& program, const Op& op) {
    uint64_t stores = uint64_t{op.destinations.count} + op.sends.count;
    if (op.sources.count > cuda::kMostGpus) return too_large("sources of one step", op.sources.count, cuda::kMostGpus);
    if (stores > cuda::PieceLists::kMost) return too_large("places of one result", stores, cuda::PieceLists::kMost);
    GpuOp encoded{.is_wait = op.kind == OpKind::kWait,
                  .finish = op.finish,
                  .release = op.release,
                  .lag = op.lag,
                  .chunk = op.chunk,
                  .peer = op.peer,
                  .sources = add_operands(program, op.sources),
                  .destinations = add_operands(program, op.destinations)};
    encoded.sends = {static_cast<uint32_t>(sends_.size()), op.sends.count};
    for (uint32_t i = 0; i < op.sends.count; ++i) {
      const Send& send = program.sends[op.sends.first + i];
      sends_.push_back({.peer = send.peer,
                        .is_into_output = send.into != kNoChunk,
                        .source = op.sources.count > 0 ? space_of(send.source) : GpuSpace::kArrival});
    }
    encoded.releases = {static_cast<uint32_t>(releases_.size()), op.releases.count};
    for (uint32_t i = 0; i < op.releases.count; ++i) releases_.push_back(program.releases[op.releases.first + i]);
    bool is_taken_out = encoded.is_wait && op.into != kNoChunk && !takes_output_;
    if (is_taken_out) encoded.release = false;
    ops_.push_back(encoded);
    if (is_taken_out) add_copy_to_output(op);
    return {};
  }

  void add_copy_to_output(const Op& wait) {
    GpuOp copy{.lag = wait.lag, .chunk = wait.chunk};
    copy.sources = {static_cast<uint32_t>(operands_.size()), 1};
    operands_.push_back({GpuSpace::kArrival, wait.peer});
    copy.destinations = {static_cast<uint32_t>(operands_.size()), 1};
    operands_.push_back({GpuSpace::kOutput, wait.into});
    copy.releases = {static_cast<uint32_t>(releases_.size()), 1};
    releases_.push_back(wait.peer);
    ops_.push_back(copy);
  }

  static GpuSpace space_of(const Operand& operand) { return static_cast<GpuSpace>(operand.space); }

  GpuSpan add_operands(const Program& program, Span span) {
    GpuSpan encoded{static_cast<uint32_t>(operands_.size()), span.count};
    for (uint32_t i = 0; i < span.count; ++i) {
      const Operand& operand = program.operands[span.first + i];
      operands_.push_back({space_of(operand), operand.index});
    }
    return encoded;
  }

  const bool takes_output_;
  GpuProgram head_;
  uint32_t channels_ = 0;
  uint64_t temps_ = 0;  // of any channel
  std::vector<GpuSection> sections_;
  std::vector<GpuOp> ops_;
  std::vector<GpuOperand> operands_;
  std::vector<GpuSend> sends_;
  std::vector<int32_t> releases_;
};

// Copies have no use for one.
cuda::GpuReduceOp combined_by(ReduceOp op) {
  switch (op) {
    case TUTTI_PROD: return cuda::GpuReduceOp::kProd;
    case TUTTI_MAX: return cuda::GpuReduceOp::kMax;
    case TUTTI_MIN: return cuda::GpuReduceOp::kMin;
    case TUTTI_BAND: return cuda::GpuReduceOp::kBitAnd;
    case TUTTI_BOR: return cuda::GpuReduceOp::kBitOr;
    case TUTTI_BXOR: return cuda::GpuReduceOp::kBitXor;
    default: return cuda::GpuReduceOp::kSum;
  }
}

bool goes_by_bytes(const GpuCall& call) { return !reduces(call.shape->collective) || is_bitwise(call.op); }

}  // namespace

Result<std::vector<std::byte>> encode_for_gpu(const Plan& plan, int rank, bool takes_output) {
  const PlanShape& shape = plan.shape();
  auto ranks = static_cast<uint64_t>(shape.nranks), channels = static_cast<uint64_t>(shape.channels);
  if (ranks > cuda::kMostGpus) return too_large("ranks", ranks, cuda::kMostGpus);
  if (channels > cuda::kMostGpuChannels) return too_large("channels", channels, cuda::kMostGpuChannels);
  Encoder encoder(takes_output);
  for (int channel = 0; channel < shape.channels; ++channel) TUTTI_TRY(encoder.add(lower(plan, rank, channel)));
  return encoder.take();
}

std::string gpu_kernel_name(const GpuCall& call) {
  return fmt::format("tutti_program_{}", goes_by_bytes(call) ? "bits" : name_of(call.datatype));
}

bool takes_output(const PlanShape& shape, bool in_place) { return holds(shape.deliver_directly, in_place); }

cuda::ProgramArgs gpu_args(const GpuCall& call, int rank) {
  const PlanShape& shape = *call.shape;
  auto n = static_cast<uint32_t>(shape.nranks);
  auto element_bytes = static_cast<uint64_t>(goes_by_bytes(call) ? 1 : size_of(call.datatype));
  bool divides = reduces(shape.collective) && call.op == TUTTI_AVG;
  cuda::ProgramArgs args;
  args.arena = call.arena;
  args.count = call.count * (size_of(call.datatype) / element_bytes);
  args.slice_elements = shape.slice_bytes / element_bytes;
  args.channels = static_cast<uint32_t>(shape.channels);
  switch (shape.collective) {
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER: args.output.modulo = n; break;
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_SCATTER: args.input.modulo = n; break;
    case TUTTI_ALL_TO_ALL:
      args.input.modulo = args.output.modulo = n;
      args.output.divide = n;
      break;
    default: args.chunks = static_cast<uint32_t>(shape.chunks);
  }
  args.rank = static_cast<uint32_t>(rank);
  args.ranks = n;
  args.op = combined_by(call.op);
  args.divisor = divides ? n : 0;
  args.lends = holds(shape.by_reference, call.in_place[static_cast<size_t>(rank)] != 0) ? 1 : 0;
  args.grows = partial_growth(shape.collective, call.datatype, call.op) > 1 ? 1 : 0;
  for (uint32_t peer = 0; peer < n; ++peer) {
    args.of[peer].takes_output = tutti::takes_output(shape, call.in_place[peer] != 0) ? 1 : 0;
  }
  return args;
}

}  // namespace tutti
