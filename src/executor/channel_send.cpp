// The computing and sending half of the interpreter: one kCompute gathers its sources, lets the kernel store to all
// places at once that channel_deliveries.cpp decides on, and sends.
#include <algorithm>
#include <bit>

#include "executor/channel_run.h"

namespace tutti {

ChannelRun::Step ChannelRun::run_compute(const Op& op, uint64_t slice) {
  if (!computed_) {
    frame_ = &frame_of(op);
    Step ready = await_slots(op);
    if (ready == Step::kDone) ready = frame_->stays_in == starts_ ? refresh(op) : compose(op, slice);
    if (ready != Step::kDone) return ready;
    if (Step combined = combine_with_lenders(op); combined != Step::kDone) return combined;
    computed_ = true;
    sent_ = 0;
  }
  Step sent = send_all(op);
  if (sent == Step::kDone) release(op, slice);
  return sent;
}

// Also for those that send nothing for this slice: what they wait for is released by then in any case.
ChannelRun::Step ChannelRun::await_slots(const Op& op) {
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    Peer& to = peer(program_->sends[op.sends.first + i].peer);
    if (!to.send_stream(channel_).has_room()) return wait_for(to);
  }
  const Peer* reads_common = awaits_common_ ? common_slots()->awaited(frame_->value_bytes) : nullptr;
  if (reads_common != nullptr) return wait_for(*reads_common);
  awaits_common_ = false;
  return Step::kDone;
}

ChannelRun::Step ChannelRun::compose(const Op& op, uint64_t slice) {
  frame_->stays_in = 0;
  Step gathered = gather(op, slice);
  if (gathered == Step::kDone && by_chunk_ && slice == 0) gathered = await_outputs(op);
  if (gathered != Step::kDone) return gathered;
  Step chosen = choose_deliveries(op, slice);
  frame_->stays_in = chosen == Step::kDone && will_stay(op) ? starts_ : 0;
  return chosen;
}

// Fills in the sources and the op's own destinations, and how large the value is.
ChannelRun::Step ChannelRun::gather(const Op& op, uint64_t slice) {
  Frame& frame = *frame_;
  frame.sources.clear();
  frame.widths.clear();
  frame.destinations.clear();
  frame.piece_bytes = 0;
  frame.has_lender = false;
  frame.has_arrivals = false;
  bool grows = growth_ > 1 && op.chunk != kNoChunk;
  uint64_t expected_bytes = grows ? call_->partition.slice_bytes(channel_, op.chunk, slice) : 0;
  for (uint32_t i = 0; i < op.sources.count; ++i) {
    Value value = value_of(program_->operands[op.sources.first + i], slice);
    uint64_t size_bytes = grows ? note_width(value.size_bytes, expected_bytes) : value.size_bytes;
    if (i > 0 && size_bytes != frame.piece_bytes) {
      return fail(error(Code::kRemote, "ranks disagree about the size of a piece: {} and {} bytes", frame.piece_bytes,
                        size_bytes));
    }
    frame.piece_bytes = size_bytes;
    frame.sources.push_back(value.data);
  }
  bool is_partial = grows && !op.finish && (frame.sources.size() > 1 || frame.widths[0] == Width::kWide);
  frame.width = is_partial ? Width::kWide : Width::kNarrow;
  frame.value_bytes = is_partial ? frame.piece_bytes * growth_ : frame.piece_bytes;
  for (uint32_t i = 0; i < op.destinations.count; ++i) {
    const Operand& operand = program_->operands[op.destinations.first + i];
    if (operand.space == Space::kOutput && output_piece(operand.index, slice).size() != frame.value_bytes) {
      return fail(error(Code::kRemote, "a piece of {} bytes has come for one of {}", frame.value_bytes,
                        output_piece(operand.index, slice).size()));
    }
    frame.destinations.push_back(storage_of(operand, slice));
  }
  return Step::kDone;
}

// Whether in the same call, made again, nothing of the frame changes but what refresh() sees to.
bool ChannelRun::will_stay(const Op& op) const {
  auto is_lasting = [this](const Operand& operand) {
    bool is_copied = operand.space == Space::kInput && multiplies_first();
    return operand.space != Space::kTemp && !is_copied;
  };
  auto all_last = [&](Span operands) {
    auto first = program_->operands.begin() + operands.first;
    return std::all_of(first, first + operands.count, is_lasting);
  };
  auto is_lasting_delivery = [](const Delivery& delivery) {
    switch (delivery.kind) {
      case MessageKind::kSignal:
      case MessageKind::kInline:
      case MessageKind::kCommon:
      case MessageKind::kReference: return true;
      case MessageKind::kShort:
      case MessageKind::kSlot: return delivery.store_to != nullptr;
      case MessageKind::kDirect: return !delivery.into;
      case MessageKind::kPull: break;
    }
    return false;
  };
  const Frame& frame = *frame_;
  bool has_other_slot = frame.is_makeshift || frame.fills_common;
  bool may_stay = one_slice_ && growth_ == 1 && !has_other_slot && frame_ != &frames_.back();
  return may_stay && all_last(op.sources) && all_last(op.destinations) &&
         std::all_of(frame.deliveries.begin(), frame.deliveries.end(), is_lasting_delivery);
}

