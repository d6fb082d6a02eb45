// reduce_partial(): block by block in float32, on blocks that stay in the level-1 cache.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/partial.h"
#include "kernels/reduce_types.h"

namespace tutti {
namespace {

constexpr size_t kBlock = 512;  // elements
constexpr size_t kAtOnce = 4;   // sources of one reduction: a power of two, so that larger trees split where these end

// One block of all sources.
class BlockReduction {
 public:
  BlockReduction(const ReduceArgs& args, std::span<const Width> widths) : args_(args), widths_(widths) {}

  // Leaves the result of elements [at, at + count) at `to`.
  void run(uint64_t at, uint64_t count, float* to) {
    at_ = at;
    count_ = count;
    combine_range(0, args_.sources.size(), 0, to, args_.divisor);
  }

 private:
  struct Block {
    alignas(kCacheLine) float elements[kBlock];
  };

  // The tree over positions: the left half is the largest power of two that is smaller than the whole. `to` is written
  // when all sources but the first few have been read, so it may be one of them.
  void combine_range(size_t first, size_t number, size_t depth, float* to, uint32_t divisor) {
    if (number <= kAtOnce) {
      const std::byte* sources[kAtOnce];
      for (size_t i = 0; i < number; ++i) sources[i] = widened(first + i, widened_[i]);
      return reduce_block({sources, number}, to, divisor);
    }
    const size_t left = std::bit_floor(number - 1);
    float* right = right_[depth].elements;
    combine_range(first + left, number - left, depth + 1, right, 0);
    combine_range(first, left, depth + 1, to, 0);
    const std::byte* const halves[] = {reinterpret_cast<const std::byte*>(to),
                                       reinterpret_cast<const std::byte*>(right)};
    reduce_block(halves, to, divisor);
  }

  void reduce_block(std::span<const std::byte* const> sources, float* to, uint32_t divisor) const {
    auto* destination = reinterpret_cast<std::byte*>(to);
    reduce_float32({.datatype = TUTTI_FLOAT32,
                    .op = args_.op,
                    .sources = sources,
                    .destinations = {&destination, 1},
                    .count = count_,
                    .divisor = divisor});
  }

  const std::byte* widened(size_t source, Block& spare) const {
    if (widths_[source] == Width::kWide) return args_.sources[source] + at_ * sizeof(float);
    widen(args_.datatype, spare.elements, args_.sources[source] + at_ * size_of(args_.datatype), count_);
    return reinterpret_cast<const std::byte*>(spare.elements);
  }

  // Splits of a tree until at most kAtOnce sources are left.
  static constexpr size_t kDepth = std::bit_width(kMaxSources / kAtOnce) - 1;

  const ReduceArgs& args_;
  std::span<const Width> widths_;
  uint64_t at_ = 0;
  uint64_t count_ = 0;
  Block widened_[kAtOnce];
  Block right_[kDepth];  // right halves that wait for their left ones
};

}  // namespace

void reduce_partial(const ReduceArgs& args, std::span<const Width> widths, Width result) {
  check_args(args);
  TUTTI_CHECK(widths.size() == args.sources.size());
  BlockReduction reduction(args, widths);
  float block[kBlock];
  const size_t size = result == Width::kWide ? sizeof(float) : size_of(args.datatype);
  for (uint64_t at = 0; at < args.count; at += kBlock) {
    const uint64_t count = std::min<uint64_t>(kBlock, args.count - at);
    std::byte* const to = args.destinations[0] + at * size;
    if (result == Width::kWide) {
      reduction.run(at, count, reinterpret_cast<float*>(to));
    } else {
      reduction.run(at, count, block);
      narrow(args.datatype, to, block, count);
    }
    for (std::byte* destination : args.destinations.subspan(1)) memcpy(destination + at * size, to, count * size);
  }
}

}  // namespace tutti
