#include "kernels/cuda/gpu_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/ops.h"
#include "plan/collective.h"

namespace tutti::test {
namespace {

template <class Element>
void store_small(std::byte* to, float value) {
  using Accumulator = typename Element::Accumulator;
  auto stored = Element::store(static_cast<Accumulator>(value));
  std::memcpy(to, &stored, sizeof stored);
}

// Sums and products of these few are exact in every type, in any order.
void fill_with_small_values(std::span<std::byte> bytes, Datatype datatype, std::mt19937_64& random) {
  constexpr float kValues[] = {-1, 0, 1, 2};
  for (size_t at = 0; at < bytes.size(); at += size_of(datatype)) {
    std::byte* to = bytes.data() + at;
    float value = kValues[random() % std::size(kValues)];
    switch (datatype) {
      case TUTTI_FLOAT16: store_small<ops::Float16>(to, value); break;
      case TUTTI_BFLOAT16: store_small<ops::Bfloat16>(to, value); break;
      case TUTTI_FLOAT8_E4M3: store_small<ops::Float8E4m3>(to, value); break;
      case TUTTI_FLOAT8_E5M2: store_small<ops::Float8E5m2>(to, value); break;
      case TUTTI_FLOAT64: store_small<ops::Plain<double>>(to, value); break;
      default: store_small<ops::Plain<float>>(to, value);
    }
  }
}

// Where the bits do not depend on the order anyway, any values.
void fill(std::span<std::byte> bytes, const GpuCase& which, std::mt19937_64& random) {
  bool depends = !is_integer(which.datatype) && which.op != TUTTI_MIN && which.op != TUTTI_MAX;
  bool is_reduced = reduces(which.algorithm->collective);
  if (is_reduced && depends) return fill_with_small_values(bytes, which.datatype, random);
  fill_with_values(bytes, which.datatype, random);
}

// Blocks in a rank's buffers; 0: the rank does not use that one.
struct Shape {
  uint64_t sent = 0;
  uint64_t received = 0;
};
Shape shape_on(Collective collective, int rank, int root, int nranks) {
  auto n = static_cast<uint64_t>(nranks);
  bool is_root = rank == root;
  switch (collective) {
    case TUTTI_REDUCE: return {1, is_root ? 1U : 0U};
    case TUTTI_BROADCAST: return {is_root ? 1U : 0U, 1};
    case TUTTI_ALL_GATHER: return {1, n};
    case TUTTI_REDUCE_SCATTER: return {n, 1};
    case TUTTI_GATHER: return {1, is_root ? n : 0};
    case TUTTI_SCATTER: return {is_root ? n : 0, 1};
    case TUTTI_ALL_TO_ALL: return {n, n};
    case TUTTI_BARRIER: return {};
    default: return {1, 1};
  }
}

using Bytes = std::vector<std::byte>;

class Reference {
 public:
  Reference(const GpuCase& which, std::vector<Bytes> inputs)
      : which_(which), inputs_(std::move(inputs)), block_bytes_(which.count * size_of(which.datatype)) {}

  Bytes received(int rank) const {
    int n = static_cast<int>(inputs_.size());
    Bytes all;
    auto append = [&](const Bytes& bytes) { all.insert(all.end(), bytes.begin(), bytes.end()); };
    switch (which_.algorithm->collective) {
      case TUTTI_REDUCE_SCATTER: append(combined(rank)); break;
      case TUTTI_BROADCAST: append(block(which_.root, 0)); break;
      case TUTTI_SCATTER: append(block(which_.root, rank)); break;
      case TUTTI_ALL_GATHER:
      case TUTTI_GATHER:
        for (int from = 0; from < n; ++from) append(block(from, 0));
        break;
      case TUTTI_ALL_TO_ALL:
        for (int from = 0; from < n; ++from) append(block(from, rank));
        break;
      default: append(combined(0));
    }
    return all;
  }

