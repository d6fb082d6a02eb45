// The interpreter's part in calls that are made again: it notes what they do, and leaves that when something else
// comes.
#include <algorithm>

#include "executor/channel_run.h"

namespace tutti {
// What walks do not: functions of the program, wide partial results, stores past the caches, sizes of blocks of which a
// message carries a part, memory where puts land in this call alone, and payloads that come there by this end's word.
bool ChannelRun::may_repeat() const {
  bool has_function = call_->own_op != nullptr && call_->own_op->function != nullptr;
  bool is_plain_call = !has_function && growth_ == 1 && !call_->streams && !with_counts_ && !call_->landing;
  return one_slice_ && is_plain_call && !diverts_ && program_->ops.size() < frames_.size();
}

void ChannelRun::note_repeat() {
  repeat_.begin_call(call_->options.spread);
  repeat_of_ = starts_;
  bool repeats = may_repeat();
  for (const ProgramSection& section : program_->sections) {
    for (uint32_t round = 0; repeats && round <= section.most_lag; ++round) repeats = note_round(section, round);
  }
  if (!repeats) repeat_.clear();
}

// Of one slice, an op runs in the round that is its lag.
bool ChannelRun::note_round(const ProgramSection& section, uint32_t round) {
  for (uint32_t i = section.ops.first; i < section.ops.first + section.ops.count; ++i) {
    const Op& op = program_->ops[i];
    if (op.lag != round) continue;
    frame_ = &frame_of(op);
    repeat_.begin_op(i);
    bool repeats = frame_->stays_in == starts_ && (op.kind == OpKind::kWait ? note_wait(op) : note_compute(op));
    if (!repeats) return false;
  }
  return true;
}

bool ChannelRun::note_wait(const Op& op) {
  const Message& message = frame_->message;
  Peer& from = peer(op.peer);
  RecvStream& stream = from.recv_stream(channel_);
  const std::byte* lent = nullptr;
  if (message.kind == MessageKind::kPull) return false;
  if (message.kind == MessageKind::kReference) {
    const RemoteMemory* memory = from.find(message.payload.memory_id);
    if (memory == nullptr) return false;
    lent = memory->mapped + message.payload.offset;
  }
  repeat_.receive(from, stream, message, lent, frame_->into);
  if (op.release) repeat_.release(stream);
  return true;
}

bool ChannelRun::note_compute(const Op& op) {
  Frame& frame = *frame_;
  // A payload that the link reads from here is another one in every call.
  auto is_put = [](const Delivery& delivery) {
    return delivery.payload != nullptr && delivery.kind != MessageKind::kReference;
  };
  if (std::any_of(frame.deliveries.begin(), frame.deliveries.end(), is_put)) return false;
  auto to_peer = [&](uint32_t i) -> Peer& { return peer(program_->sends[op.sends.first + i].peer); };
  for (uint32_t i = 0; i < op.sends.count; ++i) repeat_.await_room(to_peer(i), to_peer(i).send_stream(channel_));
  for (uint32_t i = 0; i < op.sources.count; ++i) {
    const Operand& operand = program_->operands[op.sources.first + i];
    if (operand.space == Space::kArrival) repeat_.find(&frame.sources[i], peer(operand.index).recv_stream(channel_));
  }
  auto size_bytes = static_cast<uint32_t>(frame.value_bytes);
  for (uint32_t i = 0, slot = op.destinations.count; i < op.sends.count; ++i) {
    const Delivery& delivery = frame.deliveries[i];
    SendStream& to = to_peer(i).send_stream(channel_);
    if (delivery.kind == MessageKind::kCommon) repeat_.share_with(to);
    if (delivery.store_to == nullptr) continue;
    std::byte** place = &frame.destinations[slot++];
    bool is_slot = delivery.kind == MessageKind::kSlot;
    if (is_slot) repeat_.find_slot(place, to, size_bytes, frame.origin);
  }
  if (frame.common != nullptr) {
    repeat_.find_common(&frame.destinations.back(), *common_slots(), size_bytes, frame.origin);
  }
  if (size_bytes > 0 && !frame.destinations.empty()) note_work(op);
  const std::byte** value = moves(op) && frame.destinations.empty() ? &frame.sources[0] : &frame.value;
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    const Send& send = program_->sends[op.sends.first + i];
    const Delivery& delivery = frame.deliveries[i];
    SendStream& to = to_peer(i).send_stream(channel_);
    Message message = describe(op, send, delivery);
    if (delivery.kind == MessageKind::kCommon) {
      repeat_.send_common(to_peer(i), to, message, *common_slots(), &frame.destinations.back());
    } else {
      repeat_.send(to_peer(i), to, message, value);
    }
  }
  for (uint32_t i = 0; i < op.releases.count; ++i) {
    repeat_.release(peer(program_->releases[op.releases.first + i]).recv_stream(channel_));
  }
  return true;
}

