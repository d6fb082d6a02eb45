#include "core/fused_calls.h"

#include <vector>

namespace tutti {
namespace {

using Addresses = std::vector<uint64_t>;

class Builder {
 public:
  Builder(const Offer::Shape& shape, std::span<const PlacedBuffers> ranks)
      : ranks_(ranks),
        count_(shape.count),
        block_bytes_(shape.count * size_of(static_cast<Datatype>(shape.datatype))),
        launches_(static_cast<Datatype>(shape.datatype), static_cast<ReduceOp>(shape.op),
                  reduces(static_cast<Collective>(shape.collective)) ? static_cast<uint32_t>(ranks.size()) : 1) {}

  // Every rank's block number `block`.
  Addresses inputs(size_t block = 0) const {
    Addresses all;
    for (const PlacedBuffers& rank : ranks_) all.push_back(rank.input + block * block_bytes_);
    return all;
  }
  Addresses outputs(size_t block = 0) const {
    Addresses all;
    for (const PlacedBuffers& rank : ranks_) {
      if (rank.output != 0) all.push_back(rank.output + block * block_bytes_);
    }
    return all;
  }
  uint64_t input(size_t rank, size_t block = 0) const { return ranks_[rank].input + block * block_bytes_; }
  uint64_t output(size_t rank, size_t block = 0) const { return ranks_[rank].output + block * block_bytes_; }

  void combine(const Addresses& from, const Addresses& to) { launches_.add(count_, from, to); }
  // What is there already stays.
  void copy(uint64_t from, Addresses to) {
    std::erase(to, from);
    launches_.add(count_, Addresses{from}, to);
  }
  cuda::Launches take() { return std::move(launches_); }

 private:
  const std::span<const PlacedBuffers> ranks_;
  const uint64_t count_;
  const uint64_t block_bytes_;
  cuda::Launches launches_;
};

}  // namespace

Offer::Shape shape_of(const tutti_request& request) {
  const CallArguments& arguments = request.arguments;
  return {.collective = arguments.collective,
          .datatype = arguments.datatype,
          .op = reduces(arguments.collective) ? arguments.op : TUTTI_SUM,
          .root = arguments.root,
          .count = arguments.count};
}

const char* why_not_on_gpus(const tutti_request& request) {
  const CallArguments& arguments = request.arguments;
  if (has_counts(arguments.collective)) return "it has counts";
  if (reduces(arguments.collective) && is_own(arguments.op)) return "its operation is the program's";
  // There, one block's result would lie on another block that is still to be read.
  bool is_overwritten = arguments.collective == TUTTI_ALL_TO_ALL && request.geometry.in_place;
  if (request.geometry.onto_input || is_overwritten) return "its output lies on input that is still to be read";
  return nullptr;
}

cuda::Launches launches_of(const Offer::Shape& shape, std::span<const PlacedBuffers> ranks) {
  Builder build(shape, ranks);
  auto root = static_cast<size_t>(shape.root);
  switch (static_cast<Collective>(shape.collective)) {
    case TUTTI_ALL_REDUCE: build.combine(build.inputs(), build.outputs()); break;
    case TUTTI_REDUCE: build.combine(build.inputs(), {build.output(root)}); break;
    case TUTTI_BROADCAST: build.copy(build.input(root), build.outputs()); break;
    case TUTTI_ALL_GATHER:
      for (size_t i = 0; i < ranks.size(); ++i) build.copy(build.input(i), build.outputs(i));
      break;
    case TUTTI_REDUCE_SCATTER:
      for (size_t i = 0; i < ranks.size(); ++i) build.combine(build.inputs(i), {build.output(i)});
      break;
    case TUTTI_ALL_TO_ALL:
      for (size_t i = 0; i < ranks.size(); ++i) {
        for (size_t j = 0; j < ranks.size(); ++j) build.copy(build.input(i, j), {build.output(j, i)});
      }
      break;
    case TUTTI_GATHER:
      for (size_t i = 0; i < ranks.size(); ++i) build.copy(build.input(i), {build.output(root, i)});
      break;
    case TUTTI_SCATTER:
      for (size_t i = 0; i < ranks.size(); ++i) build.copy(build.input(root, i), {build.output(i)});
      break;
    default: break;
  }
  return build.take();
}

}  // namespace tutti
