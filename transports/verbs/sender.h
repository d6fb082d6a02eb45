// The sending half of a verbs link: what goes onto its queue pair, in order, never more than the device's queue and the
// peer's receives have room for.
//
// Credits. Every message takes one of the peer's receives, and tells how many of its own the sender has posted again.
// Who owes half of them without having anything to say sends a message for that alone. Data leaves the last credit to
// it, so two ends that are full of data still hear of each other's progress.
#pragma once

#include <array>
#include <span>

#include "base/deadline.h"
#include "transports/verbs/link_memory.h"
#include "transports/verbs/queue_pair.h"

namespace tutti {

class VerbsSender {
 public:
  // Both are borrowed.
  VerbsSender(QueuePair& queue, const LinkMemory& memory) : queue_(queue), memory_(memory) {}
  // What the peer has said of itself.
  void begin(uint32_t peer_receives, const RemoteRange& peer_probe);

  // kFull: nothing was taken. Of a payload that does not fit into the message `head` has the place in the peer's
  // memory, `to` the same place for its device.
  Result<PutResult> put(const RemoteRange& to, std::span<const std::byte> from, MessageHead head, const Line& line);
  Result<PutResult> signal(const MessageHead& head, const Line& line);
  // Writes `pattern` to the peer's probe, then says so.
  Status probe(std::span<const std::byte> pattern);

  // Goes on with a payload that was taken, and returns credits that are due.
  Status advance();
  // Of a request that has completed, and by that all before it.
  void on_completed(uint64_t request) { completed_ = request; }
  // Of a message that has come; its receive is posted again.
  void on_message(const MessageHead& head);
  // Asks for the completion of all that was posted.
  Status ask_for_all();

  // Payloads that were taken from where they were.
  uint64_t puts_completed() const { return puts_completed_; }
  bool has_unfinished() const { return put_.active; }
  bool all_completed() const { return completed_ == posted_; }

 private:
  static constexpr uint32_t kSignalEvery = 16;  // messages without a payload of their own

  // The payload that is on its way through the blocks, and the message that follows it.
  struct Put {
    bool active = false;
    RemoteRange to;
    std::span<const std::byte> left;
    MessageHead head;
    Line line;
  };
  // A work request and the memory that it points to.
  struct Request {
    ibv_send_wr work{};
    ibv_sge memory{};
  };

  uint32_t credits() const { return peer_receives_ - static_cast<uint32_t>(messages_ - peer_reposted_); }
  bool has_room(uint32_t requests) const { return posted_ - completed_ + requests <= kSends; }
  bool may_send() const { return !put_.active && has_room(1) && credits() > 1; }
  // All of the payload through the blocks, as far as there are any.
  Status push();
  bool block_is_free() const { return block_users_[blocks_used_ % kBlocks] <= completed_; }
  void fill_write(Request& request, const RemoteRange& to, std::span<const std::byte> from);
  void fill_message(Request& request, MessageHead head, const Line* line, std::span<const std::byte> payload);
  Status post_message(const MessageHead& head, const Line* line, std::span<const std::byte> payload);

  QueuePair& queue_;
  const LinkMemory& memory_;
  uint32_t peer_receives_ = 0;
  RemoteRange peer_probe_;
  Put put_;
  uint64_t posted_ = 0;          // requests, numbered from 1
  uint64_t completed_ = 0;
  uint64_t messages_ = 0;        // of the requests
  uint64_t peer_reposted_ = 0;
  uint64_t reposted_ = 0;        // of our receives
  uint64_t told_ = 0;            // of them
  uint32_t unsignalled_ = 0;     // messages in a row that ask for no completion
  uint64_t blocks_used_ = 0;
  std::array<uint64_t, kBlocks> block_users_{};  // by block: the request that has read it last
  uint64_t puts_completed_ = 0;
};

}  // namespace tutti
