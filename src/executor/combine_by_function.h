// Combining by a function of the program: in the same order as the kernels, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/own_op.h"

namespace tutti {

class FunctionCombiner {
 public:
  // Memory for so many sources.
  void prepare(size_t most_sources);
  // As reduce() in kernels/kernels.h. After prepare(). A destination may be a source.
  void combine(const OwnOp& op, Datatype datatype, std::span<const std::byte* const> sources,
               std::span<std::byte* const> destinations, uint64_t count);

 private:
  struct Block {
    const OwnOp& op;
    Datatype datatype;
    std::span<const std::byte* const> sources;
    uint64_t offset_bytes;
    uint64_t count;
  };
  // Where the combination of sources [first, first + number) lies: a source itself, or scratch of `depth` or deeper.
  const std::byte* combine_range(const Block& block, size_t first, size_t number, size_t depth);

  std::vector<std::byte> scratch_;
};

}  // namespace tutti
