// What comes to this rank point-to-point, and the data that receives read themselves.
#include <algorithm>
#include <bit>

#include "core/direct_message.h"
#include "core/point_to_point.h"
#include "kernels/kernels.h"

namespace tutti {

Result<bool> PointToPoint::receive(Peer& peer) {
  RecvStream& stream = peer.recv_stream(channel_);
  bool moved = false;
  // Not for ever: a peer that sends as fast as this rank takes must not keep it from the rest.
  for (int i = 0; i < StreamLayout::kDirect.slots && stream.ready(); ++i) {
    const Line& line = stream.next_line();
    Message message = decode(line);
    TUTTI_TRY(take(peer, Header::of(line.words[1]), message, payload_of(stream, message)));
    stream.take(message.kind, nullptr, 0, Lent::kNo);
    stream.release();
    moved = true;
  }
  return moved;
}

Status PointToPoint::take(Peer& peer, const Header& header, const Message& message, const std::byte* payload) {
  int from = peer.rank();
  Lane& lane = lanes_[from];
  uint64_t room = payload == nullptr ? 0 : room_of(message.kind);
  switch (header.kind) {
    case Kind::kEager:
    case Kind::kOffer: {
      bool is_offer = header.kind == Kind::kOffer;
      auto offer = static_cast<uint32_t>(message.chunk_bytes);
      bool well_formed = is_valid(header.datatype) && message.size_bytes % size_of(header.datatype) == 0 &&
                         static_cast<int32_t>(header.value) >= 0 &&
                         (is_offer ? offer != 0 && offer == message.chunk_bytes : message.size_bytes <= room);
      if (!well_formed) break;
      if (!is_offer) lane.kept_here += credit_of(message.size_bytes);
      if (lane.kept_here + lane.freed_here > kMostKeptBytes) break;
      return arrive({.source = from,
                     .tag = static_cast<int32_t>(header.value),
                     .datatype = header.datatype,
                     .size_bytes = message.size_bytes,
                     .data = is_offer ? nullptr : payload,
                     .offer = is_offer ? offer : 0,
                     .window = message.kind == MessageKind::kReference ? message.payload : Window(),
                     .address = message.kind == MessageKind::kPull ? message.address : 0});
    }
    case Kind::kClear:
      if (take_clear(peer, header.value, message)) return {};
      break;
    case Kind::kTaken:
      if (find(lane.flowing, header.value) != nullptr) break;
      if (tutti_request* send = remove(peer, &Lane::offered, header.value)) {
        settle_later(lane, *send);
        return {};
      }
      break;
    case Kind::kData:
      if (message.size_bytes > room && message.kind != MessageKind::kDirect) break;
      return take_data(peer, header.value, message, payload);
    case Kind::kCredit:
      if (message.size_bytes > lane.kept_there) break;
      lane.kept_there -= message.size_bytes;
      return {};
  }
  return error(Code::kRemote, "rank {} sent a malformed point-to-point message (kind {}, {} bytes)", from,
               static_cast<int>(header.kind), message.size_bytes)
      .at({.rank = -1, .peer = from, .link = {}});
}

// The request with that number of the sender; null when there is none.
tutti_request* PointToPoint::find(const std::vector<tutti_request*>& requests, uint32_t offer) {
  auto found = std::find_if(requests.begin(), requests.end(),
                            [offer](const tutti_request* request) { return request->transfer.offer == offer; });
  return found == requests.end() ? nullptr : *found;
}

// The same, which then is no more `where` it was.
tutti_request* PointToPoint::remove(Peer& peer, Where where, uint32_t offer) {
  auto& requests = lanes_[peer.rank()].*where;
  tutti_request* request = find(requests, offer);
  if (request != nullptr) std::erase(requests, request);
  return request;
}

// False when there is no such offer, or not that much of it. A send of which the receiver reads a part stays an offer
// until that is taken.
bool PointToPoint::take_clear(Peer& peer, uint32_t offer, const Message& message) {
  Lane& lane = lanes_[peer.rank()];
  tutti_request* send = find(lane.offered, offer);
  if (send == nullptr || send->transfer.to_push_bytes > 0) return false;
  if (message.size_bytes == 0) {
    std::erase(lane.offered, send);
    send->transfer.window = message.output;
  } else {
    uint64_t size = send->transfer.size_bytes;
    if (message.size_bytes > size || !may_be_pulled(peer, size)) return false;
    send->transfer.to_push_bytes = message.size_bytes;
    send->transfer.address = message.payload.offset;
  }
  lane.flowing.push_back(send);
  return true;
}

Status PointToPoint::take_data(Peer& peer, uint32_t offer, const Message& message, const std::byte* payload) {
  uint64_t size_bytes = message.size_bytes;
  bool is_placed = message.kind == MessageKind::kDirect;
  tutti_request* receive = find(lanes_[peer.rank()].arriving, offer);
  auto is_asked_for = [&](const Transfer& transfer) {
    bool is_half = transfer.to_push_bytes > 0 && transfer.pushed_bytes == 0;
    if (is_half) return is_placed && (size_bytes == transfer.to_push_bytes || size_bytes == 0);
    if (transfer.pushed_bytes > 0) return false;
    return (!is_placed || transfer.has_place()) && size_bytes <= transfer.size_bytes - transfer.moved_bytes;
  };
  if (receive == nullptr || !is_asked_for(receive->transfer)) {
    return error(Code::kRemote, "rank {} sent data that nobody asked for", peer.rank())
        .at({.rank = -1, .peer = peer.rank(), .link = {}});
  }
  Transfer& transfer = receive->transfer;
  if (transfer.to_push_bytes > 0) {
    take_pushed(*receive, size_bytes);
    return {};
  }
  Store way = transfer.size_bytes >= options_.streaming_min_bytes ? Store::kStreaming : Store::kCached;
  if (!is_placed) TUTTI_TRY(store(*receive, transfer.moved_bytes, payload, size_bytes, way));
  transfer.moved_bytes += size_bytes;
  if (transfer.moved_bytes == transfer.size_bytes) end_receive(*receive);
  return {};
}

// The sender has pushed its half; or, when nothing, it cannot write there: then this rank reads that half, too.
void PointToPoint::take_pushed(tutti_request& receive, uint64_t size_bytes) {
  Transfer& transfer = receive.transfer;
  if (size_bytes == 0) {
    std::erase(lanes_[transfer.peer].arriving, &receive);
    transfer.to_push_bytes = 0;
    bool is_read = std::find(reading_.begin(), reading_.end(), &receive) != reading_.end();
    if (!is_read) reading_.push_back(&receive);
    return;
  }
  transfer.pushed_bytes = size_bytes;
  if (transfer.received_bytes() == transfer.size_bytes) end_receive(receive);
}

// All of its data are here. A sender that had them read does not know yet.
void PointToPoint::end_receive(tutti_request& receive) {
  const Transfer& transfer = receive.transfer;
  Lane& lane = lanes_[transfer.peer];
  end_trial(transfer);
  std::erase(lane.arriving, &receive);
  if (transfer.window || transfer.address != 0) lane.answers.push_back({Kind::kTaken, transfer.offer});
  settle_later(lane, receive);
}

Status PointToPoint::arrive(const Arrival& arrival) {
  if (tutti_request* receive = inbox_.match(arrival)) return receive_from(*receive, arrival);
  inbox_.keep(arrival);
  return {};
}

// The message is for this receive.
Status PointToPoint::receive_from(tutti_request& receive, const Arrival& arrival) {
  TUTTI_TRY(fits(receive, arrival));
  Lane& lane = lanes_[arrival.source];
  Transfer& transfer = receive.transfer;
  transfer.peer = arrival.source;
  transfer.size_bytes = arrival.size_bytes;
  transfer.offer = arrival.offer;
  transfer.window = arrival.window;
  transfer.address = arrival.address;
  if (receive.arguments.message != nullptr) receive.arguments.message->tag = arrival.tag;
  if (arrival.offer != 0 && arrival.size_bytes == 0) {
    lane.answers.push_back({Kind::kTaken, arrival.offer});
    settle_later(lane, receive);
    return {};
  }
  if (arrival.offer != 0) {
    bool may_ask = options_.messages_try_pulls && arrival.address != 0;
    if (may_ask) follow_trials(receive);
    bool readable = arrival.window || transfer.address != 0;
    (readable ? reading_ : lane.arriving).push_back(&receive);
    if (!readable) lane.answers.push_back({Kind::kClear, arrival.offer, TUTTI_TRY(place_for(receive))});
    if (transfer.to_push_bytes > 0) {
      lane.arriving.push_back(&receive);
      auto end = reinterpret_cast<uint64_t>(receive.arguments.output) + transfer.size_bytes;
      uint64_t size = transfer.to_push_bytes;
      lane.answers.push_back({Kind::kClear, arrival.offer, {}, size, end - size});
    }
    return {};
  }
  const std::byte* from = arrival.local != nullptr ? arrival.local->arguments.input : arrival.data;
  if (arrival.size_bytes > 0) TUTTI_TRY(store(receive, 0, from, arrival.size_bytes, Store::kCached));
  if (arrival.local != nullptr) {
    complete(*arrival.local, {});
    complete(receive, {});
    return {};
  }
  no_longer_kept(arrival.source, arrival.size_bytes);
  if (arrival.source == rank_) {
    complete(receive, {});
  } else {
    settle_later(lane, receive);
  }
  return {};
}

// The data of a receive come from the sender's memory, or from it when it is asked, or half this and half that way at
// once. Beside others of its sender a message takes as long as those let it, so it goes the way that was quickest, and
// shows nothing.
void PointToPoint::follow_trials(tutti_request& receive) {
  Transfer& transfer = receive.transfer;
  const PullTrials& pulls = trials_of(transfer);
  auto is_of_sender = [&](const tutti_request* each) { return each->transfer.peer == transfer.peer; };
  bool is_alone = lanes_[transfer.peer].arriving.empty() &&
                  std::none_of(reading_.begin(), reading_.end(), is_of_sender);
  if (is_alone) transfer.tried_since = Clock::now();
  DataWay way = is_alone ? pulls.way() : pulls.preferred();
  if (way == DataWay::kSlots) transfer.address = 0;
  if (way == DataWay::kHalves) transfer.to_push_bytes = transfer.size_bytes / 2 / kPageBytes * kPageBytes;
}

// All of a receive's data that was to be tried are here.
void PointToPoint::end_trial(const Transfer& transfer) {
  if (!transfer.tried_since) return;
  trials_of(transfer).took(Clock::now() - *transfer.tried_since, transfer.size_bytes);
}

PullTrials& PointToPoint::trials_of(const Transfer& transfer) {
  const std::pair key(transfer.peer, static_cast<int>(std::bit_width(transfer.size_bytes)));
  auto at = pulls_.lower_bound(key);
  if (at != pulls_.end() && at->first == key) return at->second;
  bool has_smaller = at != pulls_.begin() && std::prev(at)->first.first == transfer.peer;
  DataWay most = options_.messages_try_halves ? DataWay::kHalves : DataWay::kPulled;
  PullTrials trials = has_smaller ? PullTrials(transfer.size_bytes, std::prev(at)->second)
                                  : PullTrials(transfer.size_bytes, DataWay::kSlots, most);
  return pulls_.emplace_hint(at, key, trials)->second;
}

// Where the sender's puts of a receive's data land, if they can land in the caller's memory.
Result<Window> PointToPoint::place_for(tutti_request& receive) {
  Transfer& transfer = receive.transfer;
  Peer& peer = *links_.peers()[transfer.peer];
  LinkTraits traits = peer.link().traits();
  if (traits.lands && !receive.output_device) {
    return transfer.landing = links_.land_in({receive.arguments.output, transfer.size_bytes}, transfer.peer);
  }
  if (peer.mapped() || !traits.places) return Window();
  if (receive.output_device) {
    transfer.is_on_device = true;
    links_.look_at_carrier(transfer.peer);
    return links_.share_device_memory(transfer.peer, receive.output_device->memory(), receive.arguments.output,
                                      receive.output_device->told());
  }
  auto shared = memory_.find(receive.arguments.output, transfer.size_bytes, {.use = Use::kWrite});
  if (!shared) return Window();
  Window window = TUTTI_TRY(links_.share(shared->region, shared->data));
  links_.hold(shared->region.key);
  transfer.placed = std::move(shared);
  return window;
}

Status PointToPoint::store(const tutti_request& receive, uint64_t offset, const std::byte* from, uint64_t size_bytes,
                           Store store) {
  std::byte* buffer = receive.transfer.placed ? receive.transfer.placed->data : receive.arguments.output;
  if (receive.output_device) return receive.output_device->region().write(buffer + offset, {from, size_bytes});
  copy(buffer + offset, from, size_bytes, store);
  return {};
}

void PointToPoint::no_longer_kept(int source, uint64_t size_bytes) {
  Lane& lane = lanes_[source];
  if (source == rank_) {
    lane.kept_there -= credit_of(size_bytes);
  } else {
    lane.kept_here -= credit_of(size_bytes);
    lane.freed_here += credit_of(size_bytes);
  }
}

// What does not fit would be cut, or taken for something else.
Status PointToPoint::fits(const tutti_request& receive, const Arrival& arrival) const {
  const CallArguments& wanted = receive.arguments;
  if (arrival.datatype == wanted.datatype && arrival.size_bytes <= receive.geometry.output_bytes) return {};
  return error(Code::kInvalidUsage,
               "rank {} sent {} {} with tag {} to rank {}, which receives up to {} {}; both must name one datatype, "
               "and there must be room for the whole message",
               arrival.source, arrival.size_bytes / size_of(arrival.datatype), name_of(arrival.datatype), arrival.tag,
               rank_, wanted.count, name_of(wanted.datatype));
}

// Goes on with the receives that read from their senders' memory, a piece of each.
Result<bool> PointToPoint::read() {
  bool moved = false;
  for (size_t i = 0; i < reading_.size();) {
    tutti_request& receive = *reading_[i];
    moved = TUTTI_TRY(read_piece(receive)) || moved;
    const Transfer& transfer = receive.transfer;
    if (transfer.moved_bytes < transfer.size_bytes - transfer.to_push_bytes) {
      ++i;
      continue;
    }
    reading_.erase(reading_.begin() + static_cast<std::ptrdiff_t>(i));
    if (transfer.received_bytes() == transfer.size_bytes) end_receive(receive);
    TUTTI_TRY(advance(*links_.peers()[transfer.peer]));
  }
  return moved;
}

Result<bool> PointToPoint::read_piece(tutti_request& receive) {
  Transfer& transfer = receive.transfer;
  Peer& lender = *links_.peers()[transfer.peer];
  ErrorPlace place{.rank = -1, .peer = lender.rank(), .link = {}};
  uint64_t size = std::min(kReadAtOnceBytes, transfer.size_bytes - transfer.to_push_bytes - transfer.moved_bytes);
  std::byte* to = receive.arguments.output + transfer.moved_bytes;
  const std::byte* from = nullptr;
  if (transfer.window) {
    const RemoteMemory* memory = lender.link().find(transfer.window.memory_id);
    if (memory == nullptr) {  // under way, unless it could not be mapped here
      lender.poll();
      if (lender.is_broken()) return lender.broken();
      return false;
    }
    bool inside = memory->mapped != nullptr && transfer.window.offset <= memory->size_bytes &&
                  transfer.size_bytes <= memory->size_bytes - transfer.window.offset;
    if (!inside) {
      return error(Code::kRemote, "rank {} refers to memory that it has not shared", lender.rank()).at(place);
    }
    from = memory->mapped + transfer.window.offset + transfer.moved_bytes;
  }
  Status pulled;
  bool is_there = lender.link().begin_access();
  if (is_there && from != nullptr) {
    bool is_large = transfer.size_bytes >= options_.streaming_min_bytes;
    copy(to, from, size, is_large ? Store::kStreaming : Store::kCached);
  } else if (is_there) {
    pulled = lender.link().pull({to, size}, transfer.address + transfer.moved_bytes);
  }
  is_there = is_there && lender.link().end_access();
  if (!is_there) {
    return error(Code::kRemote, "rank {} gave a send up while its memory was read", lender.rank()).at(place);
  }
  TUTTI_TRY(std::move(pulled));
  transfer.moved_bytes += size;
  return true;
}

}  // namespace tutti
