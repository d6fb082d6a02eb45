// One queue pair of a link, from a port of this rank to one of the peer's, with all that it needs to move data. A link
// has one or several; when one fails, what the peer has not received over it goes over the others.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/deadline.h"
#include "transports/verbs/sender.h"
#include "transports/verbs/wire.h"

namespace tutti {

class VerbsLane {
 public:
  enum class State : uint8_t {
    kInUse,
    kShut,    // nothing crosses any more; what had come before is still being taken
    kTold,    // the peer was told how much has come
    kOver,    // and has told the same: what it has not received goes over other lanes
  };
  // An error of the queue pair.
  struct Broken {
    std::string what;
    bool is_consequence = false;  // of an earlier one
    bool is_silence = false;      // nothing came back
  };

  // On the port whose number among this rank's is `rail`. Its receives are posted.
  static Result<std::unique_ptr<VerbsLane>> create(const VerbsDevice& device, size_t rail);

  size_t rail() const { return rail_; }
  QueuePair& queue() { return *queue_; }
  VerbsSender& sender() { return sender_; }
  const VerbsSender& sender() const { return sender_; }
  const LinkMemory& memory() const { return memory_; }
  // What the peer is told of this end.
  Result<SideHello> hello() const;
  // What the peer has said of its end; by which addresses to go there (choose_route).
  Status join(const SideHello& hello, size_t tries_by_others);
  const Route& route() const { return route_; }
  // "from mlx5_0 port 1, queue pair 17 (RoCE v2 over IPv4 10.0.0.1) to ..."
  std::string ends() const;

  // Takes what has completed, and of what has come calls `receive(head, rest)`. True if anything has.
  template <typename Receive>
  Result<bool> take_completions(Receive&& receive);
  const std::optional<Broken>& broken() const { return broken_; }
  void note_broken(const ibv_wc& completion);
  // The device does not do what it is told any more.
  void note_broken(const Status& why);
  // The same at the peer's end.
  void note_lost_by_peer();

  State state() const { return state_; }
  void set_state(State state) { state_ = state; }
  bool is_in_use() const { return state_ == State::kInUse; }
  // Whether its queue may still have something: events are waited for.
  bool is_live() const { return state_ <= State::kShut; }
  // Nothing crosses any more, either way.
  void shut();
  // Since then all that had come has been taken. A device that is gone does not say so: what it has not told of by then
  // counts as not received, and is sent again, unless it was confirmed.
  bool is_drained() const { return posted_receives_ == 0 || is_deaf_ || is_swept_; }
  // Until is_drained(), if its completions are taken then.
  int drain_left_ms() const { return drained_at_most_.left_ms(); }
  uint64_t received() const { return received_; }
  // How many messages the peer has received over it, once it has said so.
  std::optional<uint64_t> peer_received;

 private:
  static constexpr size_t kTakenAtOnce = 16;
  static constexpr int kTakesPerPoll = 8;               // so that one busy peer does not keep the others waiting
  static constexpr uint64_t kReceiveBit = 1ull << 63;   // in the number of a receive; an error does not say what it was

  VerbsLane(const VerbsDevice& device, size_t rail, LinkMemory memory, std::unique_ptr<QueuePair> queue)
      : device_(device),
        rail_(rail),
        memory_(std::move(memory)),
        queue_(std::move(queue)),
        sender_(*queue_, memory_) {}
  Status post_receive(uint64_t slot);
  template <typename Receive>
  Status on_receive(const ibv_wc& completion, Receive&& receive);

  const VerbsDevice& device_;
  const size_t rail_;
  LinkMemory memory_;
  std::unique_ptr<QueuePair> queue_;
  VerbsSender sender_;
  std::string peer_name_;        // "mlx5_1 port 1, queue pair 17"
  Route route_;
  State state_ = State::kInUse;
  std::optional<Broken> broken_;
  uint64_t received_ = 0;
  uint64_t posted_receives_ = 0;
  bool is_deaf_ = false;         // its completions cannot be taken
  Deadline drained_at_most_ = Deadline::never();
  bool is_swept_ = false;        // nothing was there after that
};

template <typename Receive>
Result<bool> VerbsLane::take_completions(Receive&& receive) {
  std::array<ibv_wc, kTakenAtOnce> completions;
  bool any = false;
  for (int i = 0; i < kTakesPerPoll && !is_deaf_; ++i) {
    bool was_time = !is_in_use() && drained_at_most_.passed();  // when it was looked, not some time later
    auto taken = queue_->take(completions);
    is_deaf_ = !taken.ok();
    if (is_deaf_) note_broken(taken.status());
    size_t count = taken.ok() ? *taken : 0;
    for (const ibv_wc& each : std::span(completions).first(count)) {
      bool is_receive = (each.wr_id & kReceiveBit) != 0;
      if (is_receive) --posted_receives_;
      if (each.status != IBV_WC_SUCCESS) {
        note_broken(each);
      } else if (is_receive) {
        TUTTI_TRY(on_receive(each, receive));
      } else {
        sender_.on_completed(each.wr_id);
      }
    }
    any = any || count > 0;
    if (count < completions.size()) {
      is_swept_ = was_time;
      break;
    }
  }
  if (!sender_.refused().ok()) note_broken(sender_.refused());
  return any;
}

// The receive is posted again, but where nothing comes any more.
template <typename Receive>
Status VerbsLane::on_receive(const ibv_wc& completion, Receive&& receive) {
  uint64_t slot = completion.wr_id & ~kReceiveBit;
  std::span<const std::byte> message(memory_.receive_slot(slot), kMessageBytes);
  if (completion.byte_len < sizeof(MessageHead) || completion.byte_len > message.size()) {
    return error(Code::kRemote, "the peer sent a message of {} bytes", completion.byte_len);
  }
  MessageHead head;
  std::memcpy(&head, message.data(), sizeof head);
  TUTTI_TRY(receive(head, message.subspan(sizeof head, completion.byte_len - sizeof head)));
  ++received_;
  if (!is_in_use()) return {};
  if (Status posted = post_receive(slot); !posted.ok()) note_broken(posted);
  sender_.on_message(head);
  return {};
}

}  // namespace tutti