// What combine_with_lenders() does.
void ChannelRun::note_work(const Op& op) {
  Frame& frame = *frame_;
  if (frame.has_lender) {
    for (uint32_t i = 0; i < op.sources.count; ++i) {
      const Operand& operand = program_->operands[op.sources.first + i];
      bool is_arrival = operand.space == Space::kArrival;
      if (is_arrival) repeat_.lend(peer(operand.index), &peer(operand.index).recv_stream(channel_));
    }
    for (uint32_t i = 0; i < op.sends.count; ++i) {
      bool is_direct = frame.deliveries[i].kind == MessageKind::kDirect;
      if (is_direct) repeat_.lend(peer(program_->sends[op.sends.first + i].peer), nullptr);
    }
    repeat_.enter();
  }
  if (!moves(op)) {
    repeat_.reduce(reduction(op));
  } else {
    auto size_bytes = static_cast<uint32_t>(frame.value_bytes);
    for (std::byte*& to : frame.destinations) repeat_.copy(&frame.sources[0], &to, size_bytes);
  }
  if (frame.has_lender) repeat_.leave();
}

ChannelRun::Step ChannelRun::walk_repeat() {
  Repeat::Walk walk = repeat_.walk(call_->signature);
  if (walk == Repeat::Walk::kDone) return Step::kDone;
  if (walk == Repeat::Walk::kWaits) {
    await_peer_of_repeat();
    return wait_for(*awaited_from_);
  }
  repeats_ = false;
  repeat_of_ = 0;
  has_fallen_back_ = true;
  begin();
  go_to(repeat_.op());
  if (auto sent = repeat_.sends_before_failed()) {  // the next one fails again, and says why
    const Op& op = program_->ops[repeat_.op()];
    frame_ = &frame_of(op);
    if (op.destinations.count == 0 && moves(op)) frame_->value = frame_->sources[0];
    if (frame_->common != nullptr) frame_->common = frame_->destinations.back();
    computed_ = true;
    sent_ = *sent;
  }
  return Step::kDone;
}

bool ChannelRun::finish() {
  awaited_ = nullptr;
  awaited_release_ = nullptr;
  Repeat::Walk walk = repeat_.walk(call_->signature);
  if (walk == Repeat::Walk::kDone) return settle() == Step::kDone;
  if (walk == Repeat::Walk::kWaits) await_peer_of_repeat();
  return false;
}

// Nobody looks again until what is awaited is here; meanwhile it is asked who that is.
void ChannelRun::await_peer_of_repeat() {
  awaited_ = repeat_.awaited();
  awaited_from_ = &repeat_.awaited_from();
  waiting_for_ = awaited_from_->rank();
}

void ChannelRun::go_to(uint32_t op) {
  while (op >= program_->sections[section_].ops.first + program_->sections[section_].ops.count) {
    ++section_;
    enter_section();
  }
  op_ = op - program_->sections[section_].ops.first;
  round_ = program_->ops[op].lag;
}

}  // namespace tutti
