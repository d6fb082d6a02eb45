#include "executor/combine_by_function.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tutti {
namespace {

constexpr size_t kBlockBytes = 4096;  // a few of them stay in the nearest cache

}  // namespace

void FunctionCombiner::prepare(size_t most_sources) {
  size_t levels = std::bit_width(most_sources) + 1;
  if (scratch_.size() < levels * kBlockBytes) scratch_.resize(levels * kBlockBytes);
}

// The tree over positions: the left half is the largest power of two that is smaller than the whole.
const std::byte* FunctionCombiner::combine_range(const Block& block, size_t first, size_t number, size_t depth) {
  if (number == 1) return block.sources[first] + block.offset_bytes;
  size_t left_number = std::bit_floor(number - 1);
  std::byte* result = scratch_.data() + depth * kBlockBytes;
  const std::byte* right = combine_range(block, first + left_number, number - left_number, depth);
  if (right != result) std::memcpy(result, right, block.count * size_of(block.datatype));
  const std::byte* left = combine_range(block, first, left_number, depth + 1);
  block.op.function(left, result, block.count, block.datatype, block.op.context);
  return result;
}

void FunctionCombiner::combine(const OwnOp& op, Datatype datatype, std::span<const std::byte* const> sources,
                               std::span<std::byte* const> destinations, uint64_t count) {
  uint64_t element = size_of(datatype);
  uint64_t most = kBlockBytes / element;
  for (uint64_t done = 0; done < count; done += most) {
    Block block{op, datatype, sources, done * element, std::min(most, count - done)};
    const std::byte* result = combine_range(block, 0, sources.size(), 0);
    for (std::byte* to : destinations) std::memmove(to + block.offset_bytes, result, block.count * element);
  }
}

}  // namespace tutti
