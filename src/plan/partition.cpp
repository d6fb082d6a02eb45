#include "plan/partition.h"

#include <algorithm>

#include "base/check.h"

namespace tutti {
namespace {

constexpr uint64_t kLineBytes = 64;

uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

// Where part `index` of `parts` begins when `units` are dealt out evenly, the first parts getting the rest.
uint64_t even_begin(uint64_t units, uint64_t parts, uint64_t index) {
  return units / parts * index + std::min(index, units % parts);
}

}  // namespace

Partition::Partition(uint64_t count, uint32_t element_bytes, int channels, int chunks, uint64_t slice_bytes)
    : count_(count), element_bytes_(element_bytes), channels_(channels), chunks_(chunks), slice_bytes_(slice_bytes) {
  TUTTI_CHECK(element_bytes > 0 && kLineBytes % element_bytes == 0);
  TUTTI_CHECK(count <= UINT64_MAX / element_bytes);
  TUTTI_CHECK(channels > 0 && chunks > 0);
  TUTTI_CHECK(slice_bytes > 0 && slice_bytes % kLineBytes == 0);
}

Partition::Range Partition::split(Range range, int parts, int index) const {
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

uint64_t Partition::slices(int channel) const {
  Range largest = split(split({0, count_}, channels_, channel), chunks_, 0);
  return std::max<uint64_t>(1, ceil_div((largest.end - largest.begin) * element_bytes_, slice_bytes_));
}

Piece Partition::piece(int channel, int chunk, uint64_t slice) const {
  Range range = split(split({0, count_}, channels_, channel), chunks_, chunk);
  uint64_t size_bytes = (range.end - range.begin) * element_bytes_;
  if (slice == 0) return {range.begin * element_bytes_, std::min(slice_bytes_, size_bytes)};
  uint64_t begin = slice > size_bytes / slice_bytes_ ? size_bytes : slice * slice_bytes_;
  return {range.begin * element_bytes_ + begin, std::min(slice_bytes_, size_bytes - begin)};
}

}  // namespace tutti
