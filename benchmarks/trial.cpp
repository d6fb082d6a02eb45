#include "trial.h"

#include <algorithm>
#include <cstring>

namespace tutti::bench {

Trial::Trial(const Layout& layout, const Pattern& pattern, int rank, Buffer& send, Buffer& recv, bool in_place)
    : layout_(layout), pattern_(pattern), rank_(rank), send_(send), recv_(recv), in_place_(in_place),
      element_bytes_(static_cast<uint64_t>(pattern.type().size_bytes)) {
  uint64_t both = std::max(layout.send_first + layout.send_count, layout.recv_first + layout.recv_count);
  send_used_ = in_place ? 0 : layout.send_count * element_bytes_;
  recv_used_ = (in_place ? both : layout.recv_count) * element_bytes_;
}

void Trial::describe(tutti_call_t& call) const {
  call.datatype = pattern_.type().datatype;
  call.send_buffer = static_cast<std::byte*>(sender().address()) + send_at();
  call.recv_buffer = static_cast<std::byte*>(recv_.address()) + recv_at();
  call.count = layout_.count;
  call.send_counts = call.recv_counts = layout_.counts.data();
}

void Trial::fill(uint64_t seed) {
  std::memset(recv_data(), 0xEE, layout_.recv_count * element_bytes_);
  pattern_.fill(send_data(), layout_.send_count, rank_, seed, layout_.send_position);
  seed_ = seed;
  send_.upload();
  recv_.upload();
}

void Trial::guard(uint64_t seed) {
  send_.guard(send_used_);
  recv_.guard(recv_used_);
  fill(seed);
}

// Of the elements [first, end) of the send buffer.
uint64_t Trial::wrong_inputs(uint64_t first, uint64_t end) const {
  if (first >= end) return 0;
  return pattern_.wrong_inputs(send_data() + first * element_bytes_, end - first, rank_, seed_,
                               layout_.send_position + first);
}

uint64_t Trial::wrong() {
  send_.download();
  recv_.download();
  uint64_t wrong = 0;
  for (const Piece& piece : layout_.results) {
    const std::byte* data = recv_data() + piece.first * element_bytes_;
    wrong += piece.source == kReduced ? pattern_.wrong_results(data, piece.count, seed_, piece.position)
                                      : pattern_.wrong_inputs(data, piece.count, piece.source, seed_, piece.position);
  }
  // Of the inputs those were only read on which no result lies.
  bool shares = in_place_ && layout_.recv_count > 0;
  uint64_t recv_end = layout_.recv_first + layout_.recv_count, send_first = layout_.send_first;
  uint64_t before = shares ? std::max(layout_.recv_first, send_first) - send_first : layout_.send_count;
  uint64_t behind = shares ? std::max(recv_end, send_first) - send_first : layout_.send_count;
  return wrong + wrong_inputs(0, before) + wrong_inputs(behind, layout_.send_count);
}

uint64_t Trial::overwritten() const { return send_.overwritten(send_used_) + recv_.overwritten(recv_used_); }

}  // namespace tutti::bench
