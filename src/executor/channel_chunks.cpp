// Messages that stand for all slices of a chunk (PlanShape::by_chunk). Ranks that share memory need no slots, so if not
// every slice has its message nothing makes one wait for another between a chunk's first and its last: where ranks take
// turns on processors that is a turn or two of each for every slice.
#include "executor/channel_run.h"

namespace tutti {

// Whether results of the peer come by chunk, which this rank says in each of its messages; throughout the call.
bool ChannelRun::takes_by_chunk(const Peer& from) const {
  bool tells_of_slices = call_->flow != nullptr;  // as they become final
  bool is_open = call_->announces_output && call_->output_window && !call_->is_on_devices();
  return by_chunk_ && from.mapped() && is_open && !tells_of_slices;
}

// Whether the message of the first slice lends the peer the whole chunk.
bool ChannelRun::lends_chunk(const Op& op, const Send& send) const {
  bool is_there = send.is_of_input && send.into == kNoChunk && call_->flow == nullptr;
  const Peer& to = *(*peers_)[send.peer];
  return is_there && slices_of(op) > 1 && to.mapped() && may_lend(to, send) && call_->input_window;
}

// Whether a kWait gets no message of this slice.
bool ChannelRun::is_spoken_for(const Op& op, uint64_t slice) {
  if (op.into != kNoChunk) return slice + 1 < slices_of(op) && takes_by_chunk(peer(op.peer));
  return slice > 0 && chunks_[index_of(op)] != nullptr;
}

ChannelRun::Step ChannelRun::take_spoken(const Op& op, uint64_t slice) {
  if (op.into != kNoChunk) return Step::kDone;  // it comes, or has come, by itself
  Piece piece = call_->partition.slice(channel_, op.chunk, slice);
  chunk_arrivals_[op.peer] = {chunks_[index_of(op)] + piece.offset_bytes, piece.size_bytes};
  if (op.release) release_from(op.peer, op, slice);
  return Step::kDone;
}

// The arrival is not needed any more. `op` runs for slices of its chunk.
void ChannelRun::release_from(int32_t rank, const Op& op, uint64_t slice) {
  RecvStream& stream = peer(rank).recv_stream(channel_);
  if (chunk_arrivals_[rank].data == nullptr) return stream.release();
  chunk_arrivals_[rank] = {};
  if (slice + 1 == slices_of(op)) stream.release_chunk();
}

// Peers that take results by chunk wait for no message of other slices, so these cannot come in another way while the
// memory of their outputs is still under way.
ChannelRun::Step ChannelRun::await_outputs(const Op& op) {
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    const Send& send = program_->sends[op.sends.first + i];
    bool is_by_chunk = send.into != kNoChunk && tells_by_chunk_[send.peer] != 0;
    Peer& to = peer(send.peer);
    if (!is_by_chunk || to.find(peer_outputs_[send.peer].memory_id) != nullptr) continue;
    if (to.needs_poll()) to.poll();
    return wait_for(to);
  }
  return Step::kDone;
}

// What the message of this slice says of others, or which message says all of this one.
ChannelRun::Step ChannelRun::mind_chunk(const Op& op, const Send& send, uint64_t slice, Delivery& delivery) {
  if (lends_chunk(op, send)) {
    if (slice > 0) delivery = {.kind = MessageKind::kReference, .is_silent = true};
    delivery.with_rest = slice == 0;
  } else if (send.into != kNoChunk && tells_by_chunk_[send.peer] != 0 && frame_->value_bytes > 0) {
    if (delivery.kind != MessageKind::kDirect || delivery.into) {
      return fail(error(Code::kRemote, "rank {} names memory for its output that it has not shared", send.peer));
    }
    delivery.is_silent = slice + 1 < slices_of(op);
  }
  return Step::kDone;
}

}  // namespace tutti
