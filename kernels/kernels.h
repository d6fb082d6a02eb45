// The CPU kernels: k-ary reduction, scaling and copy, SIMD with run-time dispatch. All targets give the same bits as
// reduce_scalar().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"

namespace tutti {

enum class Store : uint8_t {
  kCached,     // ordinary stores: the data is used again soon
  kStreaming,  // non-temporal where aligned: the data is larger than the caches. Fenced before return.
};

constexpr size_t kMaxSources = 65536;

struct ReduceArgs {
  Datatype datatype = TUTTI_FLOAT32;
  ReduceOp op = TUTTI_SUM;
  // 1 to kMaxSources. Elements are combined by the binary tree over the sources' positions: level by level, neighbours
  // (s0 op s1), (s2 op s3), ..., while an odd last one is carried up unchanged; so five give ((s0 s1)(s2 s3)) s4. It is
  // the tree of a recursive-doubling exchange among ranks in these positions, and its rounding errors grow with the
  // logarithm of the number of sources. Buffers may be unaligned to any degree.
  std::span<const std::byte* const> sources;
  // Each receives the result; >= 1. A destination may be equal to a source; other overlaps are not allowed.
  std::span<std::byte* const> destinations;
  uint64_t count = 0;  // elements
  // > 0, of TUTTI_SUM and TUTTI_AVG alone: divide the result by this (an average that ends here): one correctly rounded
  // division in the accumulation type.
  uint32_t divisor = 0;
  // So many of the first destinations are stored past the caches (Store::kStreaming), of them those that lie as the
  // first one does within a cache line.
  size_t streamed = 0;
};

// 8- and 16-bit floats accumulate in float32 over all sources and round once, to nearest even; a result that is
// infinite or too large for an 8-bit float becomes its largest finite value with that sign. Integers wrap around; their
// average truncates towards zero. TUTTI_AVG sums (and divides by `divisor`). min and max give NaN when any input is
// NaN, and hold -0 for less than +0. Every NaN result is the same positive quiet NaN. So the result's bits depend
// neither on the processor nor on the order of two operands. The caller's floating-point modes apply, but to minima and
// maxima of 8- and 16-bit floats: flushing subnormals to zero on some ranks only would give ranks different bits.
void reduce(const ReduceArgs& args);

// The plain loop that defines the bits; slow, for tests.
void reduce_scalar(const ReduceArgs& args);

// How the values of an 8- or 16-bit float lie: in the datatype, or as float32, which partial results are kept in so
// that only the finished one is rounded. float32 values are aligned as such.
enum class Width : uint8_t { kNarrow, kWide };

// reduce() of 8- or 16-bit floats where source j is of widths[j] and the result of width `result`: one reduction that
// is cut into several, each with wide results but the last, gives the bits of the whole. `streamed` is not looked at.
void reduce_partial(const ReduceArgs& args, std::span<const Width> widths, Width result);

// 8- and 16-bit floats to float32, exactly, and back, rounded as reduce() rounds. NaNs stay NaNs, and become the
// one quiet NaN on the way back, where those given are what widen() or arithmetic made of them.
void widen(Datatype datatype, float* to, const std::byte* from, uint64_t count);
void narrow(Datatype datatype, std::byte* to, const float* from, uint64_t count);

// to[i] = from[i] * *factor, where `factor` points to one element of the datatype: the bits of the product that
// reduce() forms of two sources. It serves the sum of inputs that are multiplied first. `to` may be equal to `from`;
// other overlaps are not allowed. Any alignment.
void scale(Datatype datatype, std::byte* to, const std::byte* from, uint64_t count, const std::byte* factor);

// memcpy with a choice of stores; no overlap.
void copy(std::byte* to, const std::byte* from, size_t size_bytes, Store store);

// The name of the chosen SIMD target, "AVX3", "NEON", ...
const char* kernel_target();

}  // namespace tutti
