// Which elements a piece (channel, chunk, slice) of a call means. Pure arithmetic, the same on all ranks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/arithmetic.h"
#include "base/check.h"

namespace tutti {

struct Piece {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

class Partition {
 public:
  // count elements of element_bytes each (1, 2, 4 or 8); slice_bytes is a positive multiple of 64.
  Partition(uint64_t count, uint32_t element_bytes, int channels, int chunks, uint64_t slice_bytes);

  // Slices of the largest chunk of `channel`; 1 for an empty channel, so that its messages travel and match.
  uint64_t slices(int channel) const;
  // slice < slices(channel). Empty past the chunk's end.
  Piece piece(int channel, int chunk, uint64_t slice) const;

 private:
  // [begin, end) of part `index` of `parts` of the elements [begin, end): whole 64-byte lines while there is one per
  // part.
  struct Range { uint64_t begin, end; };
  Range split(Range range, int parts, int index) const;

  static constexpr uint64_t kLineBytes = 64;
  // Where part `index` of `parts` begins when `units` are dealt out evenly, the first parts getting the rest.
  static uint64_t even_begin(uint64_t units, uint64_t parts, uint64_t index) {
    return units / parts * index + std::min(index, units % parts);
  }

  uint64_t count_;
  uint32_t element_bytes_;
  int channels_;
  int chunks_;
  uint64_t slice_bytes_;
};

// What follows is inline because every message asks for it.

inline Partition::Range Partition::split(Range range, int parts, int index) const {
  TUTTI_CHECK(index >= 0 && index < parts);
  if (parts == 1) return range;
  uint64_t size = range.end - range.begin;
  uint64_t line = kLineBytes / element_bytes_;
  uint64_t lines = ceil_div(size, line);
  if (lines < static_cast<uint64_t>(parts)) {
    return {range.begin + even_begin(size, parts, index), range.begin + even_begin(size, parts, index + 1)};
  }
  auto boundary = [&](int i) { return range.begin + even_begin(lines, parts, i) * line; };
  return {boundary(index), index + 1 == parts ? range.end : boundary(index + 1)};
}

inline uint64_t Partition::slices(int channel) const {
  Range largest = split(split({0, count_}, channels_, channel), chunks_, 0);
  uint64_t size_bytes = (largest.end - largest.begin) * element_bytes_;
  return size_bytes <= slice_bytes_ ? 1 : ceil_div(size_bytes, slice_bytes_);
}

inline Piece Partition::piece(int channel, int chunk, uint64_t slice) const {
  Range range = split(split({0, count_}, channels_, channel), chunks_, chunk);
  uint64_t size_bytes = (range.end - range.begin) * element_bytes_;
  if (slice == 0) return {range.begin * element_bytes_, std::min(slice_bytes_, size_bytes)};
  uint64_t begin = slice > size_bytes / slice_bytes_ ? size_bytes : slice * slice_bytes_;
  return {range.begin * element_bytes_ + begin, std::min(slice_bytes_, size_bytes - begin)};
}

}  // namespace tutti
