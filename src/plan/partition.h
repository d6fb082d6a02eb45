// Which elements a piece (channel, chunk, slice) of a call means. Pure arithmetic, the same on all ranks.
#pragma once

#include <cstdint>

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

  uint64_t count_;
  uint32_t element_bytes_;
  int channels_;
  int chunks_;
  uint64_t slice_bytes_;
};

}  // namespace tutti
