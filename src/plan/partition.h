// Which elements a piece (channel, chunk, slice) of a call means. Pure arithmetic; of what two ranks both hold they
// compute the same sizes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/arithmetic.h"
#include "base/check.h"

namespace tutti {

struct Piece {
  uint64_t offset_bytes = 0;  // in the caller's buffer
  uint64_t size_bytes = 0;
};

// Where the blocks of one of the caller's buffers lie, in elements. Without arrays all blocks are alike and follow each
// other. The arrays are the caller's.
struct Blocks {
  const uint64_t* counts = nullptr;
  const uint64_t* displacements = nullptr;  // null exactly when counts is
  int divide = 1;                           // the block of a chunk is chunk / divide % modulo
  int modulo = 1;
};

class Partition {
 public:
  // A vector that is cut into channels and then into chunks. Elements have 1, 2, 4 or 8 bytes; slice_bytes is a
  // positive multiple of 64.
  Partition(uint64_t count, uint32_t element_bytes, int channels, int chunks, uint64_t slice_bytes);
  // Blocks, each of which is a chunk, cut into channels. `count`: of blocks without arrays. `rank`: where both sides
  // have arrays, chunk / output.divide is the rank that sends the chunk; this rank knows its own counts as a sender.
  Partition(uint64_t count, uint32_t element_bytes, int channels, uint64_t slice_bytes, const Blocks& input,
            const Blocks& output, int rank);

  // Slices of one chunk: 1 for an empty one, so that its messages travel and match.
  uint64_t slices(int channel, int chunk) const { return slices_of(size_bytes(channel, chunk)); }
  // Whether chunk 0 has as many slices as any.
  bool first_is_largest() const { return input_.counts == nullptr && output_.counts == nullptr; }
  // Bytes of the chunk on the channel.
  uint64_t size_bytes(int channel, int chunk) const {
    Range range = range_of(channel, chunk);
    return (range.end - range.begin) * element_bytes_;
  }
  // Bytes of a block, on all channels.
  uint64_t block_bytes(int chunk) const { return count_of(chunk) * element_bytes_; }
  // Bytes of one slice of a chunk on the channel.
  uint64_t slice_bytes(int channel, int chunk, uint64_t slice) const {
    return this->slice(channel, chunk, slice).size_bytes;
  }
  // The same, and where it begins in the chunk's part of the channel.
  Piece slice(int channel, int chunk, uint64_t slice) const { return slice_within(size_bytes(channel, chunk), slice); }
  // In the caller's input or output, of chunks that they hold. slice < slices(channel, chunk).
  Piece input(int channel, int chunk, uint64_t slice) const { return piece(input_, channel, chunk, slice); }
  Piece output(int channel, int chunk, uint64_t slice) const { return piece(output_, channel, chunk, slice); }

 private:
  struct Range { uint64_t begin, end; };

  // Part `index` of `parts` of the elements: whole 64-byte lines while there is one per part.
  Range split(Range range, int parts, int index) const;
  // Within the vector, or within the block.
  Range range_of(int channel, int chunk) const {
    Range range{0, chunks_ > 0 ? count_ : count_of(chunk)};
    if (channels_ > 1) range = split(range, channels_, channel);
    return chunks_ > 1 ? split(range, chunks_, chunk) : range;
  }
  uint64_t count_of(int chunk) const;
  uint64_t begin_of(const Blocks& blocks, int chunk) const;
  Piece piece(const Blocks& blocks, int channel, int chunk, uint64_t slice) const;
  // A small last slice would cost its messages and turns like a large one, so all have about as many lines.
  Piece slice_within(uint64_t size_bytes, uint64_t slice) const {
    uint64_t slices = slices_of(size_bytes);
    if (slice >= slices) return {size_bytes, 0};
    if (slices == 1) return {0, size_bytes};
    uint64_t lines = ceil_div(size_bytes, kLineBytes);
    uint64_t begin = even_begin(lines, slices, slice) * kLineBytes;
    uint64_t end = slice + 1 == slices ? size_bytes : even_begin(lines, slices, slice + 1) * kLineBytes;
    return {begin, end - begin};
  }
  uint64_t slices_of(uint64_t size_bytes) const {
    return size_bytes <= slice_bytes_ ? 1 : ceil_div(size_bytes, slice_bytes_);
  }

  static constexpr uint64_t kLineBytes = 64;
  // Where part `index` of `parts` begins when `units` are dealt out evenly, the first parts getting the rest.
  static uint64_t even_begin(uint64_t units, uint64_t parts, uint64_t index) {
    return units / parts * index + std::min(index, units % parts);
  }

  uint64_t count_;          // of the vector, or of each block
  uint32_t element_bytes_;
  int channels_;
  int chunks_;              // of the vector; 0: blocks
  uint64_t slice_bytes_;
  bool is_one_piece_;       // all of it, as in small calls
  Blocks input_;
  Blocks output_;
  int rank_ = 0;
};

// What follows is inline because every message asks for it.

inline Partition::Range Partition::split(Range range, int parts, int index) const {
  TUTTI_CHECK(index >= 0 && index < parts);
  uint64_t size = range.end - range.begin;
  uint64_t line = kLineBytes / element_bytes_;
  uint64_t lines = ceil_div(size, line);
  if (lines < static_cast<uint64_t>(parts)) {
    return {range.begin + even_begin(size, parts, index), range.begin + even_begin(size, parts, index + 1)};
  }
  auto boundary = [&](int i) { return range.begin + even_begin(lines, parts, i) * line; };
  return {boundary(index), index + 1 == parts ? range.end : boundary(index + 1)};
}

inline uint64_t Partition::count_of(int chunk) const {
  auto listed = [chunk](const Blocks& blocks) { return blocks.counts[chunk / blocks.divide % blocks.modulo]; };
  if (input_.counts != nullptr && (output_.counts == nullptr || chunk / output_.divide == rank_)) return listed(input_);
  return output_.counts != nullptr ? listed(output_) : count_;
}

inline uint64_t Partition::begin_of(const Blocks& blocks, int chunk) const {
  if (chunks_ > 0) return 0;
  uint64_t block = chunk / blocks.divide % blocks.modulo;
  return blocks.displacements != nullptr ? blocks.displacements[block] : block * count_;
}

inline Piece Partition::piece(const Blocks& blocks, int channel, int chunk, uint64_t slice) const {
  if (is_one_piece_) return {0, count_ * element_bytes_};
  Range range = range_of(channel, chunk);
  Piece piece = slice_within((range.end - range.begin) * element_bytes_, slice);
  piece.offset_bytes += (begin_of(blocks, chunk) + range.begin) * element_bytes_;
  return piece;
}

}  // namespace tutti
