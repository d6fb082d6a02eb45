// Which lane of a verbs link takes what: each channel of a plan has its own, so that the planner decides what goes over
// which device. And what happens when one of them fails: it is shut, what had come over it before is taken, and each
// end tells the other how many messages have come. Only then does nothing of the lane reach the peer's memory any more,
// and what the peer has not received goes over the lanes that are left, or, where none is, over the connection by which
// the ends met. The receiver puts messages in order by their numbers.
#include <algorithm>

#include "base/log.h"
#include "transports/verbs/link.h"

namespace tutti {
namespace {

constexpr int64_t kGraceMs = 100;  // in which the end of a peer turns out to be the cause of an error
constexpr int kSilenceMs = 25'000;  // as long as a connection without traffic lasts when its peer is gone

// What decides between lanes. Short messages alone stay on a channel's lane, or on the first one of none's, so that few
// queues are looked at.
constexpr uint64_t kLoadBytes = 32 * 1024;
uint64_t load_of(const VerbsLane& lane) { return lane.sender().queued_bytes() / kLoadBytes; }

// A channel keeps to its lane until that is behind another one by half of what its slots hold: then the devices are not
// equally fast, or the plan has fewer channels than there are lanes.
constexpr uint64_t kMostBehind = 512 * 1024 / kLoadBytes;

}  // namespace

// Of no channel: the one with the least on its way.
template <typename May>
VerbsLane* VerbsLink::lane_of(int channel, May&& may) {
  auto is_in_use = [](const VerbsLane* lane) { return lane->is_in_use(); };
  auto in_use = std::count_if(lanes_.begin(), lanes_.end(), is_in_use);
  auto turn = channel == kNoChannel || in_use == 0 ? -1 : channel % in_use;
  VerbsLane* least = nullptr;
  VerbsLane* own = nullptr;
  for (VerbsLane* lane : lanes_) {
    if (!lane->is_in_use()) continue;
    bool is_own = turn-- == 0;
    if (!may(*lane)) continue;
    if (is_own) own = lane;
    if (least == nullptr || load_of(*lane) < load_of(*least)) least = lane;
  }
  return own != nullptr && load_of(*own) <= load_of(*least) + kMostBehind ? own : least;
}

// What was composed in a lane's memory leaves by it.
VerbsLane* VerbsLink::lane_for(std::span<const std::byte> from, int channel) {
  auto may_send = [](const VerbsLane& lane) { return lane.sender().may_send(); };
  for (VerbsLane* lane : lanes_) {
    bool is_staged = lane->is_in_use() && lane->memory().stage_at(from.data()) < kStages;
    if (is_staged) return may_send(*lane) ? lane : nullptr;
  }
  return lane_of(channel, may_send);
}

std::byte* VerbsLink::stage(size_t size_bytes, int channel) {
  VerbsLane* lane = lane_of(channel, [](const VerbsLane&) { return true; });
  return lane == nullptr ? nullptr : lane->sender().stage(size_bytes);
}

Result<bool> VerbsLink::take_completions() {
  gather_news();  // messages may not name what is this rank's no more
  bool any = false;
  Status status;
  visit_live([&](VerbsLane& lane) {
    if (!status.ok()) return;
    auto taken = lane.take_completions([this](const MessageHead& head, std::span<const std::byte> rest) -> Status {
      if (head.kind == MessageHead::Kind::kProbe) return check_probe();
      if (head.kind == MessageHead::Kind::kLost) {
        // While lanes are still being made, it is heard beside them.
        if (stage_ != Stage::kDone) return {};
        return take_lost({.lane = static_cast<uint8_t>(std::min<uint32_t>(head.signal_memory, UINT8_MAX)),
                          .received = head.signal_offset});
      }
      return head.kind == MessageHead::Kind::kCredit ? Status() : receiver_.take(head, rest);
    });
    status = taken.status();
    any = any || (taken.ok() && *taken);
  });
  TUTTI_TRY(std::move(status));
  TUTTI_TRY(take_news());
  for (VerbsLane* lane : lanes_) {
    if (!lane->is_in_use() || !lane->broken()) continue;
    lose(*lane);
    any = true;
  }
  return any;
}

void VerbsLink::lose(VerbsLane& lane) {
  lane.shut();
  last_lost_ = &lane;
  if (!has_lost_all()) return;
  // Without this a host that is gone would be noticed by the call's deadline only: what is said now would be sent again
  // and again.
  if (shared_.options.goes_over_tcp) side_->bound_silence(kSilenceMs);
  else if (!lost_all_) lost_all_ = Deadline::after_ms(kGraceMs);
}

bool VerbsLink::has_lost_all() const {
  return std::none_of(lanes_.begin(), lanes_.end(), [](const VerbsLane* each) { return each->is_in_use(); });
}

bool VerbsLink::is_all_over() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const VerbsLane* each) { return each->state() == VerbsLane::State::kOver; });
}

void VerbsLink::go_over_tcp() {
  is_over_tcp_ = true;
  side_->bound_silence(0);  // from now on a peer may be busy elsewhere while data waits for it
  log_warn("rank {} is reached over tcp from now on, since no queue pair is left: {}", peer(),
           last_lost_->broken()->what);
}

