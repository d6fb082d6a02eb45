#include "plan/partition.h"

#include "base/check.h"

namespace tutti {

Partition::Partition(uint64_t count, uint32_t element_bytes, int channels, int chunks, uint64_t slice_bytes)
    : count_(count),
      element_bytes_(element_bytes),
      channels_(channels),
      chunks_(chunks),
      slice_bytes_(slice_bytes),
      is_one_piece_(channels == 1 && chunks == 1 && count * element_bytes <= slice_bytes) {
  TUTTI_CHECK(element_bytes > 0 && kLineBytes % element_bytes == 0);
  TUTTI_CHECK(count <= UINT64_MAX / element_bytes);
  TUTTI_CHECK(channels > 0 && chunks > 0);
  TUTTI_CHECK(slice_bytes > 0 && slice_bytes % kLineBytes == 0);
}

Partition::Partition(uint64_t count, uint32_t element_bytes, int channels, uint64_t slice_bytes, const Blocks& input,
                     const Blocks& output, int rank)
    : Partition(count, element_bytes, channels, 1, slice_bytes) {
  TUTTI_CHECK((input.counts == nullptr) == (input.displacements == nullptr));
  TUTTI_CHECK((output.counts == nullptr) == (output.displacements == nullptr));
  chunks_ = 0;
  is_one_piece_ = false;
  input_ = input;
  output_ = output;
  rank_ = rank;
}

}  // namespace tutti
