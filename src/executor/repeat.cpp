#include "executor/repeat.h"

#include <cstring>

namespace tutti {

void Repeat::receive(Peer& peer, RecvStream& from, MessageKind message, uint32_t size_bytes, std::byte* into) {
  actions_.push_back({.kind = Kind::kReceive, .message = message, .op = op_, .size_bytes = size_bytes, .peer = &peer,
                      .from = &from, .into = into});
}

void Repeat::release(RecvStream& stream) { actions_.push_back({.kind = Kind::kRelease, .op = op_, .from = &stream}); }

void Repeat::await_room(Peer& peer, SendStream& to) {
  actions_.push_back({.kind = Kind::kAwaitRoom, .op = op_, .peer = &peer, .to = &to});
}

void Repeat::send(Peer& peer, SendStream& to, MessageKind message, const std::byte** value, uint32_t size_bytes) {
  actions_.push_back({.kind = Kind::kSend, .message = message, .op = op_, .size_bytes = size_bytes, .peer = &peer,
                      .to = &to, .place = value});
}

void Repeat::find(const std::byte** place, RecvStream& received) {
  actions_.push_back({.kind = Kind::kFind, .op = op_, .from = &received, .place = place});
}

void Repeat::find_slot(std::byte** place, SendStream& to, uint32_t size_bytes) {
  actions_.push_back({.kind = Kind::kFindSlot, .op = op_, .size_bytes = size_bytes, .to = &to, .target = place});
}

void Repeat::copy(const std::byte** from, std::byte** to, uint32_t size_bytes) {
  actions_.push_back({.kind = Kind::kCopy, .op = op_, .size_bytes = size_bytes, .place = from, .target = to});
}

void Repeat::reduce(const ReduceArgs& args) {
  actions_.push_back({.kind = Kind::kReduce, .op = op_, .reduction = static_cast<uint32_t>(reductions_.size())});
  reductions_.push_back(args);
}

void Repeat::begin_call(const Spread& spread) {
  clear();
  spread_ = spread;
}

void Repeat::clear() {
  actions_.clear();
  reductions_.clear();
  at_ = 0;
}

void Repeat::reserve(size_t actions, size_t reductions) {
  actions_.reserve(actions);
  reductions_.reserve(reductions);
}

Repeat::Walk Repeat::walk(uint64_t signature) {
  const Action* const first = actions_.data();
  const size_t count = actions_.size();
  for (size_t at = at_; at < count; ++at) {
    Walk came = act(first[at], signature);
    if (came == Walk::kDone) continue;
    at_ = at;
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

Repeat::Walk Repeat::act(const Action& action, uint64_t signature) const {
  switch (action.kind) {
    case Kind::kReceive:
      action.from->release();
      if (!action.from->ready()) return Walk::kWaits;
      return take(action, signature) ? Walk::kDone : Walk::kElse;
    case Kind::kRelease: action.from->release(); break;
    case Kind::kAwaitRoom: return action.to->has_room() ? Walk::kDone : Walk::kWaits;
    case Kind::kSend: return send(action, signature);
    case Kind::kFind: *action.place = action.from->payload(); break;
    case Kind::kFindSlot: *action.target = action.to->slot(action.size_bytes, spread_); break;
    case Kind::kCopy:
      if (*action.place != *action.target) std::memcpy(*action.target, *action.place, action.size_bytes);
      break;
    case Kind::kReduce: tutti::reduce(reductions_[action.reduction]); break;
  }
  return Walk::kDone;
}

Repeat::Walk Repeat::send(const Action& action, uint64_t signature) {
  SendStream& to = *action.to;
  Message message{.kind = action.message, .size_bytes = action.size_bytes, .chunk_bytes = action.size_bytes};
  auto sent = action.message == MessageKind::kInline ? to.send_inline(signature, {*action.place, action.size_bytes})
                                                     : to.send(message, signature, *action.place);
  if (!sent.ok()) return Walk::kElse;
  return *sent == PutResult::kFull ? Walk::kWaits : Walk::kDone;
}

// False when it is another message than in the calls before.
bool Repeat::take(const Action& action, uint64_t signature) {
  RecvStream& from = *action.from;
  const Line& line = from.next_line();
  if (line.words[1] != signature || line.words[2] != kind_and_size(action.message, action.size_bytes)) return false;
  const std::byte* payload = nullptr;
  if (action.message == MessageKind::kInline) {
    payload = reinterpret_cast<const std::byte*>(&line.words[3]);
  } else {
    Message message = decode(line);
    if (message.output || message.chunk_bytes != action.size_bytes) return false;
    if (action.message == MessageKind::kSlot) {
      payload = from.payload_in_slot(message);
      if (payload == nullptr) return false;
    }
  }
  if (action.into != nullptr && payload != nullptr) std::memcpy(action.into, payload, action.size_bytes);
  from.take(action.message, payload, action.size_bytes, Lent::kNo);
  return true;
}

}  // namespace tutti
