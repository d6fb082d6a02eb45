// What goes from this rank point-to-point: answers first, so that nobody waits for them behind data.
#include <algorithm>

#include "core/direct_message.h"
#include "core/point_to_point.h"
#include "kernels/kernels.h"

namespace tutti {

Result<bool> PointToPoint::send(Peer& peer) {
  Peer::Batch batch(peer);
  bool moved = TUTTI_TRY(send_answers(peer));
  moved = TUTTI_TRY(send_first(peer)) || moved;
  return TUTTI_TRY(send_data(peer)) || moved;
}

Result<bool> PointToPoint::send_answers(Peer& peer) {
  Lane& lane = lanes_[peer.rank()];
  bool moved = false;
  while (!lane.answers.empty()) {
    const Answer& answer = lane.answers.front();
    Header header{.kind = answer.kind, .value = answer.offer};
    Message message;
    message.output = answer.window;
    message.size_bytes = answer.to_push_bytes;
    message.payload.offset = answer.address;
    if (TUTTI_TRY(send_one(peer, header, message, nullptr)) == PutResult::kFull) return moved;
    lane.answers.erase(lane.answers.begin());
    moved = true;
  }
  if (lane.freed_here < kTellFreedBytes) return moved;
  Message message;
  message.size_bytes = lane.freed_here;
  if (TUTTI_TRY(send_one(peer, {.kind = Kind::kCredit}, message, nullptr)) == PutResult::kFull) return moved;
  lane.freed_here = 0;
  return true;
}

// Sends of which the peer does not know yet, in the order in which they were made.
Result<bool> PointToPoint::send_first(Peer& peer) {
  Lane& lane = lanes_[peer.rank()];
  const SendStream& stream = peer.send_stream(channel_);
  bool moved = false;
  while (!lane.unsent.empty() && stream.has_room()) {
    tutti_request& request = *lane.unsent.front();
    const CallArguments& arguments = request.arguments;
    uint64_t size = request.transfer.size_bytes;
    bool is_eager = may_be_kept(peer, size);
    std::optional<SharedBuffer> shared;
    if (peer.mapped() && (!is_eager || may_be_lent(peer, size))) shared = memory_.find(arguments.input, size);
    if (shared || may_be_pulled(peer, size)) is_eager = false;
    Header header = eager_header(arguments);
    if (!is_eager) header.kind = Kind::kOffer;
    PutResult result;
    if (is_eager) {
      result = TUTTI_TRY(send_payload(peer, header, arguments.input, size));
    } else {
      request.transfer.offer = lane.offers + 1;
      TUTTI_TRY(lend_to_link(peer, request));
      result = TUTTI_TRY(send_one(peer, header, TUTTI_TRY(offer_of(peer, request, shared)), nullptr));
    }
    if (result == PutResult::kFull) return moved;
    lane.unsent.pop();
    moved = true;
    if (is_eager) {
      lane.kept_there += credit_of(size);
      settle_sent(peer, request, size);
    } else {
      lane.offers = request.transfer.offer == UINT32_MAX ? 0 : request.transfer.offer;
      lane.offered.push_back(&request);
    }
  }
  return moved;
}

Result<bool> PointToPoint::send_data(Peer& peer) {
  Lane& lane = lanes_[peer.rank()];
  bool moved = false;
  while (!lane.flowing.empty()) {
    tutti_request& request = *lane.flowing.front();
    Transfer& transfer = request.transfer;
    if (transfer.to_push_bytes > 0) {
      if (!peer.send_stream(channel_).has_room()) return moved;
      lane.flowing.erase(lane.flowing.begin());
      // Those behind it have their turn before its next piece. That comes with the next look at the peer.
      if (!TUTTI_TRY(push_piece(peer, request))) lane.flowing.push_back(&request);
      return true;
    }
    RemoteSlice into = TUTTI_TRY(place_of(peer, request));
    uint64_t most = into.memory == nullptr      ? StreamLayout::kDirect.slot_bytes
                    : peer.link().traits().lands ? kLandedAtOnceBytes
                                                 : kPlacedAtOnceBytes;
    uint64_t size = std::min(most, transfer.size_bytes - transfer.moved_bytes);
    Header header{.kind = Kind::kData, .value = transfer.offer};
    const std::byte* from = transfer.from + transfer.moved_bytes;
    PutResult sent = into.memory != nullptr ? TUTTI_TRY(send_placed(peer, header, into, from, size))
                                            : TUTTI_TRY(send_payload(peer, header, from, size, !request.input_device));
    if (sent == PutResult::kFull) return moved;
    moved = true;
    transfer.moved_bytes += size;
    if (transfer.moved_bytes < transfer.size_bytes) continue;
    settle_later(lane, request, peer.puts());
    lane.flowing.erase(lane.flowing.begin());
  }
  return moved;
}

// Writes the next of what the receiver does not read itself into its memory. True when the receiver has been told that
// this is all, or that it is to read that, too, since its memory is not to be written from here. The send is done when
// the receiver has the rest.
Result<bool> PointToPoint::push_piece(Peer& peer, tutti_request& send) {
  Transfer& transfer = send.transfer;
  uint64_t size = std::min(kPushedAtOnceBytes, transfer.to_push_bytes - transfer.pushed_bytes);
  const std::byte* from = transfer.from + (transfer.size_bytes - transfer.to_push_bytes) + transfer.pushed_bytes;
  Status pushed;
  bool is_there = peer.link().begin_access();
  if (is_there) {
    pushed = peer.link().push({from, size}, transfer.address + transfer.pushed_bytes);
    is_there = peer.link().end_access();
  }
  if (!is_there) {
    return error(Code::kRemote, "rank {} gave a receive up while its memory was written", peer.rank())
        .at({.rank = -1, .peer = peer.rank(), .link = {}});
  }
  bool is_gone = pushed.code() == Code::kRemote || pushed.code() == Code::kAborted;
  if (is_gone) return pushed;
  bool is_refused = !pushed.ok();
  transfer.pushed_bytes += size;
  if (!is_refused && transfer.pushed_bytes < transfer.to_push_bytes) return false;
  Message message;
  message.kind = MessageKind::kDirect;
  message.size_bytes = is_refused ? 0 : transfer.to_push_bytes;
  auto told = TUTTI_TRY(send_one(peer, {.kind = Kind::kData, .value = transfer.offer}, message, nullptr));
  if (told == PutResult::kFull) transfer.pushed_bytes -= size;  // once more
  return told == PutResult::kDone;
}

// Where the next of a send's data go in the receiver's memory; nowhere while, or since, the link does not reach it.
Result<RemoteSlice> PointToPoint::place_of(Peer& peer, const tutti_request& send) const {
  const Transfer& transfer = send.transfer;
  if (!transfer.window) return RemoteSlice();
  const RemoteMemory* memory = peer.find(transfer.window.memory_id);
  if (memory == nullptr) return RemoteSlice();
  bool is_inside = transfer.window.offset <= memory->size_bytes &&
                   transfer.size_bytes <= memory->size_bytes - transfer.window.offset;
  if (!is_inside) {
    return error(Code::kRemote, "rank {} receives into memory that it has not shared", peer.rank())
        .at({.rank = -1, .peer = peer.rank(), .link = {}});
  }
  return RemoteSlice{memory, transfer.window.offset + transfer.moved_bytes};
}

Result<PutResult> PointToPoint::send_placed(Peer& peer, const Header& header, const RemoteSlice& into,
                                            const std::byte* from, uint64_t size_bytes) {
  SendStream& stream = peer.send_stream(channel_);
  if (!stream.has_room()) return PutResult::kFull;
  Message message;
  message.kind = MessageKind::kDirect;
  message.size_bytes = size_bytes;
  return stream.send(message, header.word(), from, into);
}

// Up to what costs less to copy twice than to make the sender wait, and as much as the receiver keeps.
bool PointToPoint::may_be_kept(const Peer& peer, uint64_t size_bytes) const {
  return size_bytes <= StreamLayout::kDirect.slot_bytes &&
         lanes_[peer.rank()].kept_there + credit_of(size_bytes) <= kMostKeptBytes;
}

// Whether the receiver reads it where it lies, if that is shared memory.
bool PointToPoint::may_be_lent(Peer& peer, uint64_t size_bytes) const {
  return size_bytes >= options_.lent_min_bytes && !memory_.empty() && peer.mapped();
}

// What fits into a slot is there before its receiver could say that he pulls.
bool PointToPoint::may_be_pulled(Peer& peer, uint64_t size_bytes) const {
  bool fits_slot = size_bytes <= StreamLayout::kDirect.slot_bytes;
  return !fits_slot && options_.messages_try_pulls && peer.mapped() && peer.link().traits().pullable;
}

// Where a device reads shared memory itself, it is told which.
Status PointToPoint::lend_to_link(Peer& peer, tutti_request& send) {
  if (send.input_device) links_.look_at_carrier(peer.rank());
  if (peer.mapped() || !peer.link().traits().places || send.input_device) return {};
  auto shared = memory_.find(send.arguments.input, send.transfer.size_bytes);
  if (!shared) return {};
  TUTTI_TRY(links_.share(shared->region, shared->data));
  shared->copy_edges_in(send.arguments.input);
  send.transfer.from = shared->data;
  return {};
}

// How the peer gets data that stay with this rank's caller until it has received them.
Result<Message> PointToPoint::offer_of(Peer& peer, const tutti_request& send,
                                       const std::optional<SharedBuffer>& shared) {
  const std::byte* data = send.arguments.input;
  Message message;
  message.size_bytes = send.transfer.size_bytes;
  message.chunk_bytes = send.transfer.offer;
  if (shared) {
    message.payload = TUTTI_TRY(links_.share(shared->region, shared->data));
    shared->copy_edges_in(data);
    message.kind = MessageKind::kReference;
  } else if (may_be_pulled(peer, message.size_bytes)) {
    message.address = reinterpret_cast<uint64_t>(data);
    message.kind = MessageKind::kPull;
  }
  return message;
}

Result<PutResult> PointToPoint::send_payload(Peer& peer, const Header& header, const std::byte* from,
                                             uint64_t size_bytes, bool in_line) {
  Message message;
  message.size_bytes = size_bytes;
  if (size_bytes == 0) return send_one(peer, header, message, nullptr);
  message.kind = size_bytes <= kInlineBytes && in_line ? MessageKind::kInline : MessageKind::kSlot;
  SendStream& stream = peer.send_stream(channel_);
  // Not only when it goes out: a slot that becomes free in between would go without its payload.
  if (!stream.has_room()) return PutResult::kFull;
  if (message.kind == MessageKind::kSlot && peer.mapped()) {
    std::byte* slot = stream.slot(size_bytes, options_.spread);
    stream.fill(PayloadOrigin::kCopied, slot, from, size_bytes, options_.spread, options_.memory_ns_per_byte);
    from = slot;
  }
  return send_one(peer, header, message, from);
}

Result<PutResult> PointToPoint::send_one(Peer& peer, const Header& header, const Message& message,
                                         const std::byte* payload) {
  SendStream& stream = peer.send_stream(channel_);
  if (!stream.has_room()) return PutResult::kFull;
  return stream.send(message, header.word(), payload);
}

}  // namespace tutti
