// How the value of one kCompute gets to those whom it is sent to, with the fewest copies.
#include <algorithm>

#include "executor/channel_run.h"

namespace tutti {

// Decides where the value is stored besides the op's own destinations, and where messages find it.
ChannelRun::Step ChannelRun::choose_deliveries(const Op& op, uint64_t slice) {
  Frame& frame = *frame_;
  frame.value = !frame.destinations.empty() ? frame.destinations[0] : moves(op) ? frame.sources[0] : nullptr;
  if (call_->is_on_devices()) frame.value = nullptr;  // a line takes it from where the host reads
  frame.origin = moves(op) ? PayloadOrigin::kCopied : PayloadOrigin::kComputed;
  if (frame.value == nullptr) frame.origin = PayloadOrigin::kUnseen;
  frame.deliveries.clear();
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    const Send& send = program_->sends[op.sends.first + i];
    frame.deliveries.push_back(choose_delivery(send, slice));
    if (!by_chunk_) continue;
    if (Step minded = mind_chunk(op, send, slice, frame.deliveries.back()); minded != Step::kDone) return minded;
  }
  if (Step shared = share_slot(op); shared != Step::kDone) return shared;
  frame.has_slots = frame.common != nullptr;
  frame.has_direct = false;
  for (const Delivery& delivery : frame.deliveries) {
    frame.has_direct = frame.has_direct || (delivery.kind == MessageKind::kDirect && !delivery.into);
    frame.has_slots = frame.has_slots || lies_in_arena(delivery.kind);
    if (delivery.store_to != nullptr) frame.destinations.push_back(delivery.store_to);
  }
  if (frame.common != nullptr && !frame.fills_common) frame.destinations.push_back(frame.common);
  frame.has_lender = frame.has_lender || frame.has_direct;
  if (frame.value != nullptr || frame.value_bytes > inline_bytes_ || op.sends.count == 0) return Step::kDone;
  frame.value = small_value_;
  frame.destinations.push_back(small_value_);
  return Step::kDone;
}

// What would go into slots of several peers lies in one of this rank's own instead. While none is free it waits, or
// theirs serve.
ChannelRun::Step ChannelRun::share_slot(const Op& op) {
  Frame& frame = *frame_;
  CommonSlots* slots = common_slots();
  frame.common = nullptr;
  frame.is_makeshift = frame.fills_common = false;
  if (slots == nullptr || slots->empty() || frame.value_bytes < call_->options.common_min_bytes) return Step::kDone;
  auto may_share = [&](uint32_t i) {
    return frame.deliveries[i].kind == MessageKind::kSlot && peer(program_->sends[op.sends.first + i].peer).mapped();
  };
  size_t sharing = 0;
  for (uint32_t i = 0; i < op.sends.count; ++i) sharing += may_share(i) ? 1 : 0;
  if (sharing < 2) return Step::kDone;
  if (const Peer* awaited = slots->awaited(frame.value_bytes)) {
    for (uint32_t i = 0; i < op.sends.count; ++i) {
      const SendStream& to = peer(program_->sends[op.sends.first + i].peer).send_stream(channel_);
      if (!may_share(i) || slots->all_went_to(to, sharing, frame.value_bytes)) continue;
      frame.is_makeshift = has_other_slots_ = true;
      return Step::kDone;
    }
    awaits_common_ = true;
    return wait_for(*awaited);
  }
  frame.common = slots->next(frame.value_bytes, call_->options.spread);
  frame.fills_common = slots->is_filled_apart(frame.origin, frame.value_bytes);
  slots->take(frame.value_bytes);
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    if (may_share(i)) frame.deliveries[i] = {.kind = MessageKind::kCommon};
  }
  return Step::kDone;
}

