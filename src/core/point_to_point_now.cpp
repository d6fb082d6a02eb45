// Short messages between ranks that wait for nothing else: no request is kept for them.
#include "base/watch.h"
#include "core/direct_message.h"
#include "core/point_to_point.h"
#include "kernels/kernels.h"

namespace tutti {

PointToPoint::Now PointToPoint::run_now(tutti_request& request, bool may_watch) {
  constexpr uint32_t kMostInARow = 64;  // the other peers have something to say, too
  int rank = request.arguments.peer;
  bool is_free = rank >= 0 && !is_busy() && ++in_a_row_ < kMostInARow;
  Peer* peer = is_free ? links_.peers()[rank].get() : nullptr;
  Now came = Now::kNothing;
  if (peer != nullptr && !peer->is_broken()) {
    bool is_send = request.arguments.collective == TUTTI_SEND;
    came = is_send ? send_now(*peer, request) : receive_now(*peer, request, may_watch) ? Now::kDone : Now::kNothing;
  }
  if (came != Now::kDone) in_a_row_ = 0;
  return came;
}

PointToPoint::Now PointToPoint::send_now(Peer& peer, tutti_request& send) {
  uint64_t size = send.geometry.input_bytes;
  if (!peer.sent_all() || !may_be_kept(peer, size)) return Now::kNothing;
  if (may_be_pulled(peer, size)) return Now::kNothing;
  if (may_be_lent(peer, size) && memory_.find(send.arguments.input, size)) return Now::kNothing;
  auto sent = send_payload(peer, eager_header(send.arguments), send.arguments.input, size);
  if (!sent.ok() || *sent == PutResult::kFull) return Now::kNothing;
  Lane& lane = lanes_[peer.rank()];
  lane.kept_there += credit_of(size);
  if (peer.sent_all()) return Now::kDone;
  // The link still reads from the caller's memory.
  enter(send);
  send.transfer.peer = peer.rank();
  settle_sent(peer, send, size);
  return Now::kUnderWay;
}

void PointToPoint::await_message(Peer& peer, const RecvStream& stream, bool may_watch) {
  constexpr int kMostPolls = 8;  // some microseconds, in which an answer comes
  auto awaits = [&] { return !stream.ready() && !peer.is_broken(); };
  if (!peer.needs_poll()) {
    if (may_watch) watch_while(awaits);
    return;
  }
  for (int i = 0; i < (may_watch ? kMostPolls : 1) && awaits(); ++i) peer.poll();
}

// Takes the next message if the receive is for it, and nothing is the matter with it.
bool PointToPoint::receive_now(Peer& peer, const tutti_request& receive, bool may_watch) {
  const CallArguments& wanted = receive.arguments;
  if (inbox_.kept() > 0 || wanted.tag < 0) return false;
  RecvStream& stream = peer.recv_stream(channel_);
  await_message(peer, stream, may_watch);
  if (!stream.ready()) return false;
  const Line& line = stream.next_line();
  Message message = decode(line);
  uint64_t size = message.size_bytes;
  const std::byte* payload = payload_of(stream, message);
  bool is_wanted = Header::of(line.words[1]) == eager_header(wanted) && size <= receive.geometry.output_bytes &&
                   size <= room_of(message.kind) && (size == 0 || payload != nullptr) &&
                   size % size_of(wanted.datatype) == 0;
  uint64_t& freed = lanes_[peer.rank()].freed_here;
  if (!is_wanted || freed + credit_of(size) >= kTellFreedBytes) return false;
  if (size > 0) copy(wanted.output, payload, size, Store::kCached);
  stream.take(message.kind, nullptr, 0, Lent::kNo);
  stream.release();
  freed += credit_of(size);
  if (wanted.message != nullptr) {
    wanted.message->source = peer.rank();
    wanted.message->tag = wanted.tag;
    wanted.message->count = size / size_of(wanted.datatype);
  }
  return true;
}

}  // namespace tutti
