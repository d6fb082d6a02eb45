// The sending half of a lane: what goes onto its queue pair, in order, never more than the device's queue and the
// peer's receives have room for.
//
// Credits. Every message takes one of the peer's receives, and tells how many of its own the sender has posted again.
// Who owes half of them without having anything to say sends a message for that alone. Data leaves the last credit to
// it, so two ends that are full of data still hear of each other's progress.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "transports/verbs/link_memory.h"
#include "transports/verbs/queue_pair.h"

namespace tutti {

// A message that a lane has taken and its peer has not received.
struct Owed {
  MessageHead head;
  Line line;
  std::span<const std::byte> payload;  // in the message or before it; lies there as long as the lane, or until the put
  uint64_t put = 0;                    // of this number has completed
};

// What a put takes to the peer's memory.
struct PutSource {
  std::span<const std::byte> bytes;
  std::shared_ptr<const Registration> registration;  // of the memory it lies in; null where it has none, or is a stage
  const DeviceMemory* device = nullptr;              // through which the host reads it, if it is a GPU's
};

class VerbsSender {
 public:
  // Both are borrowed.
  VerbsSender(QueuePair& queue, const LinkMemory& memory) : queue_(queue), memory_(memory) {}
  // What the peer has said of itself.
  void begin(uint32_t peer_receives, const RemoteRange& peer_probe);

  // Whether it takes a put or a signal now; where it does not, they give kFull.
  bool may_send() const { return !put_.active && has_room(2) && credits() > 1 && refused_.ok(); }
  // Why the device took a request no more, after which it gets none: the queue pair has failed. What was refused counts
  // as taken, and goes again with what is owed.
  const Status& refused() const { return refused_; }
  // Why a payload could not be read, which then never leaves: of a GPU that has failed.
  const Status& unreadable() const { return unreadable_; }
  // That the device has not confirmed.
  uint64_t queued_bytes() const { return queued_bytes_; }
  // kFull: nothing was taken. Of a payload that does not fit into the message `head` has the place in the peer's
  // memory, `to` the same place for its device. `number`: the put's, for oldest_put().
  PutResult put(const RemoteRange& to, const PutSource& payload, MessageHead head, const Line& line, uint64_t number);
  // With a payload of head.payload_bytes in the message.
  PutResult signal(const MessageHead& head, const Line& line, std::span<const std::byte> payload = {});
  // Writes `pattern` to the peer's probe, then says so.
  Status probe(std::span<const std::byte> pattern);

  // What is posted between these two takes one doorbell, where nothing is copied that the device would wait for.
  void begin_batch() { in_batch_ = true; }
  void end_batch();

  // Goes on with a payload that was taken, and returns credits that are due.
  void advance();
  // Link::stage().
  std::byte* stage(size_t size_bytes);
  // Of a request that has completed, and by that all before it.
  void on_completed(uint64_t request);
  // Of a message that has come; its receive is posted again.
  void on_message(const MessageHead& head);
  // Asks for the completion of all that was posted.
  void ask_for_all();

  // The least number of a put whose payload is still needed where it is: until it has been copied to one block, or the
  // peer's device has confirmed it. UINT64_MAX if there is none.
  uint64_t oldest_put() const;
  // Whether a payload waits for a block, or memory of the caller is needed.
  bool has_unfinished() const { return put_.active || in_callers_memory_ > 0; }
  bool all_completed() const { return completed_ == posted_; }

  // The queue pair has failed, and the peer has received so many messages over it: what it has not. From here on
  // nothing is under way. Errors: that cannot be.
  Result<std::vector<Owed>> take_owed(uint64_t received);

 private:
  // Requests whose completion nobody waits for ask for one now and then, so that the queue's room comes back.
  static constexpr uint32_t kSignalEvery = 16;   // where only messages without a payload of their own go
  static constexpr uint32_t kBlocksAtOnce = 4;   // blocks become free together

