// Peer: everything the executor keeps about one other rank: the link, the two arenas, and the streams both ways.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/failure.h"
#include "base/status.h"
#include "executor/buffer_pool.h"
#include "executor/message.h"
#include "executor/slot_stores.h"
#include "executor/stream_layout.h"
#include "transports/transport.h"

namespace tutti {

class Peer;

// How payloads go through mapped slots. A line that the receiver's core still has takes several times as long to write
// as one that has left its cache meanwhile, so a payload does not lie where the last one lay. What is small stays in
// the first-level caches instead, where few places are best.
struct Spread {
  uint64_t least_bytes = 0;  // of payloads from this size on
  uint64_t bytes = 0;        // of a stream's slots together: so much is written before a place is again; 0: no spread
  uint64_t own_bytes = UINT64_MAX;  // buffers of calls from this size on take the lines out of all caches themselves

  // What else such a call reads and writes for each byte of a payload is three times as much: a quarter will do. Where
  // results go past the caches what is read takes the lines out late: soon enough only where a reduction reads as much
  // as it gets.
  Spread of_call(uint64_t size_bytes, bool reduces, bool streams) const {
    bool take_out = size_bytes >= own_bytes && (reduces || !streams);
    return take_out ? Spread{least_bytes, bytes / 4, own_bytes} : *this;
  }
};

// Where the slots of one stream lie, and which one is next. The two ends go through them alike. Large payloads in a row
// are in two of them by turns, the others in all.
struct SlotRing {
  std::byte* first = nullptr;
  uint64_t stride = 0;
  uint64_t room_bytes = 0;            // of each slot
  uint64_t large_bytes = UINT64_MAX;  // payloads of more than that are large; only where there are more than two slots
  uint32_t count = 0;
  uint32_t next = 0;
  uint32_t laps = 0;                  // how often all have had their turn
  uint32_t larges_in_row = 0;         // large payloads in a row so far

  SlotRing(std::byte* first, const SlotShape& shape, uint32_t count, uint64_t large_bytes)
      : first(first), stride(shape.stride()), room_bytes(shape.room_bytes), large_bytes(large_bytes), count(count) {
    TUTTI_CHECK(large_bytes == UINT64_MAX || count > 2);
  }
  SlotRing() = default;

  bool is_large(uint64_t size_bytes) const { return size_bytes > large_bytes; }
  // Whether the next payload, which is of that size, goes where the last but one lies.
  bool is_by_turns(uint64_t size_bytes) const { return is_large(size_bytes) && larges_in_row >= 2; }
  // Where it goes.
  uint32_t index(uint64_t size_bytes) const { return is_large(size_bytes) ? latest() : next; }
  std::byte* slot(uint64_t size_bytes) const { return first + index(size_bytes) * stride; }
  // Of the slots where the next payload may go, the one that was taken last.
  uint32_t latest() const { return larges_in_row < 2 ? next : (next + count - 2 + larges_in_row % 2) % count; }
  void advance(uint64_t size_bytes) {
    larges_in_row = is_large(size_bytes) ? larges_in_row + 1 : 0;
    if (larges_in_row > 2 || ++next < count) return;
    next = 0;
    ++laps;
  }

  // How far behind the start of the next slot its sender puts a payload.
  uint64_t offset(uint64_t size_bytes, const Spread& spread) const {
    uint64_t places = places_in_slot(size_bytes, spread);
    return places > 1 ? laps % places * padded(size_bytes) : 0;
  }
  // So many places there are for such payloads in a row.
  uint64_t places(uint64_t size_bytes, const Spread& spread) const {
    return (is_large(size_bytes) ? 2 : count) * places_in_slot(size_bytes, spread);
  }

 private:
  static uint64_t padded(uint64_t size_bytes) { return ceil_div(size_bytes, sizeof(Line)) * sizeof(Line); }
  uint64_t places_in_slot(uint64_t size_bytes, const Spread& spread) const {
    if (size_bytes < spread.least_bytes || size_bytes == 0) return 1;
    return std::max<uint64_t>(1, std::min(room_bytes, spread.bytes / count) / padded(size_bytes));
  }
};

// Messages to the peer, in order. A message's line and slot may be used again once the peer has released the message.
class SendStream {
 public:
  SendStream(Peer& peer, int channel);