 private:
  Bytes block(int rank, int number) const {
    auto begin = inputs_[rank].begin() + static_cast<std::ptrdiff_t>(number * block_bytes_);
    return {begin, begin + static_cast<std::ptrdiff_t>(block_bytes_)};
  }
  Bytes combined(int number) const {
    std::vector<Bytes> blocks;
    std::vector<const std::byte*> sources;
    for (size_t rank = 0; rank < inputs_.size(); ++rank) blocks.push_back(block(static_cast<int>(rank), number));
    for (const Bytes& each : blocks) sources.push_back(each.data());
    Bytes result(block_bytes_);
    std::byte* destination = result.data();
    bool divides = which_.op == TUTTI_AVG;
    reduce_scalar({.datatype = which_.datatype,
                   .op = which_.op,
                   .sources = sources,
                   .destinations = {&destination, 1},
                   .count = which_.count,
                   .divisor = divides ? static_cast<uint32_t>(inputs_.size()) : 0});
    return result;
  }

  const GpuCase& which_;
  const std::vector<Bytes> inputs_;
  const uint64_t block_bytes_;
};

// A rank's buffers. In place they are one, of which the smaller one is a block.
class RankBuffers {
 public:
  RankBuffers(const GpuCase& which, int rank, int nranks, size_t misalignment, std::mt19937_64& random) {
    uint64_t block = which.count * size_of(which.datatype);
    Shape shape = shape_on(which.algorithm->collective, rank, which.root, nranks);
    sent_bytes_ = shape.sent * block;
    received_bytes_ = shape.received * block;
    in_place_ = which.in_place[rank] != 0 && shape.sent > 0 && shape.received > 0;
    size_t apart = which.is_misaligned ? random() % 16 : 0;
    if (in_place_) {
      memory_.emplace_back(std::max(sent_bytes_, received_bytes_), misalignment);
      uint64_t own = static_cast<uint64_t>(rank) * block;
      sent_at_ = shape.received > shape.sent ? own : 0;
      received_at_ = shape.sent > shape.received ? own : 0;
    } else {
      memory_.emplace_back(sent_bytes_, misalignment);
      memory_.emplace_back(received_bytes_, misalignment + apart);
    }
    for (GuardedBuffer& each : memory_) {
      for (std::byte& byte : each.bytes()) byte = static_cast<std::byte>(random());
    }
    fill({input(), sent_bytes_}, which, random);
  }

  std::byte* input() { return memory_.front().data() + sent_at_; }
  std::byte* output() { return memory_.back().data() + received_at_; }
  bool is_in_place() const { return in_place_; }
  bool receives() const { return received_bytes_ > 0; }
  Bytes sent() { return {input(), input() + sent_bytes_}; }
  std::deque<GuardedBuffer>& memory() { return memory_; }

  std::string wrong(const Bytes& expected) {
    for (size_t i = 0; receives() && i < expected.size(); ++i) {
      if (output()[i] != expected[i]) return fmt::format("byte {} of {} is wrong", i, expected.size());
    }
    for (const GuardedBuffer& each : memory_) {
      if (!each.guards_intact()) return "something was stored beside a buffer";
    }
    return "";
  }

