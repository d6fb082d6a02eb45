#include "core/point_to_point.h"

#include <algorithm>
#include <utility>

#include "base/watch.h"
#include "core/direct_message.h"

namespace tutti {

PointToPoint::PointToPoint(int rank, Links& links, MemoryRegistry& memory, const DataPathOptions& options,
                           Events events)
    : rank_(rank),
      links_(links),
      memory_(memory),
      options_(options),
      events_(std::move(events)),
      channel_(links.layout().direct_channel()),
      lanes_(links.layout().nranks) {}

bool PointToPoint::Lane::is_busy() const {
  return !unsent.empty() || !offered.empty() || !flowing.empty() || !arriving.empty() || !settling.empty();
}

bool PointToPoint::pushes_to(const Peer& peer) const {
  const auto& flowing = lanes_[peer.rank()].flowing;
  return std::any_of(flowing.begin(), flowing.end(),
                     [](const tutti_request* send) { return send->transfer.to_push_bytes > 0; });
}

void PointToPoint::enter(tutti_request& request) {
  request.transfer = {};
  in_flight_.push_back(&request);
  in_flight_.back()->transfer.position = in_flight_.size() - 1;
}

void PointToPoint::post(tutti_request& request) {
  enter(request);
  try {
    (request.arguments.collective == TUTTI_RECV) ? post_receive(request) : post_send(request);
  } catch (...) {
    withdraw(request);
    throw;
  }
}

void PointToPoint::post_receive(tutti_request& request) {
  auto kept = inbox_.take(request);
  if (!kept) return inbox_.post(request);
  Status received = receive_from(request, kept->arrival);
  if (!received.ok() && refused_.ok()) refused_ = std::move(received);
}

void PointToPoint::post_send(tutti_request& request) {
  int to = request.arguments.peer;
  request.transfer.peer = to;
  request.transfer.size_bytes = request.geometry.input_bytes;
  request.transfer.from = request.arguments.input;
  if (to == rank_) return post_to_self(request);
  if (links_.peers()[to] == nullptr && connect_to(to)) events_.ask_for_link(to);
  lanes_[to].unsent.push(request);
}

// A short message is kept, as another rank would keep it; a long one waits with its sender.
void PointToPoint::post_to_self(tutti_request& send) {
  uint64_t size = send.transfer.size_bytes;
  uint64_t& kept = lanes_[rank_].kept_there;
  bool is_short = size <= StreamLayout::kDirect.slot_bytes && kept + credit_of(size) <= kMostKeptBytes;
  if (is_short) kept += credit_of(size);
  Status arrived = arrive({.source = rank_,
                           .tag = send.arguments.tag,
                           .datatype = send.arguments.datatype,
                           .size_bytes = size,
                           .data = is_short ? send.arguments.input : nullptr,
                           .local = is_short ? nullptr : &send,
                           .window = {}});
  if (!arrived.ok()) {
    if (refused_.ok()) refused_ = std::move(arrived);
    return;
  }
  if (is_short) complete(send, {});
}

bool PointToPoint::connect_to(int rank) {
  bool is_known = std::find(connecting_.begin(), connecting_.end(), rank) != connecting_.end();
  if (is_known || links_.peers()[rank] != nullptr) return false;
  connecting_.push_back(rank);
  return true;
}

Result<Progress> PointToPoint::advance() {
  bool moved = TUTTI_TRY(connect());
  for (auto& peer : links_.peers()) {
    if (peer) moved = TUTTI_TRY(advance(*peer)) || moved;
  }
  moved = TUTTI_TRY(read()) || moved;
  if (!refused_.ok()) return refused_;
  return moved ? Progress::kMoved : Progress::kBlocked;
}

Result<bool> PointToPoint::connect() {
  if (connecting_.empty()) return false;
  Progress progress = TUTTI_TRY(links_.connect(connecting_));
  std::erase_if(connecting_, [this](int32_t rank) { return links_.peers()[rank] != nullptr; });
  return progress != Progress::kBlocked;
}

Result<bool> PointToPoint::advance(Peer& peer) {
  if (peer.needs_poll()) peer.poll();
  bool moved = TUTTI_TRY(receive(peer));
  // Who has died may have left its process id to another program, into which this rank must not push.
  if (pushes_to(peer)) peer.poll();
  if (!peer.is_broken()) moved = TUTTI_TRY(send(peer)) || moved;
  moved = settle(peer) || moved;
  // Who sleeps now would not be woken for what a link has taken since it was armed. What has left is a collective's.
  if (peer.needs_poll()) moved = (peer.take_handed() && peer.link().has_pending()) || moved;
  if (!peer.is_broken()) return moved;
  bool is_needed = lanes_[peer.rank()].is_busy() || inbox_.waits_for(peer.rank());
  return is_needed ? Result<bool>(peer.broken()) : moved;
}

void PointToPoint::watch(const tutti_request& request) const {
  int rank = request.transfer.peer >= 0 ? request.transfer.peer : request.arguments.peer;
  if (rank < 0 || !reading_.empty()) return;
  Peer* peer = links_.peers()[rank].get();
  if (peer == nullptr || peer->needs_poll() || lanes_[rank].has_data_to_send()) return;
  const RecvStream& stream = peer->recv_stream(channel_);
  watch_while([&] { return !stream.ready() && !peer->is_broken(); });
}

void PointToPoint::settle_later(Lane& lane, tutti_request& request, uint64_t puts) {
  lane.settling.push_back({&request, puts});
  request.transfer.settles = true;
}

// Of a send whose only message the link has just taken.
void PointToPoint::settle_sent(Peer& peer, tutti_request& send, uint64_t size_bytes) {
  bool is_line = size_bytes <= kInlineBytes;
  settle_later(lanes_[peer.rank()], send, is_line ? peer.puts() + 1 : peer.puts());
}

// Completes what only waited for the link: the peer then has all that it waits for, also if this rank does not come
// back for long.
bool PointToPoint::settle(Peer& peer) {
  Lane& lane = lanes_[peer.rank()];
  if (lane.settling.empty()) return false;
  bool all_answered = lane.answers.empty() && peer.told_all();
  bool all_sent = peer.sent_all();
  bool moved = false;
  for (size_t i = 0; i < lane.settling.size();) {
    Settling& each = lane.settling[i];
    // What follows a payload has left when a later one has.
    if (each.puts == 0 && all_answered) each.puts = peer.puts() + 1;
    bool is_settled = each.puts != 0 && (all_sent || peer.puts_completed() >= each.puts);
    if (!is_settled) {
      ++i;
      continue;
    }
    tutti_request& request = *each.request;
    lane.settling.erase(lane.settling.begin() + static_cast<std::ptrdiff_t>(i));
    complete(request, {});
    moved = true;
  }
  return moved;
}

// Forgets a request that it could not take.
void PointToPoint::withdraw(tutti_request& request) {
  size_t position = request.transfer.position;
  in_flight_[position] = in_flight_.back();
  in_flight_[position]->transfer.position = position;
  in_flight_.pop_back();
}

void PointToPoint::complete(tutti_request& request, Status result) {
  withdraw(request);
  const CallArguments& arguments = request.arguments;
  if (auto placed = std::exchange(request.transfer.placed, std::nullopt)) {
    links_.let_go(placed->region.key);
    if (result.ok()) placed->copy_edges_out(arguments.output);
  }
  if (Window landing = std::exchange(request.transfer.landing, {})) {
    links_.land_no_more(landing, request.transfer.peer);
  }
  if (result.ok() && arguments.message != nullptr) {
    arguments.message->source = request.transfer.peer;
    arguments.message->count = request.transfer.size_bytes / size_of(arguments.datatype);
  }
  events_.complete(request, std::move(result));  // its owner may free it from here on
}

void PointToPoint::fail_all(const Status& why) {
  inbox_.clear();
  lanes_.assign(lanes_.size(), Lane());
  connecting_.clear();
  reading_.clear();
  while (!in_flight_.empty()) complete(*in_flight_.back(), why);
}

uint64_t PointToPoint::sent_to(int rank) const {
  const auto& peer = links_.peers()[rank];
  return peer == nullptr ? 0 : peer->send_stream(channel_).sent();
}

uint64_t PointToPoint::taken_from(int rank) const {
  const auto& peer = links_.peers()[rank];
  return peer == nullptr ? 0 : peer->recv_stream(channel_).taken();
}

}  // namespace tutti
