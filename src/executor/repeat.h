// Repeat: what is left to do of a call when the same one is made again, and every message is one line, with its payload
// there, in a slot, or in memory of a caller that others have mapped. Then all that changes from call to call is which
// lines and slots those are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "executor/common_slots.h"
#include "executor/peer.h"
#include "kernels/kernels.h"

namespace tutti {

class Repeat {
 public:
  // How far a walk came. kElse: a message is not as it was, a slot is to be filled from what lies elsewhere
  // (is_filled_apart()), no common slot is free and it is not known that one will be, or a send has failed.
  enum class Walk : uint8_t { kDone, kWaits, kElse };

  // What is noted from now on is of a new call, whose payloads go through their slots like this.
  void begin_call(const Spread& spread);
  // What comes from here on belongs to the op with this number, in the order in which they run.
  void begin_op(uint32_t op) { op_ = op; }
  // The next message of `from` is this one, but for where a slot has its payload; that is stored to `into`, if it is
  // not null. `lent`: the payload of a reference.
  void receive(Peer& peer, RecvStream& from, const Message& message, const std::byte* lent, std::byte* into);
  void release(RecvStream& stream);
  // There is room for one more message.
  void await_room(Peer& peer, SendStream& to);
  // Places, which outlive this, hold where values lie, or go. A slot's value, and one that is stored directly, is there
  // before it is sent.
  void send(Peer& peer, SendStream& to, const Message& message, const std::byte** value);
  void find(const std::byte** place, RecvStream& received);
  // `origin`: of the value that goes there, which may be copied there instead.
  void find_slot(std::byte** place, SendStream& to, uint32_t size_bytes, PayloadOrigin origin);
  // The value lies in a slot of this rank that the peers of these streams share; and where.
  void share_with(const SendStream& to) { sharing_.push_back(&to); }
  void find_common(std::byte** place, CommonSlots& slots, uint32_t size_bytes, PayloadOrigin origin);
  void send_common(Peer& peer, SendStream& to, const Message& message, CommonSlots& slots, std::byte** place);
  void copy(const std::byte** from, std::byte** to, uint32_t size_bytes);
  // The spans' arrays outlive this.
  void reduce(const ReduceArgs& args);
  // What comes until leave() reads or writes memory of these peers' callers: of all that is noted by lend() before.
  void enter();
  void leave();
  // Of `peer`; where `from` is not null, only if the message that it holds lies there. Of a peer there is one such
  // stream.
  void lend(Peer& peer, const RecvStream* from);
  void clear();
  void reserve(size_t actions, size_t reductions);
  bool empty() const { return actions_.empty(); }

  // The call begins once more.
  void start() {
    at_ = 0;
    is_left_ = false;
  }
  // Goes as far as it can. After kElse it goes nowhere.
  Walk walk(uint64_t signature);
  // After kWaits: the peer that has not sent yet, or has no room, or still reads a slot; and the stream, if only its
  // next message is missing.
  const Peer& awaited_from() const { return actions_[at_].peer != nullptr ? *actions_[at_].peer : *reads_common_; }
  const RecvStream* awaited() const { return actions_[at_].kind == Kind::kReceive ? actions_[at_].from : nullptr; }
  // After kElse: the op to go on with. Where one of its sends has failed, what comes before that is done: so many
  // sends.
  uint32_t op() const { return actions_[at_].op; }
  std::optional<uint32_t> sends_before_failed() const;
  size_t position() const { return at_; }

 private:
  enum class Kind : uint8_t {
    kReceive, kRelease, kAwaitRoom, kSend, kFind, kFindSlot, kFindCommon, kCopy, kReduce, kEnter, kLeave
  };
  struct Action {
    Kind kind = Kind::kRelease;
    MessageKind message = MessageKind::kInline;
    PayloadOrigin origin = PayloadOrigin::kUnseen;
    uint32_t op = 0;
    uint32_t size_bytes = 0;
    uint32_t index = 0;         // of its message, its reduction, or its first lender or stream that shares,
    uint32_t count = 0;         // of so many
    Peer* peer = nullptr;
    RecvStream* from = nullptr;
    SendStream* to = nullptr;
    CommonSlots* common = nullptr;
    const std::byte** place = nullptr;
    const std::byte* lent = nullptr;
    std::byte* into = nullptr;
    std::byte** target = nullptr;
  };
  struct Lender {
    Peer* peer = nullptr;
    const RecvStream* from = nullptr;

    bool lends() const { return from == nullptr || from->in_lent_memory(); }
  };

  // One action; kDone: the next one's turn.
  Walk act(const Action& action, uint64_t signature);
  bool take(const Action& action, uint64_t signature) const;
  bool is_as_noted(const Action& action, const Line& line) const;
  Walk send(const Action& action, uint64_t signature) const;
  Walk send_common(const Action& action, uint64_t signature) const;
  Walk find_common(const Action& action);
  bool enter(const Action& action) const;
  bool leave(const Action& action) const;
  bool leave(size_t first, size_t end) const;

  std::vector<Action> actions_;
  std::vector<Message> messages_;
  std::vector<ReduceArgs> reductions_;
  std::vector<Lender> lenders_;
  std::vector<const SendStream*> sharing_;
  size_t entered_ = 0;          // while it is noted: the first lender that is not part of an enter() yet
  size_t found_ = 0;            // and the first of sharing_ that is not part of a find_common() yet
  const Peer* reads_common_ = nullptr;  // after a walk that waits for a common slot
  Spread spread_;
  uint32_t op_ = 0;
  size_t at_ = 0;
  bool is_left_ = false;        // the walk came to kElse, and what was to be done there is done
};

}  // namespace tutti