// What compose() would find now, of a frame that stays.
ChannelRun::Step ChannelRun::refresh(const Op& op) {
  Frame& frame = *frame_;
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    if (!is_still(op, i)) return compose(op, 0);
  }
  if (!frame.has_arrivals && !frame.has_slots) return Step::kDone;
  frame.has_lender = frame.has_direct;
  for (uint32_t i = 0; i < op.sources.count; ++i) {
    const Operand& operand = program_->operands[op.sources.first + i];
    if (operand.space != Space::kArrival) continue;
    const RecvStream& stream = peer(operand.index).recv_stream(channel_);
    if (stream.size_bytes() != frame.piece_bytes) return compose(op, 0);
    frame.sources[i] = stream.payload();
    frame.has_lender = frame.has_lender || stream.in_lent_memory();
  }
  if (op.destinations.count == 0 && moves(op)) frame.value = frame.sources[0];
  return frame.has_slots ? refresh_slots(op) : Step::kDone;
}

ChannelRun::Step ChannelRun::refresh_slots(const Op& op) {
  Frame& frame = *frame_;
  if (frame.common != nullptr) {
    CommonSlots& slots = *common_slots();
    bool is_apart = slots.is_filled_apart(frame.origin, frame.value_bytes);
    if (is_apart || slots.awaited(frame.value_bytes) != nullptr) return compose(op, 0);
    frame.common = slots.next(frame.value_bytes, call_->options.spread);
  }
  frame.destinations.resize(op.destinations.count);
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    Delivery& delivery = frame.deliveries[i];
    Peer& to = peer(program_->sends[op.sends.first + i].peer);
    if (delivery.kind == MessageKind::kSlot && is_filled_apart(to)) return compose(op, 0);
    if (lies_in_arena(delivery.kind)) {
      std::byte* slot = slot_of(to);
      if (delivery.payload != nullptr) delivery.payload = slot;
      delivery.store_to = slot;
    }
    if (delivery.store_to != nullptr) frame.destinations.push_back(delivery.store_to);
  }
  if (frame.common == nullptr) return Step::kDone;
  common_slots()->take(frame.value_bytes);
  frame.destinations.push_back(frame.common);
  return Step::kDone;
}

// Whether the value goes to the peer as in the call before: peers may have shared their outputs since, or not.
bool ChannelRun::is_still(const Op& op, uint32_t send) {
  const Delivery& delivery = frame_->deliveries[send];
  if (delivery.kind == MessageKind::kInline || delivery.kind == MessageKind::kSignal) return true;
  const Send& to = program_->sends[op.sends.first + send];
  auto place = place_in_output(peer(to.peer), to, 0);
  if (!place) return delivery.kind != MessageKind::kDirect;
  return delivery.kind == MessageKind::kDirect && delivery.store_to == place_of(peer(to.peer), *place);
}

// Notes how a source of so many bytes lies, and says how many it has in the datatype.
uint64_t ChannelRun::note_width(uint64_t size_bytes, uint64_t expected_bytes) {
  bool is_wide = size_bytes == expected_bytes * growth_;
  frame_->widths.push_back(is_wide ? Width::kWide : Width::kNarrow);
  return is_wide ? expected_bytes : size_bytes;
}

// Whether the value is that of the only source as it lies there.
bool ChannelRun::moves(const Op& op) const {
  const std::vector<Width>& widths = frame_->widths;
  bool changes = op.finish && (call_->op == TUTTI_AVG || (!widths.empty() && widths[0] == Width::kWide));
  return frame_->sources.size() == 1 && !changes;
}

ChannelRun::Value ChannelRun::value_of(const Operand& operand, uint64_t slice) {
  switch (operand.space) {
    case Space::kInput: {
      Piece piece = call_->partition.input(channel_, operand.index, slice);
      const std::byte* data = call_->input + piece.offset_bytes;
      return {multiplies_first() ? multiplied(data, piece.size_bytes) : data, piece.size_bytes};
    }
    case Space::kOutput: {
      auto piece = output_piece(operand.index, slice);
      return {piece.data(), piece.size()};
    }
    case Space::kTemp: {
      const Temp& stored = temps_[operand.index];
      return {stored.data, stored.size_bytes};
    }
    case Space::kArrival: break;
  }
  frame_->has_arrivals = true;
  frame_->has_lender = frame_->has_lender || is_lent(operand);
  if (const Value& in_chunk = chunk_arrivals_[operand.index]; in_chunk.data != nullptr) return in_chunk;
  const RecvStream& stream = peer(operand.index).recv_stream(channel_);
  return {stream.payload(), stream.size_bytes()};
}

