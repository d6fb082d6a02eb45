// Messages that stand for all slices of a chunk (PlanShape::by_chunk). Ranks that share memory need no slots, so if not
// every slice has its message nothing makes one wait for another between a chunk's first and its last: where ranks take
// turns on processors that is a turn or two of each for every slice.
#include "executor/channel_run.h"

namespace tutti {

// Whether this rank sends the peer results by chunk, and takes them so. The peer decides by that and by what it says
// itself, so it is the same throughout the call.
bool ChannelRun::says_by_chunk(const Peer& to) const {
  bool tells_of_slices = call_->flow != nullptr;  // as they become final
  bool is_open = call_->announces_output && call_->output_window && !call_->is_on_devices();
  return by_chunk_ && to.mapped() && is_open && !tells_of_slices;
}

// Whether the message of the first slice lends the peer the whole chunk.
bool ChannelRun::lends_chunk(const Op& op, const Send& send) const {
  bool is_there = send.is_of_input && send.into == kNoChunk && call_->flow == nullptr;
  const Peer& to = *(*peers_)[send.peer];
  return is_there && slices_of(op) > 1 && to.mapped() && may_lend(to, send) && call_->input_window;
}

// Whether a kWait gets no message of this slice.
bool ChannelRun::is_spoken_for(const Op& op, uint64_t slice) {
  if (op.into != kNoChunk) return slice + 1 < slices_of(op) && go_by_chunk(peer(op.peer));
  const std::byte*& chunk = chunks_[index_of(op)];
  if (slice == 0) chunk = nullptr;
  return chunk != nullptr;
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

// Peers that get results by chunk do not wait for other messages of them, so their outputs have to be reached.
ChannelRun::Step ChannelRun::await_outputs(const Op& op, uint64_t slice) {
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    const Send& send = program_->sends[op.sends.first + i];
    Peer& to = peer(send.peer);
    if (send.into == kNoChunk || slices_of(op) == 1 || !go_by_chunk(to)) continue;
    const RemoteMemory* memory = to.find(peer_outputs_[send.peer].memory_id);
    if (memory == nullptr) {  // under way
      if (to.needs_poll()) to.poll();
      return wait_for(to);
    }
    if (!place_in_output(to, send, slice)) {
      return fail(error(Code::kRemote, "rank {} names memory for its output that it has not shared", to.rank()));
    }
  }
  return Step::kDone;
}

void ChannelRun::mind_chunk(const Op& op, const Send& send, uint64_t slice, Delivery& delivery) {
  if (lends_chunk(op, send)) {
    if (slice > 0) delivery = {.kind = MessageKind::kReference, .is_silent = true};
    delivery.with_rest = slice == 0;
  } else if (send.into != kNoChunk && go_by_chunk(peer(send.peer))) {
    delivery.is_silent = slice + 1 < slices_of(op);
  }
}

}  // namespace tutti