 private:
  std::deque<GuardedBuffer> memory_;
  bool in_place_ = false;
  uint64_t sent_bytes_ = 0, received_bytes_ = 0, sent_at_ = 0, received_at_ = 0;
};

Topology hosts_of(int nranks) {
  Inventory inventory;
  inventory.identity.boot_id = "test";
  inventory.cpu.logical_cpus = 2;
  inventory.cpu.allowed_cpus = {0, 1};
  return single_host(inventory, nranks);
}

}  // namespace

std::string GpuCase::text() const {
  return fmt::format("{} {} {} {}, root {}, {} channels, slices of {}, count {}{}", name_of(algorithm->collective),
                     algorithm->name, name_of(datatype), name_of(op), root, channels, slice_bytes, count,
                     is_misaligned ? ", misaligned" : "");
}

GpuCase draw_gpu_case(const Algorithm& algorithm, int nranks, std::mt19937_64& random) {
  GpuCase which{.algorithm = &algorithm};
  which.datatype = kDatatypes[random() % std::size(kDatatypes)];
  std::vector<ReduceOp> ops = ops_of(which.datatype);
  which.op = ops[random() % ops.size()];
  if (has_root(algorithm.collective)) which.root = static_cast<int>(random() % static_cast<uint64_t>(nranks));
  which.channels = 1 + static_cast<int>(random() % 3);
  which.slice_bytes = uint64_t{64} << random() % 3;
  uint64_t counts[] = {0, 1, 3, 17, 40, random() % 300};
  which.count = counts[random() % std::size(counts)];
  uint64_t who = random();
  for (int rank = 0; rank < nranks; ++rank) which.in_place.push_back(who % 3 == 0 ? 0 : who % 3 == 1 || rank % 2 == 0);
  which.is_misaligned = random() % 3 == 0;
  return which;
}

GpuJob::GpuJob(int nranks)
    : nranks_(nranks),
      arena_{.ranks = static_cast<uint32_t>(nranks), .channels = kMostChannels, .slot_bytes = kSlotBytes},
      arenas_(static_cast<size_t>(nranks), std::vector<uint64_t>(arena_.size_bytes() / sizeof(uint64_t))) {}

std::string GpuJob::run(const GpuCase& which, std::mt19937_64& random, const Launch& launch) {
  Topology topology = hosts_of(nranks_);
  Collective collective = which.algorithm->collective;
  bool has_blocks = chunks_of(collective, nranks_) > 0 && collective != TUTTI_BARRIER;
  Request request{.collective = collective,
                  .datatype = which.datatype,
                  .op = which.op,
                  .root = which.root,
                  .count = which.count * (has_blocks ? static_cast<uint64_t>(nranks_) : 1)};
  Tuning tuning{.channels = which.channels, .slice_bytes = which.slice_bytes, .max_slice_bytes = kSlotBytes};
  Plan plan(which.algorithm->shape(topology, request, tuning), which.algorithm->generate);

  std::deque<RankBuffers> buffers;
  std::vector<Bytes> inputs;
  std::vector<uint8_t> in_place;
  size_t misalignment = random() % 64;
  if (!which.is_misaligned) misalignment = misalignment / size_of(which.datatype) * size_of(which.datatype);
  for (int rank = 0; rank < nranks_; ++rank) {
    RankBuffers& of_rank = buffers.emplace_back(which, rank, nranks_, misalignment, random);
    inputs.push_back(of_rank.sent());
    in_place.push_back(of_rank.is_in_place() ? 1 : 0);
  }
  Reference reference(which, std::move(inputs));

  GpuCall call{.shape = &plan.shape(),
               .datatype = which.datatype,
               .op = which.op,
               .count = collective == TUTTI_BARRIER ? 0 : which.count,
               .in_place = in_place,
               .arena = arena_};
  std::vector<std::vector<uint64_t>> programs;
  std::vector<cuda::ProgramArgs> args;
  std::vector<Memory> memory;
  uint32_t late = 0;
  for (int rank = 0; rank < nranks_; ++rank) {
    auto encoded = encode_for_gpu(plan, rank, takes_output(plan.shape(), in_place[rank] != 0));
    if (!encoded.ok()) return std::string(encoded.status().message());
    programs.emplace_back((encoded->size() + 7) / 8);
    std::memcpy(programs.back().data(), encoded->data(), encoded->size());
    args.push_back(gpu_args(call, rank));
    memory.push_back({reinterpret_cast<uint64_t>(programs.back().data()), programs.back().size() * sizeof(uint64_t)});
    memory.push_back({reinterpret_cast<uint64_t>(arenas_[rank].data()), arenas_[rank].size() * sizeof(uint64_t)});
    for (GuardedBuffer& each : buffers[rank].memory()) {
      memory.push_back({reinterpret_cast<uint64_t>(each.data()), each.size()});
    }
  }
  for (int rank = 0; rank < nranks_; ++rank) {
    args[rank].program = reinterpret_cast<const cuda::GpuProgram*>(programs[rank].data());
    args[rank].late = &late;
    args[rank].limit_ns = UINT64_MAX;
    for (int peer = 0; peer < nranks_; ++peer) {
      args[rank].of[peer].input = reinterpret_cast<uint64_t>(buffers[peer].input());
      args[rank].of[peer].output = reinterpret_cast<uint64_t>(buffers[peer].output());
      args[rank].of[peer].arena = reinterpret_cast<uint64_t>(arenas_[peer].data());
    }
  }
  std::string wrong = launch(gpu_kernel_name(call), args, memory);
  if (!wrong.empty()) return wrong;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (buffers[rank].receives()) wrong = buffers[rank].wrong(reference.received(rank));
    if (!wrong.empty()) return fmt::format("rank {}: {}", rank, wrong);
  }
  return "";
}

}  // namespace tutti::test
