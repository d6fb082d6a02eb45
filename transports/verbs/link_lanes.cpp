// Which lane of a verbs link takes what, and what happens when one of them fails: it is shut, what had come over it
// before is taken, and each end tells the other how many messages have come. Only then does nothing of the lane reach
// the peer's memory any more, and what the peer has not received goes over the lanes that are left. The receiver puts
// messages in order by their numbers.
#include <algorithm>

#include "base/log.h"
#include "transports/verbs/link.h"

namespace tutti {
namespace {

constexpr int64_t kGraceMs = 100;  // in which the end of a peer turns out to be the cause of an error

// What decides between lanes. Short messages alone stay on the first one, so that one queue is looked at, not several.
uint64_t load_of(const VerbsLane& lane) { return lane.sender().queued_bytes() / (32 * 1024); }

}  // namespace

// The one with the least on its way. nullptr: there is no room. What was composed in a lane's memory leaves by it.
VerbsLane* VerbsLink::lane_for(std::span<const std::byte> from) {
  VerbsLane* best = nullptr;
  for (VerbsLane* lane : lanes_) {
    if (!lane->is_in_use()) continue;
    bool takes = lane->sender().may_send();
    if (lane->memory().stage_at(from.data()) < kStages) return takes ? lane : nullptr;
    if (takes && (best == nullptr || load_of(*lane) < load_of(*best))) best = lane;
  }
  return best;
}

std::byte* VerbsLink::stage(size_t size_bytes) {
  VerbsLane* best = nullptr;
  for (VerbsLane* lane : lanes_) {
    if (lane->is_in_use() && (best == nullptr || load_of(*lane) < load_of(*best))) best = lane;
  }
  return best == nullptr ? nullptr : best->sender().stage(size_bytes);
}

Result<bool> VerbsLink::take_completions() {
  bool any = false;
  Status status;
  visit_live([&](VerbsLane& lane) {
    if (!status.ok()) return;
    auto taken = lane.take_completions([this](const MessageHead& head, std::span<const std::byte> rest) -> Status {
      if (head.kind == MessageHead::Kind::kProbe) return check_probe();
      return head.kind == MessageHead::Kind::kCredit ? Status() : receiver_.take(head, rest);
    });
    status = taken.status();
    any = any || (taken.ok() && *taken);
  });
  TUTTI_TRY(std::move(status));
  take_news();
  for (VerbsLane* lane : lanes_) {
    if (lane->is_in_use() && lane->broken()) lose(*lane);
  }
  return any;
}

void VerbsLink::lose(VerbsLane& lane) {
  lane.shut();
  last_lost_ = &lane;
  bool any_left = std::any_of(lanes_.begin(), lanes_.end(), [](const VerbsLane* each) { return each->is_in_use(); });
  if (!any_left && !lost_all_) lost_all_ = Deadline::after_ms(kGraceMs);
}

Status VerbsLink::take_lost(const SideLost& lost) {
  if (lost.lane >= lanes_.size() || lanes_[lost.lane]->peer_received) {
    return error(Code::kRemote, "the peer broke the protocol");
  }
  VerbsLane& lane = *lanes_[lost.lane];
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
      TUTTI_TRY(side_->send(SideLost{.lane = static_cast<uint8_t>(i), .received = lane.received()}));
      lane.set_state(VerbsLane::State::kTold);
      moved = true;
    }
    if (lane.state() == VerbsLane::State::kTold && lane.peer_received) {
      auto owed = TUTTI_TRY(lane.sender().take_owed(*lane.peer_received));
      owed_.insert(owed_.end(), owed.begin(), owed.end());
      lane.set_state(VerbsLane::State::kOver);
      // Only now, since a peer that has died is another matter.
      log_warn("rank {} is reached over one queue pair less: {}", peer(), lane.broken()->what);
      moved = true;
    }
  }
  return TUTTI_TRY(send_owed()) || moved;
}

Result<bool> VerbsLink::send_owed() {
  bool moved = false;
  for (; !owed_.empty(); owed_.pop_front()) {
    VerbsLane* lane = lane_for({});
    if (lane == nullptr) return moved;
    const Owed& next = owed_.front();
    auto to = remote_.find(next.head.payload_memory);
    bool is_put = next.put != 0 && to != remote_.end();  // else it was taken back, and nobody wants it any more
    PutResult sent;
    if (is_put) {
      RemoteRange place = place_on(*lane, to->second.range, next.head.payload_offset);
      auto registration = registration_of(*lane, next.payload);
      sent = TUTTI_TRY(lane->sender().put(place, next.payload, registration, next.head, next.line, next.put));
    } else {
      auto in_message = next.payload.first(next.head.payload_bytes);
      sent = TUTTI_TRY(lane->sender().signal(next.head, next.line, in_message));
    }
    if (sent == PutResult::kFull) return moved;
    moved = true;
  }
  return moved;
}

}  // namespace tutti