// A step has one piece of the input at most.
const std::byte* ChannelRun::multiplied(const std::byte* from, uint64_t size_bytes) {
  if (size_bytes == 0) return from;
  scale(call_->datatype, multiplied_.data(), from, size_bytes / size_of(call_->datatype), call_->own_op->factor.data());
  return multiplied_.data();
}

std::byte* ChannelRun::storage_of(const Operand& operand, uint64_t slice) {
  if (operand.space == Space::kOutput) return output_piece(operand.index, slice).data();
  TUTTI_CHECK(operand.space == Space::kTemp);
  Temp& stored = temps_[operand.index];
  stored.size_bytes = frame_->value_bytes;
  return stored.data;
}

// Calls visit(peer) for every peer of whose caller's memory this op reads or writes; for some more than once.
template <typename Visit>
void ChannelRun::visit_lenders(const Op& op, Visit&& visit) {
  for (uint32_t i = 0; i < op.sources.count; ++i) {
    const Operand& operand = program_->operands[op.sources.first + i];
    if (operand.space != Space::kArrival) continue;
    if (is_lent(operand)) visit(peer(operand.index));
  }
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    bool is_stored = frame_->deliveries[i].kind == MessageKind::kDirect && !frame_->deliveries[i].into;
    if (is_stored) visit(peer(program_->sends[op.sends.first + i].peer));
  }
}

// combine() while no peer's caller may go on, and only if none has: nothing wrong is sent, and nothing is stored where
// it is not expected.
ChannelRun::Step ChannelRun::combine_with_lenders(const Op& op) {
  Status combined;
  if (!frame_->has_lender) {
    combined = combine(op);
    return combined.ok() ? Step::kDone : fail(std::move(combined));
  }
  const Peer* gone = nullptr;
  size_t begun = 0;
  visit_lenders(op, [&](Peer& lender) {
    if (gone != nullptr) return;
    if (lender.link().begin_access()) ++begun;
    else gone = &lender;
  });
  if (gone == nullptr) combined = combine(op);
  visit_lenders(op, [&](Peer& lender) {
    if (begun == 0) return;
    --begun;
    if (!lender.link().end_access()) gone = &lender;
  });
  if (gone != nullptr) return fail(has_left(*gone));
  return combined.ok() ? Step::kDone : fail(std::move(combined));
}

Status ChannelRun::combine(const Op& op) {
  const Frame& frame = *frame_;
  if (frame.value_bytes == 0) return {};
  if (!moves(op)) {
    if (!frame.destinations.empty()) reduce_sources(op);
  } else {
    size_t streamed = streamed_destinations(op);
    for (size_t i = 0; i < frame.destinations.size(); ++i) {
      std::byte* to = frame.destinations[i];
      bool is_there = to == frame.sources[0] || (call_->is_on_devices() && has_come_before(op, i));
      Store store = i < streamed ? Store::kStreaming : Store::kCached;
      if (!is_there) TUTTI_TRY(move(to, frame.sources[0], frame.value_bytes, store));
    }
  }
  fill_slots(op);
  return {};
}

void ChannelRun::fill_slots(const Op& op) {
  const std::byte* value = moves(op) ? frame_->sources[0] : frame_->value;
  for (uint32_t i = 0; i < op.sends.count; ++i) {
    std::byte* slot = frame_->deliveries[i].fill;
    if (slot == nullptr) continue;
    has_other_slots_ = true;
    SendStream& to = peer(program_->sends[op.sends.first + i].peer).send_stream(channel_);
    to.fill(frame_->origin, slot, value, frame_->value_bytes, call_->options.spread, call_->options.memory_ns_per_byte);
  }
  if (!frame_->fills_common) return;
  has_other_slots_ = true;
  common_slots()->fill(frame_->origin, frame_->common, value, frame_->value_bytes, call_->options.spread,
                       call_->options.memory_ns_per_byte);
}

// What is a chunk of the input and of the output is the same data in both.
bool ChannelRun::has_come_before(const Op& op, size_t destination) const {
  if (destination >= op.destinations.count) return false;  // of a message
  const Operand& from = program_->operands[op.sources.first];
  const Operand& to = program_->operands[op.destinations.first + destination];
  return from.space == Space::kInput && to.space == Space::kOutput;
}