  // Whether there is a line and a slot for one more message.
  bool has_room() const {
    uint64_t to_be_freed = std::max(awaited_user_, sent_ < line_count_ ? 0 : sent_ - line_count_ + 1);
    return freed_seen_ >= to_be_freed || freed() >= to_be_freed;
  }
  // Whether the peer has released the message with this number.
  bool is_released(uint64_t number) const { return freed_seen_ >= number || freed() >= number; }
  // Whether the peer has released all messages that referred to memory of the caller, and all chunks of it.
  bool references_released() const {
    return is_released(referenced_) && (chunks_lent_ == chunks_seen_ || chunks_back() == chunks_lent_);
  }
  // Where the payload of the next message goes: the peer's slot itself when it is mapped, else memory that stands for
  // it here until the link has sent it, the link's own if it has some. The message's send() goes by the last call.
  std::byte* slot(uint64_t size_bytes, const Spread& spread);
  // Copies the payload of the next message there, where it is mapped. A byte of a copy in memory takes so long.
  void fill(PayloadOrigin origin, std::byte* slot, const std::byte* from, uint64_t size_bytes, const Spread& spread,
            float memory_ns_per_byte) {
    stores_.store(origin, slot, from, size_bytes, slots_.places(size_bytes, spread), memory_ns_per_byte);
  }
  // Whether it is to be filled from what lies elsewhere, and not by whatever computes that.
  bool is_filled_apart(PayloadOrigin origin, uint64_t size_bytes) const {
    return peer_is_mapped_ && stores_.are_apart(origin, size_bytes);
  }
  // How many messages went out so far.
  uint64_t sent() const { return sent_; }
  const Peer& peer() const { return peer_; }
  // Sends the next message. `payload` is read from until the link has sent it (not mapped) and ignored for kinds
  // without a slot, and on a mapped link, where it lies in slot() already. With `into` it is put there first, in memory
  // that the peer has shared: kDirect where that is not mapped. kFull: nothing happened.
  Result<PutResult> send(const Message& message, uint64_t signature, const std::byte* payload,
                         const RemoteSlice& into = {}) {
    return send(encode(message, sent_ + 1, signature, payload), {payload, message.size_bytes}, into);
  }
  // The same of kInline.
  Result<PutResult> send_inline(uint64_t signature, std::span<const std::byte> payload);

 private:
  friend class Peer;
  // A buffer that the link reads from until it has completed so many puts.
  struct Filled {
    uint64_t put = 0;
    BufferPool::Buffer buffer;
  };

  Result<PutResult> send(Line&& line, std::span<const std::byte> payload, RemoteSlice into);
  RemoteSlice next_line() const;
  // Where the payload of the next message goes, which is of this kind, when the slots are not mapped.
  RemoteSlice place_of_next(MessageKind kind, uint64_t size_bytes) const;
  uint64_t freed() const { return freed_seen_ = load_counter(*freed_); }
  uint64_t chunks_back() const { return chunks_seen_ = load_counter(*chunks_back_); }
  // Gives buffers back to the pool that the link has sent.
  void give_back(uint64_t puts_completed);

  Peer& peer_;
  const uint64_t lines_offset_;     // in the peer's arena
  const uint64_t payloads_offset_;
  const uint64_t line_count_;
  SlotRing slots_;                  // the peer's, when they are mapped
  uint64_t offset_ = 0;             // in such a slot, of the message that is to take the next one
  uint64_t awaited_user_ = 0;       // number of the last message that has taken slots_.latest()
  std::vector<uint64_t> slot_users_;  // the same of each slot
  std::byte* stage_ = nullptr;      // stands for the next slot, when they are not: memory of the link,
  BufferPool::Buffer filling_;      // or ours
  std::vector<Filled> filled_;      // in the order of their puts
  const Line* const freed_;         // the peer counts there the messages that it has released
  uint64_t sent_ = 0;
  uint64_t referenced_ = 0;         // number of the last message that refers to the caller's memory,
  uint64_t chunks_lent_ = 0;        // but for those of whole chunks, which outlive their messages: so many
  mutable uint64_t freed_seen_ = 0;
  mutable uint64_t chunks_seen_ = 0;
  const Line* const chunks_back_;   // the peer counts there the chunks that it has released
  // Behind what calls over shared memory use.
  const uint64_t shorts_offset_;
  const uint64_t short_stride_;
  const int channel_;               // as links know it
  const bool peer_is_mapped_;
  SlotStores stores_;               // into slots of such a peer
};

// Whether a payload comes from memory of the sender's caller, and still lies there.
enum class Lent : uint8_t { kNo, kRead, kInPlace };

// Messages from the peer, in order, one at a time: receive, use, release.
class RecvStream {
 public:
  RecvStream(Peer& peer, int channel);

