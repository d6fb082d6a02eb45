// Repeat: what is left to do of a call when the same one is made again, and every message is one line, with its payload
// there or in a slot. Then all that changes from call to call is which lines and slots those are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "executor/peer.h"
#include "kernels/kernels.h"

namespace tutti {

class Repeat {
 public:
  // How far a walk came. kElse: a message is not as it was, or a send has failed.
  enum class Walk : uint8_t { kDone, kWaits, kElse };

  // What is noted from now on is of a new call, whose payloads go through their slots like this.
  void begin_call(const Spread& spread);
  // What comes from here on belongs to the op with this number, in the order in which they run.
  void begin_op(uint32_t op) { op_ = op; }
  // The next message of `from` is of this kind and has so many bytes; they are stored to `into`, if that is not null.
  void receive(Peer& peer, RecvStream& from, MessageKind message, uint32_t size_bytes, std::byte* into);
  void release(RecvStream& stream);
  // There is room for one more message.
  void await_room(Peer& peer, SendStream& to);
  // Places, which outlive this, hold where values lie, or go. A slot's value is there before it is sent.
  void send(Peer& peer, SendStream& to, MessageKind message, const std::byte** value, uint32_t size_bytes);
  void find(const std::byte** place, RecvStream& received);
  void find_slot(std::byte** place, SendStream& to, uint32_t size_bytes);
  void copy(const std::byte** from, std::byte** to, uint32_t size_bytes);
  // The spans' arrays outlive this.
  void reduce(const ReduceArgs& args);
  void clear();
  void reserve(size_t actions, size_t reductions);
  bool empty() const { return actions_.empty(); }

  // The call begins once more.
  void start() { at_ = 0; }
  // Goes as far as it can.
  Walk walk(uint64_t signature);
  // After kWaits: the peer that has not sent yet, or has no room; and the stream, if only its next message is missing.
  Peer& awaited_from() const { return *actions_[at_].peer; }
  const RecvStream* awaited() const { return actions_[at_].kind == Kind::kReceive ? actions_[at_].from : nullptr; }
  // After kElse: the op to go on with. Where one of its sends has failed, what comes before that is done: so many
  // sends.
  uint32_t op() const { return actions_[at_].op; }
  std::optional<uint32_t> sends_before_failed() const;
  size_t position() const { return at_; }

 private:
  enum class Kind : uint8_t { kReceive, kRelease, kAwaitRoom, kSend, kFind, kFindSlot, kCopy, kReduce };
  struct Action {
    Kind kind = Kind::kRelease;
    MessageKind message = MessageKind::kInline;
    uint32_t op = 0;
    uint32_t size_bytes = 0;
    uint32_t reduction = 0;
    Peer* peer = nullptr;
    RecvStream* from = nullptr;
    SendStream* to = nullptr;
    const std::byte** place = nullptr;
    std::byte* into = nullptr;
    std::byte** target = nullptr;
  };

  // One action; kDone: the next one's turn.
  Walk act(const Action& action, uint64_t signature) const;
  static bool take(const Action& action, uint64_t signature);
  static Walk send(const Action& action, uint64_t signature);

  std::vector<Action> actions_;
  std::vector<ReduceArgs> reductions_;
  Spread spread_;
  uint32_t op_ = 0;
  size_t at_ = 0;
};

}  // namespace tutti