void ChannelRun::reduce_sources(const Op& op) {
  const Frame& frame = *frame_;
  ReduceArgs args = reduction(op);
  if (call_->own_op != nullptr && call_->own_op->function != nullptr) {
    return by_function_.combine(*call_->own_op, call_->datatype, frame.sources, frame.destinations, args.count);
  }
  const std::vector<Width>& widths = frame.widths;
  bool any_wide = frame.width == Width::kWide || std::find(widths.begin(), widths.end(), Width::kWide) != widths.end();
  any_wide ? reduce_partial(args, widths, frame.width) : reduce(args);
}

ReduceArgs ChannelRun::reduction(const Op& op) const {
  bool divides = op.finish && call_->op == TUTTI_AVG;
  return {.datatype = call_->datatype,
          .op = multiplies_first() ? TUTTI_SUM : call_->op,
          .sources = frame_->sources,
          .destinations = frame_->destinations,
          // Sizes of types are powers of two, and a division would take as long as a small reduction.
          .count = frame_->piece_bytes >> std::countr_zero(size_of(call_->datatype)),
          .divisor = divides ? static_cast<uint32_t>(call_->shape->nranks) : 0,
          .streamed = streamed_destinations(op)};
}

// How many of the first destinations are results of large calls that nobody reads soon. What lies in slots, which come
// last, is read at once.
size_t ChannelRun::streamed_destinations(const Op& op) const {
  if (!call_->streams) return 0;
  for (uint32_t i = 0; i < op.destinations.count; ++i) {
    if (program_->operands[op.destinations.first + i].space != Space::kOutput) return 0;
  }
  bool all_direct = true;
  for (const Delivery& delivery : frame_->deliveries) {
    bool is_direct = delivery.kind == MessageKind::kDirect && !delivery.into;
    bool is_in_slot = delivery.kind == MessageKind::kSlot && delivery.store_to != nullptr;
    bool is_common = delivery.kind == MessageKind::kCommon && !frame_->fills_common;
    if (!is_direct && !is_in_slot && !is_common) return 0;  // it is taken from the output
    all_direct = all_direct && is_direct;
  }
  return all_direct ? frame_->destinations.size() : op.destinations.count;
}

ChannelRun::Step ChannelRun::send_all(const Op& op) {
  for (; sent_ < op.sends.count; ++sent_) {
    const Send& send = program_->sends[op.sends.first + sent_];
    Delivery& delivery = frame_->deliveries[sent_];
    if (delivery.is_silent) continue;
    Peer& to = peer(send.peer);
    RemoteSlice into;
    if (delivery.into) {
      into = {to.find(delivery.into.memory_id), delivery.into.offset};
      // It was taken back while the link was full. A slot there is.
      if (into.memory == nullptr) delivery = {.kind = MessageKind::kSlot, .payload = delivery.payload};
    }
    const std::byte* payload = delivery.kind == MessageKind::kInline ? frame_->value : delivery.payload;
    auto result = to.send_stream(channel_).send(describe(op, send, delivery), call_->signature, payload, into);
    if (!result.ok()) return fail(std::move(result).status());
    if (*result == PutResult::kFull) return wait_for(to);
    if (delivery.kind == MessageKind::kCommon) {
      common_slots()->add_reader(to.send_stream(channel_));
    }
  }
  return Step::kDone;
}

Message ChannelRun::describe(const Op& op, const Send& send, const Delivery& delivery) const {
  Message message;
  message.kind = delivery.kind;
  message.size_bytes = frame_->value_bytes;
  message.by_chunk = by_chunk_ && takes_by_chunk(*(*peers_)[send.peer]);
  message.with_rest = delivery.with_rest;
  if (delivery.kind == MessageKind::kInline) return message;
  if (call_->announces_output) message.output = call_->output_window ? call_->output_window : call_->landing;
  message.chunk_bytes = one_slice_ && !with_counts_ ? frame_->piece_bytes : chunk_bytes(op);
  if (delivery.kind == MessageKind::kPull) {
    message.address = reinterpret_cast<uint64_t>(delivery.payload);
    message.with_rest = send.source.space == Space::kInput && call_->flow == nullptr;
  }
  if (delivery.kind == MessageKind::kCommon) {
    message.payload.offset = common_slots()->offset_of(frame_->common);
  }
  if (delivery.kind == MessageKind::kReference) {
    bool is_input = send.source.space == Space::kInput;
    const Window& window = is_input ? call_->input_window : call_->output_window;
    auto within = delivery.payload - (is_input ? call_->input : call_->output);
    message.payload = {window.memory_id, window.offset + within};
  }
  return message;
}

void ChannelRun::release(const Op& op, uint64_t slice) {
  for (uint32_t i = 0; i < op.releases.count; ++i) release_from(program_->releases[op.releases.first + i], op, slice);
}

}  // namespace tutti
