#include "core/stream_pieces.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "plan/collective.h"

namespace tutti {
namespace {

constexpr uint64_t kLeastBytes = 8 * 1024 * 1024;  // in less time than these take a stream does not begin a copy
constexpr uint64_t kMostPieces = 16;

using Pieces = std::vector<StreamWork::Piece>;

uint64_t size_of_whole(const StreamWork::Piece& whole) { return whole.size() == 1 ? whole.front().size_bytes : 0; }

uint64_t larger_of(const StreamWork::Piece& before, const StreamWork::Piece& after) {
  return std::max(size_of_whole(before), size_of_whole(after));
}

// The pieces of one buffer.
class Cutter {
 public:
  using Place = tutti::Piece (Partition::*)(int channel, int chunk, uint64_t slice) const;
  Cutter(const Partition& partition, Place place, const StreamCopy& whole, uint64_t pieces, uint64_t slices_per_piece)
      : partition_(partition), place_(place), whole_(whole), slices_per_piece_(slices_per_piece), pieces_(pieces) {}

  void add(int channel, int chunk) {
    uint64_t slices = partition_.slices(channel, chunk);
    for (uint64_t first = 0; first < slices; first += slices_per_piece_) {
      uint64_t last = std::min(first + slices_per_piece_, slices) - 1;
      tutti::Piece begin = (partition_.*place_)(channel, chunk, first);
      tutti::Piece end = (partition_.*place_)(channel, chunk, last);
      uint64_t size_bytes = end.offset_bytes + end.size_bytes - begin.offset_bytes;
      if (size_bytes == 0) continue;
      covered_ += size_bytes;
      pieces_[first / slices_per_piece_].push_back({static_cast<std::byte*>(whole_.to) + begin.offset_bytes,
                                                    static_cast<const std::byte*>(whole_.from) + begin.offset_bytes,
                                                    size_bytes});
    }
  }
  bool has_all() const { return covered_ == whole_.size_bytes; }
  Pieces take() { return std::move(pieces_); }

 private:
  const Partition& partition_;
  const Place place_;
  const StreamCopy whole_;
  const uint64_t slices_per_piece_;
  Pieces pieces_;
  uint64_t covered_ = 0;
};

}  // namespace

bool may_be_cut(const tutti_request& request, const StreamWork::Piece& before, const StreamWork::Piece& after) {
  Collective collective = request.arguments.collective;
  bool is_regular = !is_point_to_point(collective) && !has_counts(collective) && !request.geometry.onto_input;
  return is_regular && larger_of(before, after) >= 2 * kLeastBytes;
}

std::optional<CutCall> cut_call(const tutti_request& request, const PlanShape& shape, int rank,
                                const StreamWork::Piece& before, const StreamWork::Piece& after) {
  Partition partition = partition_of(request.arguments, request.geometry, shape, rank);
  uint64_t slices = partition.slices(0, 0);
  uint64_t most = std::min({kMostPieces, larger_of(before, after) / kLeastBytes, slices});
  if (most < 2) return {};
  CutCall cut{.slices_per_piece = ceil_div(slices, most)};
  uint64_t pieces = ceil_div(slices, cut.slices_per_piece);
  auto cut_up = [&](const StreamWork::Piece& whole, auto holds, Cutter::Place place) -> Pieces {
    if (whole.size() != 1) return Pieces(1, whole);
    Cutter cutter(partition, place, whole.front(), pieces, cut.slices_per_piece);
    for (int channel = 0; channel < shape.channels; ++channel) {
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        if (holds(shape, rank, chunk)) cutter.add(channel, chunk);
      }
    }
    return cutter.has_all() ? cutter.take() : Pieces(1, whole);
  };
  cut.before = cut_up(before, in_input, &Partition::input);
  cut.after = cut_up(after, in_output, &Partition::output);
  return cut;
}

}  // namespace tutti