  // The next message is here.
  bool ready() const { return load_counter(next_line()) == taken_ + 1; }
  const Line& next_line() const { return lines_[taken_ & (line_count_ - 1)]; }  // valid when ready()
  // While the next message is not here, whose payload lies in the first so many bytes of its slot: these come with its
  // line then, and not after it. Does nothing where the last one's lay in a slot of the sender's.
  void fetch_ahead(uint64_t size_bytes) const {
    if (in_common_slot_) return;
    for (uint64_t at = 0; at < size_bytes; at += sizeof(Line)) __builtin_prefetch(slots_.slot(size_bytes) + at);
  }
  // Of the next message, if it takes one for so many bytes.
  std::byte* slot(uint64_t size_bytes) const { return slots_.slot(size_bytes); }
  // Where the payload of the next message begins, which is of kSlot and `message`; null: it does not lie in its slot.
  const std::byte* payload_in_slot(const Message& message) const {
    uint64_t offset = message.payload.offset;
    bool inside = offset <= slots_.room_bytes && message.size_bytes <= slots_.room_bytes - offset;
    return inside ? slots_.slot(message.size_bytes) + offset : nullptr;
  }
  // The same of kShort.
  const std::byte* payload_beside_line(const Message& message) const {
    return message.size_bytes <= short_bytes_ ? shorts_ + (taken_ & (line_count_ - 1)) * short_stride_ : nullptr;
  }
  // The same of kCommon.
  const std::byte* payload_in_arena(const Message& message) const;
  // While the next message is not here: its payload, if that has so many bytes, may come to `place`, wherever its
  // sender puts it.
  void divert(std::span<std::byte> place);
  bool is_diverted() const { return is_diverted_; }
  // From now on it may not. Whether it has come there.
  bool divert_no_more();
  // Takes the next message, which is of this kind; its payload is `payload` until release().
  void take(MessageKind kind, const std::byte* payload, uint64_t size_bytes, Lent lent);

  bool holding() const { return taken_ > released_; }
  // How many messages were taken so far.
  uint64_t taken() const { return taken_; }
  // Whether the payload lies in memory of the sender's caller.
  bool in_lent_memory() const { return lent_ == Lent::kInPlace; }
  const std::byte* payload() const { return payload_; }
  uint64_t size_bytes() const { return size_bytes_; }
  // Lets the sender reuse the slot, or the memory that it lent. A lender waits for that and is
  // told at once, as is the owner of a slot that others read too; otherwise in batches. What a full link does not take
  // is told by Peer::poll().
  void release() {
    if (holding()) release_held();
  }
  // Lets the sender reuse a chunk that a released message has lent (Message::with_rest), and tells it.
  void release_chunk();
  // Tells the sender what is due. Does nothing when nothing is.
  void tell();
  bool owes() const { return (due_ && told_ < released_) || chunks_told_ < chunks_released_; }

 private:
  void release_held();
  void tell_of_chunks();

  Peer& peer_;
  SlotRing slots_;
  const Line* const lines_;
  const uint64_t line_count_;
  const uint64_t freed_offset_;  // in the peer's arena
  const uint64_t chunks_back_offset_;
  // The sender is told of so many released slots, or messages, at the latest.
  const uint32_t most_slots_owed_;
  const uint64_t most_lines_owed_;
  uint64_t taken_ = 0;
  const bool may_wait_;          // of a collective: whoever sends this rank something also gets something soon
  uint64_t sent_at_tell_ = 0;    // what this rank had sent the peer when it told last
  bool in_slot_ = false;         // the held message has a slot
  bool in_common_slot_ = false;  // or shares one with others
  uint32_t slots_owed_ = 0;      // released ones that the sender was not told of
  uint64_t released_ = 0;
  uint64_t told_ = 0;
  uint64_t chunks_released_ = 0;
  uint64_t chunks_told_ = 0;
  const std::byte* payload_ = nullptr;
  uint64_t size_bytes_ = 0;
  bool due_ = false;  // the sender must hear of released_
  Lent lent_ = Lent::kNo;
  // Behind what calls over shared memory use.
  const std::byte* const shorts_;  // beside the lines
  const uint64_t short_bytes_;
  const uint64_t short_stride_;
  // The peer's common slots, in its arena.
  const uint64_t commons_offset_;
  const uint64_t commons_bytes_;
  const std::byte* const commons_;
  bool is_diverted_ = false;  // the next message's payload may come elsewhere
};

class Peer {
 public:
  // `arena` is this rank's, `remote_arena` the peer's as the link knows it. Everything outlives the Peer.
  // `reaches_device_memory`: the link puts from memory of GPUs, and into it.
  Peer(int self, Link& link, const StreamLayout& layout, std::span<std::byte> arena, const RemoteMemory& remote_arena,
       bool reaches_device_memory = false);