ChannelRun::Delivery ChannelRun::choose_delivery(const Send& send, uint64_t slice) {
  if (frame_->value_bytes == 0) return {.kind = MessageKind::kSignal};
  if (frame_->value_bytes <= inline_bytes_) return {.kind = MessageKind::kInline};
  Peer& to = peer(send.peer);
  auto place = place_in_output(to, send, slice);
  if (!to.mapped()) {
    const std::byte* home = may_lend(to, send) ? home_of(send, slice) : nullptr;
    bool is_short = frame_->value_bytes <= StreamLayout::kShortBytes;
    MessageKind kind = place ? MessageKind::kDirect : is_short ? MessageKind::kShort : MessageKind::kSlot;
    std::byte* slot = home == nullptr ? slot_of(to) : nullptr;
    return {.kind = kind, .store_to = slot, .payload = home != nullptr ? home : slot, .into = place.value_or(Window())};
  }
  if (place) return {.kind = MessageKind::kDirect, .store_to = place_of(to, *place)};
  if (may_lend(to, send)) {
    bool shared = send.source.space == Space::kInput ? bool(call_->input_window) : bool(call_->output_window);
    if (shared) return {.kind = MessageKind::kReference, .payload = home_of(send, slice)};
    if (to.link().traits().pullable && is_pulled(to)) {
      return {.kind = MessageKind::kPull, .payload = home_of(send, slice)};
    }
  }
  std::byte* slot = slot_of(to);
  if (is_filled_apart(to)) return {.kind = MessageKind::kSlot, .fill = slot};
  return {.kind = MessageKind::kSlot, .store_to = slot};
}

bool ChannelRun::is_filled_apart(Peer& to) const {
  return to.send_stream(channel_).is_filled_apart(frame_->origin, frame_->value_bytes);
}

std::byte* ChannelRun::slot_of(Peer& to) const {
  return to.send_stream(channel_).slot(frame_->value_bytes, call_->options.spread);
}

// Where the value goes in the peer's output, if the peer has told of it, and it can be reached from here.
std::optional<Window> ChannelRun::place_in_output(Peer& to, const Send& send, uint64_t slice) {
  const Window& window = peer_outputs_[send.peer];
  if (send.into == kNoChunk || call_->shape->deliver_directly == Permission::kNever || !window) return std::nullopt;
  LinkTraits traits = to.link().traits();
  if (!to.mapped() && !traits.places && !traits.lands) return std::nullopt;
  const RemoteMemory* memory = to.find(window.memory_id);
  Piece piece = call_->partition.output(channel_, send.into, slice);
  bool fits = memory != nullptr && (memory->mapped != nullptr || !to.mapped()) &&
              window.offset <= memory->size_bytes && piece.offset_bytes <= memory->size_bytes - window.offset &&
              frame_->value_bytes <= memory->size_bytes - window.offset - piece.offset_bytes;
  if (!fits) return std::nullopt;
  return Window{window.memory_id, window.offset + piece.offset_bytes};
}

std::byte* ChannelRun::place_of(Peer& to, const Window& place) const {
  return to.find(place.memory_id)->mapped + place.offset;
}

// Whether the receiver should read the payload where it lies.
bool ChannelRun::is_pulled(const Peer& to) const {
  if (frame_->value_bytes < call_->options.pull_min_bytes) return false;
  return call_->wish == kNoWish || to.is_wished(call_->wish);
}

// Whether the value also lies in the caller's memory and stays there unchanged until the peer has released the message.
bool ChannelRun::may_lend(const Peer& to, const Send& send) const {
  if (call_->is_on_devices() && !to.reaches_device_memory()) return false;
  bool is_input = send.source.space == Space::kInput && !multiplies_first();
  return call_->lends() && (is_input || send.source.space == Space::kOutput);
}

const std::byte* ChannelRun::home_of(const Send& send, uint64_t slice) const {
  const Partition& partition = call_->partition;
  if (send.source.space == Space::kInput) {
    return call_->input + partition.input(channel_, send.source.index, slice).offset_bytes;
  }
  return call_->output + partition.output(channel_, send.source.index, slice).offset_bytes;
}

}  // namespace tutti
