#include "executor/repeat.h"

#include <algorithm>
#include <cstring>

namespace tutti {

void Repeat::receive(Peer& peer, RecvStream& from, const Message& message, const std::byte* lent, std::byte* into) {
  actions_.push_back({.kind = Kind::kReceive, .message = message.kind, .op = op_,
                      .size_bytes = static_cast<uint32_t>(message.size_bytes),
                      .index = static_cast<uint32_t>(messages_.size()), .peer = &peer, .from = &from, .lent = lent,
                      .into = into});
  messages_.push_back(message);
}

void Repeat::release(RecvStream& stream) { actions_.push_back({.kind = Kind::kRelease, .op = op_, .from = &stream}); }

void Repeat::await_room(Peer& peer, SendStream& to) {
  actions_.push_back({.kind = Kind::kAwaitRoom, .op = op_, .peer = &peer, .to = &to});
}

void Repeat::send(Peer& peer, SendStream& to, const Message& message, const std::byte** value) {
  actions_.push_back({.kind = Kind::kSend, .message = message.kind, .op = op_,
                      .size_bytes = static_cast<uint32_t>(message.size_bytes),
                      .index = static_cast<uint32_t>(messages_.size()), .peer = &peer, .to = &to, .place = value});
  messages_.push_back(message);
}

void Repeat::find(const std::byte** place, RecvStream& received) {
  actions_.push_back({.kind = Kind::kFind, .op = op_, .from = &received, .place = place});
}

void Repeat::find_slot(std::byte** place, SendStream& to, uint32_t size_bytes, PayloadOrigin origin) {
  actions_.push_back({.kind = Kind::kFindSlot, .origin = origin, .op = op_, .size_bytes = size_bytes, .to = &to,
                      .target = place});
}

void Repeat::find_common(std::byte** place, CommonSlots& slots, uint32_t size_bytes, PayloadOrigin origin) {
  actions_.push_back({.kind = Kind::kFindCommon, .origin = origin, .op = op_, .size_bytes = size_bytes,
                      .index = static_cast<uint32_t>(found_), .count = static_cast<uint32_t>(sharing_.size() - found_),
                      .common = &slots, .target = place});
  found_ = sharing_.size();
}

void Repeat::send_common(Peer& peer, SendStream& to, const Message& message, CommonSlots& slots, std::byte** place) {
  send(peer, to, message, nullptr);
  actions_.back().common = &slots;
  actions_.back().target = place;
}

void Repeat::copy(const std::byte** from, std::byte** to, uint32_t size_bytes) {
  actions_.push_back({.kind = Kind::kCopy, .op = op_, .size_bytes = size_bytes, .place = from, .target = to});
}

void Repeat::reduce(const ReduceArgs& args) {
  actions_.push_back({.kind = Kind::kReduce, .op = op_, .index = static_cast<uint32_t>(reductions_.size())});
  reductions_.push_back(args);
}

// What is stored into a peer's memory is there in every call, whatever else of the peer is read.
void Repeat::lend(Peer& peer, const RecvStream* from) {
  auto first = lenders_.begin() + static_cast<ptrdiff_t>(entered_);
  auto same = std::find_if(first, lenders_.end(), [&](const Lender& lender) { return lender.peer == &peer; });
  if (same == lenders_.end()) lenders_.push_back({&peer, from});
  else if (from == nullptr) same->from = nullptr;
  else TUTTI_CHECK(same->from == nullptr || same->from == from);
}

void Repeat::enter() {
  auto lenders = static_cast<uint32_t>(lenders_.size() - entered_);
  actions_.push_back({.kind = Kind::kEnter, .op = op_, .index = static_cast<uint32_t>(entered_), .count = lenders});
  entered_ = lenders_.size();
}

void Repeat::leave() {
  Action entering = *std::find_if(actions_.rbegin(), actions_.rend(),
                                  [](const Action& action) { return action.kind == Kind::kEnter; });
  entering.kind = Kind::kLeave;
  actions_.push_back(entering);
}

void Repeat::begin_call(const Spread& spread) {
  clear();
  spread_ = spread;
}

void Repeat::clear() {
  actions_.clear();
  messages_.clear();
  reductions_.clear();
  lenders_.clear();
  sharing_.clear();
  entered_ = found_ = 0;
  start();
}

void Repeat::reserve(size_t actions, size_t reductions) {
  actions_.reserve(actions);
  messages_.reserve(actions);
  reductions_.reserve(reductions);
  lenders_.reserve(actions);
  sharing_.reserve(actions);
}

Repeat::Walk Repeat::walk(uint64_t signature) {
  const Action* const first = actions_.data();
  const size_t count = actions_.size();
  if (is_left_) return Walk::kElse;
  for (size_t at = at_; at < count; ++at) {
    Walk came = act(first[at], signature);
    if (came == Walk::kDone) continue;
    at_ = at;
    is_left_ = came == Walk::kElse;
    return came;
  }
  at_ = count;
  return Walk::kDone;
}

std::optional<uint32_t> Repeat::sends_before_failed() const {
  if (actions_[at_].kind != Kind::kSend) return std::nullopt;
  size_t first = at_;
  while (first > 0 && actions_[first - 1].kind == Kind::kSend && actions_[first - 1].op == op()) --first;
  return static_cast<uint32_t>(at_ - first);
}

Repeat::Walk Repeat::act(const Action& action, uint64_t signature) {
  switch (action.kind) {
    case Kind::kReceive:
      action.from->release();
      if (!action.from->ready()) return Walk::kWaits;
      return take(action, signature) ? Walk::kDone : Walk::kElse;
    case Kind::kRelease: action.from->release(); break;
    case Kind::kAwaitRoom: return action.to->has_room() ? Walk::kDone : Walk::kWaits;
    case Kind::kSend: return send(action, signature);
    case Kind::kFind: *action.place = action.from->payload(); break;
    case Kind::kFindSlot:
      if (action.to->is_filled_apart(action.origin, action.size_bytes)) return Walk::kElse;
      *action.target = action.to->slot(action.size_bytes, spread_);
      break;
    case Kind::kFindCommon: return find_common(action);
    case Kind::kCopy:
      if (*action.place != *action.target) std::memcpy(*action.target, *action.place, action.size_bytes);
      break;
    case Kind::kReduce: tutti::reduce(reductions_[action.index]); break;
    case Kind::kEnter: return enter(action) ? Walk::kDone : Walk::kElse;
    case Kind::kLeave: return leave(action) ? Walk::kDone : Walk::kElse;
  }
  return Walk::kDone;
}

Repeat::Walk Repeat::find_common(const Action& action) {
  CommonSlots& slots = *action.common;
  if (slots.is_filled_apart(action.origin, action.size_bytes)) return Walk::kElse;
  reads_common_ = slots.awaited(action.size_bytes);
  if (reads_common_ != nullptr) {
    auto first = sharing_.begin() + action.index;
    bool may_wait = std::all_of(first, first + action.count,
                                [&](const SendStream* to) {
                                  return slots.all_went_to(*to, action.count, action.size_bytes);
                                });
    return may_wait ? Walk::kWaits : Walk::kElse;
  }
  *action.target = slots.next(action.size_bytes, spread_);
  slots.take(action.size_bytes);
  return Walk::kDone;
}

// All of them, or none.
bool Repeat::enter(const Action& action) const {
  for (size_t i = action.index; i < action.index + action.count; ++i) {
    if (!lenders_[i].lends() || lenders_[i].peer->link().begin_access()) continue;
    leave(action.index, i);
    return false;
  }
  return true;
}

bool Repeat::leave(const Action& action) const { return leave(action.index, action.index + action.count); }

bool Repeat::leave(size_t first, size_t end) const {
  bool are_there = true;
  for (size_t i = first; i < end; ++i) {
    if (lenders_[i].lends()) are_there = lenders_[i].peer->link().end_access() && are_there;
  }
  return are_there;
}

Repeat::Walk Repeat::send(const Action& action, uint64_t signature) const {
  if (action.message == MessageKind::kCommon) return send_common(action, signature);
  SendStream& to = *action.to;
  auto sent = action.message == MessageKind::kInline ? to.send_inline(signature, {*action.place, action.size_bytes})
                                                     : to.send(messages_[action.index], signature, *action.place);
  if (!sent.ok()) return Walk::kElse;
  return *sent == PutResult::kFull ? Walk::kWaits : Walk::kDone;
}

Repeat::Walk Repeat::send_common(const Action& action, uint64_t signature) const {
  Message message = messages_[action.index];
  message.payload.offset = action.common->offset_of(*action.target);
  auto sent = action.to->send(message, signature, *action.target);
  if (!sent.ok()) return Walk::kElse;
  if (*sent == PutResult::kFull) return Walk::kWaits;
  action.common->add_reader(*action.to);
  return Walk::kDone;
}

// What the line of a message without its payload says, but for its number, its signature, and a place in a slot.
bool Repeat::is_as_noted(const Action& action, const Line& line) const {
  const Message& noted = messages_[action.index];
  Message message = decode(line);
  bool moves = noted.kind == MessageKind::kSlot || noted.kind == MessageKind::kCommon;
  bool is_there = moves || message.payload.offset == noted.payload.offset;
  return is_there && message.payload.memory_id == noted.payload.memory_id &&
         message.output.memory_id == noted.output.memory_id && message.output.offset == noted.output.offset &&
         message.chunk_bytes == noted.chunk_bytes;
}

// False when it is another message than in the calls before, or its memory is not to be read any more.
bool Repeat::take(const Action& action, uint64_t signature) const {
  RecvStream& from = *action.from;
  const Line& line = from.next_line();
  if (line.words[1] != signature || line.words[2] != kind_and_size(action.message, action.size_bytes)) return false;
  const std::byte* payload = action.lent;
  if (action.message == MessageKind::kInline) {
    payload = reinterpret_cast<const std::byte*>(&line.words[3]);
  } else if (!is_as_noted(action, line)) {
    return false;
  } else if (action.message == MessageKind::kSlot) {
    payload = from.payload_in_slot(decode(line));
    if (payload == nullptr) return false;
  } else if (action.message == MessageKind::kCommon) {
    payload = from.payload_in_arena(decode(line));
    if (payload == nullptr) return false;
  } else if (action.message == MessageKind::kShort) {
    payload = from.payload_beside_line(decode(line));
    if (payload == nullptr) return false;
  }
  bool is_lent = action.message == MessageKind::kReference;
  bool is_stored = action.into != nullptr && payload != nullptr;
  if (is_stored && is_lent && !action.peer->link().begin_access()) return false;
  if (is_stored) std::memcpy(action.into, payload, action.size_bytes);
  if (is_stored && is_lent && !action.peer->link().end_access()) return false;
  Lent lent = !is_lent ? Lent::kNo : is_stored ? Lent::kRead : Lent::kInPlace;
  from.take(action.message, lent == Lent::kRead ? action.into : payload, action.size_bytes, lent);
  return true;
}

}  // namespace tutti