  int rank() const { return rank_; }
  int self() const { return self_; }
  Link& link() { return link_; }
  bool mapped() const { return remote_arena_.mapped != nullptr; }
  bool reaches_device_memory() const { return reaches_device_memory_; }
  SendStream& send_stream(int channel) { return sends_[channel]; }
  RecvStream& recv_stream(int channel) { return recvs_[channel]; }

  // Moves the link forward. What breaks it is kept: an error only for those who still need this
  // peer, since a rank that has done its part may leave while others are busy with each other.
  void poll();
  bool is_broken() const { return broken_.happened(); }
  Status broken() const { return broken_.status(); }
  // Memory that the peer has shared; null while it has not arrived.
  const RemoteMemory* find(uint32_t memory_id);
  // Whether this rank wishes to pull what the peer sends it in such calls, of which there are kWishes. Told only where
  // that changes, and seen by the peer some time later.
  void wish(int wish, bool pulls);
  // What the peer wishes of this rank.
  bool is_wished(int wish) const {
    const Line& line = wishes_of_peer_[wish / StreamLayout::kWishesOfLine];
    return (load_counter(line) & bit_of_wish(wish)) != 0;
  }
  // Whether several threads run channels to it, which they may where !needs_poll(): poll() is not called then.
  void set_shared(bool shared) { is_shared_ = shared; }
  // Whether every sender has heard of what it waits for.
  bool told_all() const;
  bool needs_poll() const { return needs_poll_; }
  // Whether its payloads can be diverted (Link::divert()).
  bool lands() const { return link_.traits().lands; }
  // Of buffers that stand for slots.
  size_t buffer_bytes() const;
  // Whether all that was handed to the link has left it, and with it the caller's memory.
  bool sent_all() const { return !needs_poll_ || is_broken() || !link_.has_pending(); }
  // Payloads that the link has taken so far, and those of them that have left it.
  uint64_t puts() const { return puts_; }
  uint64_t puts_completed() const { return puts_completed_; }
  // While it is there, what is sent to the peer may be kept back, to leave together; the peer is not polled.
  class Batch {
   public:
    explicit Batch(Peer& peer) : link_(peer.needs_poll() ? &peer.link() : nullptr) {
      if (link_ != nullptr) link_->begin_batch();
    }
    ~Batch() {
      if (link_ != nullptr) link_->end_batch();
    }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

   private:
    Link* const link_;
  };
  // Gives the buffers back to the pool, when all that was handed to the link has left it.
  void give_back_buffers();
  // Whether the link has taken something since the last time this was asked: what arm() adds may be another thing then.
  bool take_handed() { return std::exchange(handed_, false); }

 private:
  friend class SendStream;
  friend class RecvStream;

  SlotRing slots_at(std::byte* first, int channel) const;
  static uint64_t bit_of_wish(int wish) { return uint64_t{1} << (wish % StreamLayout::kWishesOfLine); }

  const int self_;
  const int rank_;
  Link& link_;
  const StreamLayout& layout_;
  const std::span<std::byte> arena_;
  const RemoteMemory& remote_arena_;
  const bool needs_poll_;
  const bool reaches_device_memory_;
  const Line* const wishes_of_peer_;   // a bit for each
  std::array<uint64_t, StreamLayout::kWishes / StreamLayout::kWishesOfLine> wishes_{};  // the same of this rank
  uint64_t messages_ = 0;              // where links need polling: sent on all streams
  uint64_t puts_ = 0;
  uint64_t puts_completed_ = 0;
  Failure broken_;
  bool handed_ = false;
  bool is_shared_ = false;
  std::mutex find_mutex_;              // while it is shared
  std::vector<SendStream> sends_;      // by channel
  std::vector<RecvStream> recvs_;
};

}  // namespace tutti