  // The payload that is on its way through the blocks, and the message that follows it.
  struct Put {
    bool active = false;
    RemoteRange to;
    std::span<const std::byte> from;
    std::span<const std::byte> left;
    const DeviceMemory* device = nullptr;
    MessageHead head;
    Line line;
    uint64_t number = 0;
  };
  // A put whose payload is needed where it is: the device reads it there, or it does not fit into one block, and would
  // be needed again if the queue pair failed.
  struct Leaving {
    uint64_t put = 0;
    uint64_t request = 0;                               // whose completion ends that: of the message behind it
    std::shared_ptr<const Registration> registration;
    uint32_t stage = kStages;                           // which is its place; else it is the caller's
  };
  // A work request and the memory that it points to.
  struct Request {
    ibv_send_wr work{};
    ibv_sge memory{};
  };
  // One that was posted.
  struct Posted {
    std::span<const std::byte> bytes;
    uint64_t message = 0;                               // its number among the lane's messages; 0: a write
    bool is_owed = false;                               // the link's peer needs it, over whatever lane
    std::span<const std::byte> payload;                 // that was written before it
    uint64_t put = 0;
  };

  uint32_t credits() const { return peer_receives_ - static_cast<uint32_t>(messages_ - peer_reposted_); }
  bool has_room(uint32_t requests) const { return posted_ - completed_ + requests <= kSends; }
  // The payload, where its device reads it by `key`, and the message behind it, which tells when it has left.
  void post_put(const RemoteRange& to, std::span<const std::byte> from, uint32_t key, const MessageHead& head,
                const Line& line, uint64_t number);
  // The next request, numbered.
  Request& next_request();
  // It, with those that are linked behind it.
  void post(ibv_send_wr& first);
  // All that were kept for one doorbell.
  void ring();
  void keep(Leaving leaving);
  // All of the payload through the blocks, as far as there are any.
  void push();
  bool block_is_free() const { return block_users_[blocks_used_ % kBlocks] <= completed_; }
  // The copy of `from`, in the next block. Empty: unreadable().
  std::span<const std::byte> to_block(std::span<const std::byte> from, const DeviceMemory* device);
  void fill_write(Request& request, const RemoteRange& to, std::span<const std::byte> from, uint32_t key);
  void fill_message(Request& request, MessageHead head, const Line* line, std::span<const std::byte> payload);
  // The completion of the request tells that it and all before it are over.
  void ask_for(Request& request);
  void post_message(const MessageHead& head, const Line* line, std::span<const std::byte> payload);
  static Owed owed_of(const Posted& posted);

  QueuePair& queue_;
  const LinkMemory& memory_;
  uint32_t peer_receives_ = 0;
  RemoteRange peer_probe_;
  Status refused_;
  Status unreadable_;
  Put put_;
  uint64_t posted_ = 0;          // requests, numbered from 1
  uint64_t completed_ = 0;
  uint64_t confirmed_ = 0;                   // of what is owed: the last message that has completed
  std::array<Posted, kSends> posted_ones_;   // those that have not completed, by number
  std::array<Request, kSends> requests_;     // by number, too: what is kept for a doorbell is here
  bool in_batch_ = false;
  ibv_send_wr* first_kept_ = nullptr;        // since the last doorbell
  ibv_send_wr* last_kept_ = nullptr;
  uint64_t queued_bytes_ = 0;    // of them
  uint64_t messages_ = 0;        // of the requests
  uint64_t peer_reposted_ = 0;
  uint64_t reposted_ = 0;        // of our receives
  uint64_t told_ = 0;            // of them
  uint32_t unsignalled_ = 0;     // requests in a row that ask for no completion
  uint64_t blocks_used_ = 0;
  std::array<uint64_t, kBlocks> block_users_{};  // by block: the request that has read it last
  std::array<Leaving, kSends> leaving_;  // each has a request of its own under way, so there is always room
  uint64_t begun_ = 0;           // of them
  uint64_t left_ = 0;
  bool is_in_order_ = true;      // by their puts
  uint32_t in_callers_memory_ = 0;
  std::array<bool, kStages> stage_is_lent_{};
};

}  // namespace tutti