Status VerbsLink::take_lost(const SideLost& lost) {
  if (lost.lane >= lanes_.size() || lanes_[lost.lane]->peer_received.value_or(lost.received) != lost.received) {
    return error(Code::kRemote, "the peer broke the protocol");
  }
  VerbsLane& lane = *lanes_[lost.lane];
  if (lane.peer_received) return {};
  lane.peer_received = lost.received;
  lane.note_lost_by_peer();
  if (lane.is_in_use()) lose(lane);
  return {};
}

Result<bool> VerbsLink::advance_losses() {
  bool moved = false;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    VerbsLane& lane = *lanes_[i];
    if (lane.state() == VerbsLane::State::kShut && lane.is_drained()) {
      SideLost lost{.lane = static_cast<uint8_t>(i), .received = lane.received()};
      TUTTI_TRY(side_->send(lost));
      for (VerbsLane* other : lanes_) {
        if (other->is_in_use()) untold_.push_back({other, lost});
      }
      lane.set_state(VerbsLane::State::kTold);
      moved = true;
    }
    if (lane.state() == VerbsLane::State::kTold && lane.peer_received) {
      auto owed = TUTTI_TRY(lane.sender().take_owed(*lane.peer_received));
      owed_.insert(owed_.end(), owed.begin(), owed.end());
      lane.set_state(VerbsLane::State::kOver);
      // Only now, since a peer that has died is another matter.
      if (!has_lost_all()) log_warn("rank {} is reached over one queue pair less: {}", peer(), lane.broken()->what);
      moved = true;
    }
  }
  tell_losses();
  if (is_all_over() && !is_over_tcp_) go_over_tcp();
  return TUTTI_TRY(send_owed()) || moved;
}

// The connection may run over the network that has failed.
void VerbsLink::tell_losses() {
  std::erase_if(untold_, [](const Untold& each) {
    MessageHead head{.kind = MessageHead::Kind::kLost,
                     .signal_memory = each.lost.lane,
                     .signal_offset = each.lost.received};
    return !each.over->is_in_use() || each.over->sender().signal(head, Line()) == PutResult::kDone;
  });
}

Result<bool> VerbsLink::send_owed() {
  bool moved = false;
  for (; !owed_.empty(); owed_.pop_front()) {
    VerbsLane* lane = lane_for({});
    if (lane == nullptr && !is_over_tcp_) return moved;
    const Owed& next = owed_.front();
    auto to = remote_.find(next.head.payload_memory);
    bool is_put = next.put != 0 && to != remote_.end();  // else it was taken back, and nobody wants it any more
    PutResult sent;
    if (is_over_tcp_) {
      auto payload = is_put ? next.payload : next.payload.first(next.head.payload_bytes);
      sent = TUTTI_TRY(send_beside(next.head, next.line, payload, is_put ? next.put : 0));
    } else if (is_put) {
      RemoteRange place = place_on(*lane, to->second.range, next.head.payload_offset);
      sent = lane->sender().put(place, payload_on(*lane, next.payload), next.head, next.line, next.put);
    } else {
      auto in_message = next.payload.first(next.head.payload_bytes);
      sent = lane->sender().signal(next.head, next.line, in_message);
    }
    if (sent == PutResult::kFull) return moved;
    moved = true;
  }
  return moved;
}

Result<PutResult> VerbsLink::send_alone(const MessageHead& head, const Line& line) {
  if (is_over_tcp_) return send_beside(head, line, {}, 0);
  VerbsLane* lane = lane_for({});
  return lane == nullptr ? PutResult::kFull : lane->sender().signal(head, line);
}

Result<PutResult> VerbsLink::send_beside(const MessageHead& head, const Line& line, std::span<const std::byte> payload,
                                         uint64_t put) {
  SideData data{.head = head, .line = line};
  data.head.payload_bytes = 0;  // it follows, whatever its size
  const VerbsExports::Source* source = payload.empty() ? nullptr : source_of(payload);
  return side_->send_data(data, payload, put, source == nullptr ? nullptr : source->device);
}

// The peer goes over to the connection when both ends have told what came over the last lane.
Status VerbsLink::begin_arriving(const SideData& data) {
  bool all_told = std::all_of(lanes_.begin(), lanes_.end(),
                              [](const VerbsLane* each) { return each->state() >= VerbsLane::State::kTold; });
  if (!all_told || data.head.number == 0) return error(Code::kRemote, "the peer broke the protocol");
  arriving_to_ = TUTTI_TRY(receiver_.place_for(data.head, data.payload_bytes));
  arriving_ = data;
  return {};
}

Result<bool> VerbsLink::receive_arriving() {
  if (arriving_to_.device == nullptr) return side_->receive_payload(arriving_to_.bytes);
  arrived_.resize(kBlockBytes);
  while (!arriving_to_.bytes.empty()) {
    auto piece = std::span(arrived_).first(std::min(arrived_.size(), arriving_to_.bytes.size()));
    auto missing = piece;
    bool has_all = TUTTI_TRY(side_->receive_payload(missing));
    TUTTI_TRY(arriving_to_.store(piece.first(piece.size() - missing.size())));
    if (!has_all) return false;
  }
  return true;
}

}  // namespace tutti
