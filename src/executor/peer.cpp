#include "executor/peer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

namespace tutti {
namespace {

const Line* line_at(std::span<std::byte> arena, uint64_t offset) {
  return reinterpret_cast<const Line*>(arena.data() + offset);
}

}  // namespace

Peer::Peer(int self, Link& link, const StreamLayout& layout, std::span<std::byte> arena,
           const RemoteMemory& remote_arena, bool reaches_device_memory)
    : self_(self),
      rank_(link.peer()),
      link_(link),
      layout_(layout),
      arena_(arena),
      remote_arena_(remote_arena),
      needs_poll_(link.needs_poll()),
      reaches_device_memory_(reaches_device_memory),
      wishes_of_peer_(line_at(arena, layout.wishes_offset(link.peer(), 0))) {
  TUTTI_CHECK(arena.size() >= layout.arena_bytes() && remote_arena.size_bytes >= layout.arena_bytes());
  sends_.reserve(layout.streams_per_peer());
  recvs_.reserve(layout.streams_per_peer());
  for (int channel = 0; channel < layout.streams_per_peer(); ++channel) {
    sends_.emplace_back(*this, channel);
    recvs_.emplace_back(*this, channel);
  }
}

void Peer::poll() {
  if (is_broken()) return;
  if (Status polled = link_.poll(&puts_completed_); !polled.ok()) broken_.set(std::move(polled));
  for (SendStream& stream : sends_) stream.give_back(puts_completed_);
  for (RecvStream& stream : recvs_) stream.tell();
}

const RemoteMemory* Peer::find(uint32_t memory_id) {
  std::unique_lock lock(find_mutex_, std::defer_lock);
  if (is_shared_) lock.lock();
  return link_.find(memory_id);
}

void Peer::wish(int wish, bool pulls) {
  uint64_t& wishes = wishes_[static_cast<size_t>(wish / StreamLayout::kWishesOfLine)];
  Line line;
  line.words[0] = pulls ? wishes | bit_of_wish(wish) : wishes & ~bit_of_wish(wish);
  if (line.words[0] == wishes || is_broken()) return;
  auto told = link_.signal({&remote_arena_, layout_.wishes_offset(self_, wish)}, line);
  if (told.ok() && *told == PutResult::kDone) wishes = line.words[0];
  if (!told.ok()) broken_.set(std::move(told).status());
}

SlotRing Peer::slots_at(std::byte* first, int channel) const {
  auto count = static_cast<uint32_t>(layout_.slots_in_use(channel, mapped()));
  return {first, layout_.shape(channel), count, layout_.large_bytes(channel, mapped())};
}

size_t Peer::buffer_bytes() const {
  size_t bytes = 0;
  for (const SendStream& stream : sends_) {
    bytes += stream.filling_.size();
    for (const SendStream::Filled& filled : stream.filled_) bytes += filled.buffer.size();
  }
  return bytes;
}

void Peer::give_back_buffers() {
  if (!sent_all()) return;
  for (SendStream& stream : sends_) stream.give_back(puts_);
}

bool Peer::told_all() const {
  return std::none_of(recvs_.begin(), recvs_.end(), [](const RecvStream& stream) { return stream.owes(); });
}

SendStream::SendStream(Peer& peer, int channel)
    : peer_(peer),
      lines_offset_(peer.layout_.line_offset(peer.self_, channel, 0)),
      payloads_offset_(peer.layout_.payload_offset(peer.self_, channel, 0)),
      line_count_(peer.layout_.shape(channel).message_lines()),
      slots_(peer.slots_at(peer.mapped() ? peer.remote_arena_.mapped + payloads_offset_ : nullptr, channel)),
      slot_users_(slots_.count),
      freed_(line_at(peer.arena_, peer.layout_.freed_offset(peer.rank(), channel))),
      chunks_back_(line_at(peer.arena_, peer.layout_.chunks_back_offset(peer.rank(), channel))),
      shorts_offset_(peer.layout_.short_offset(peer.self_, channel, 0)),
      short_stride_(peer.layout_.shape(channel).short_stride()),
      channel_(channel == peer.layout_.direct_channel() ? kNoChannel : channel),
      peer_is_mapped_(peer.mapped()) {
  if (!peer.mapped()) filled_.reserve(std::max<uint64_t>(slots_.count, line_count_));
}

std::byte* SendStream::slot(uint64_t size_bytes, const Spread& spread) {
  if (peer_.mapped()) {
    offset_ = slots_.offset(size_bytes, spread);
    return slots_.slot(size_bytes) + offset_;
  }
  if (stage_ == nullptr && !filling_) stage_ = peer_.link_.stage(peer_.layout_.slot_bytes, channel_);
  if (stage_ == nullptr && (!filling_ || filling_.size() < size_bytes)) {
    bool is_short = size_bytes <= StreamLayout::kShortBytes;
    filling_ = BufferPool::of_process().take(is_short ? StreamLayout::kShortBytes : peer_.layout_.slot_bytes);
  }
  return stage_ != nullptr ? stage_ : filling_.data();
}

void SendStream::give_back(uint64_t puts_completed) {
  if (filled_.empty()) return;
  auto first_kept = std::find_if(filled_.begin(), filled_.end(),
                                 [puts_completed](const Filled& filled) { return filled.put > puts_completed; });
  filled_.erase(filled_.begin(), first_kept);
}

RemoteSlice SendStream::next_line() const {
  return {&peer_.remote_arena_, lines_offset_ + (sent_ & (line_count_ - 1)) * sizeof(Line)};
}

RemoteSlice SendStream::place_of_next(MessageKind kind, uint64_t size_bytes) const {
  bool is_short = kind == MessageKind::kShort;
  uint64_t offset = is_short ? shorts_offset_ + (sent_ & (line_count_ - 1)) * short_stride_
                             : payloads_offset_ + slots_.index(size_bytes) * slots_.stride;
  return {&peer_.remote_arena_, offset};
}

Result<PutResult> SendStream::send_inline(uint64_t signature, std::span<const std::byte> payload) {
  Line line;
  line.words[0] = sent_ + 1;
  line.words[1] = signature;
  line.words[2] = kind_and_size(MessageKind::kInline, payload.size());
  std::memcpy(&line.words[3], payload.data(), payload.size());
  auto result = peer_.link_.signal(next_line(), line);
  if (!result.ok() || *result == PutResult::kFull) return result;
  if (peer_.needs_poll_) {
    peer_.handed_ = true;
    ++peer_.messages_;
  }
  ++sent_;
  return result;
}

// By reference: a copy would load 16 bytes at a time what was just stored in words of 8, which a core can do only when
// they have left its store buffer, behind the whole payload.
Result<PutResult> SendStream::send(Line&& line, std::span<const std::byte> payload, RemoteSlice into) {
  MessageKind kind = kind_of(line);
  RemoteSlice where = next_line();
  if (kind == MessageKind::kSlot && peer_.mapped()) set_offset_in_slot(line, offset_);
  if (lies_in_arena(kind) && !peer_.mapped()) into = place_of_next(kind, payload.size());
  bool by_put = into.memory != nullptr;
  PutResult result;
  if (by_put) {
    result = TUTTI_TRY(peer_.link_.put(into, payload, where, line, channel_));
  } else {
    result = TUTTI_TRY(peer_.link_.signal(where, line));
  }
  if (result == PutResult::kFull) return result;
  if (peer_.needs_poll_) {
    peer_.handed_ = true;
    ++peer_.messages_;
  }
  if (by_put) ++peer_.puts_;
  if (by_put && payload.data() == stage_) stage_ = nullptr;
  if (by_put && payload.data() == filling_.data()) filled_.push_back({peer_.puts_, std::move(filling_)});
  ++sent_;
  if (takes_slot(kind)) {
    if (peer_is_mapped_) stores_.count(payload.size());
    slot_users_[slots_.index(payload.size())] = sent_;
    slots_.advance(payload.size());
    awaited_user_ = slot_users_[slots_.latest()];
  }
  if (kind == MessageKind::kReference && has_rest(line)) {
    ++chunks_lent_;
  } else if (kind == MessageKind::kReference || kind == MessageKind::kPull) {
    referenced_ = sent_;
  }
  return result;
}

RecvStream::RecvStream(Peer& peer, int channel)
    : peer_(peer),
      slots_(peer.slots_at(peer.arena_.data() + peer.layout_.payload_offset(peer.rank(), channel, 0), channel)),
      lines_(line_at(peer.arena_, peer.layout_.line_offset(peer.rank(), channel, 0))),
      line_count_(peer.layout_.shape(channel).message_lines()),
      freed_offset_(peer.layout_.freed_offset(peer.self_, channel)),
      chunks_back_offset_(peer.layout_.chunks_back_offset(peer.self_, channel)),
      most_slots_owed_(static_cast<uint32_t>(told_at_once(static_cast<int>(slots_.count)))),
      most_lines_owed_(static_cast<uint64_t>(told_at_once(static_cast<int>(line_count_)))),
      may_wait_(channel != peer.layout_.direct_channel()),
      shorts_(peer.arena_.data() + peer.layout_.short_offset(peer.rank(), channel, 0)),
      short_bytes_(peer.layout_.shape(channel).short_bytes),
      short_stride_(peer.layout_.shape(channel).short_stride()),
      commons_offset_(may_wait_ ? peer.layout_.common_offset(channel) : 0),
      commons_bytes_(may_wait_ ? peer.layout_.common_shape().bytes() : 0),
      commons_(may_wait_ && peer.mapped() ? peer.remote_arena_.mapped + commons_offset_ : nullptr) {}

const std::byte* RecvStream::payload_in_arena(const Message& message) const {
  uint64_t at = message.payload.offset - commons_offset_;  // more than there are where it lies before them
  bool inside = at <= commons_bytes_ && message.size_bytes <= commons_bytes_ - at;
  return inside && commons_ != nullptr ? commons_ + at : nullptr;
}

void RecvStream::divert(std::span<std::byte> place) {
  is_diverted_ = true;
  peer_.link_.divert(next_line(), taken_ + 1, place);
}

bool RecvStream::divert_no_more() {
  return std::exchange(is_diverted_, false) && peer_.link_.divert_no_more(next_line());
}

void RecvStream::take(MessageKind kind, const std::byte* payload, uint64_t size_bytes, Lent lent) {
  TUTTI_CHECK(!holding());
  ++taken_;
  in_slot_ = takes_slot(kind);
  in_common_slot_ = kind == MessageKind::kCommon;
  if (in_slot_) slots_.advance(size_bytes);
  payload_ = payload;
  size_bytes_ = size_bytes;
  lent_ = lent;
}

void RecvStream::release_held() {
  released_ = taken_;
  // Of two slots by turns none is to spare: their sender hears at once.
  if (in_slot_) slots_owed_ += slots_.is_large(size_bytes_) ? most_slots_owed_ : 1;
  bool batch_full = slots_owed_ >= most_slots_owed_ || released_ - told_ >= most_lines_owed_;
  due_ = due_ || lent_ != Lent::kNo || in_common_slot_ || batch_full;
  tell();
}

void RecvStream::release_chunk() {
  ++chunks_released_;
  tell_of_chunks();
}

void RecvStream::tell_of_chunks() {
  if (chunks_told_ == chunks_released_) return;
  Line line;
  line.words[0] = chunks_released_;
  auto result = peer_.link_.signal({&peer_.remote_arena_, chunks_back_offset_}, line);
  if (result.ok() && *result == PutResult::kFull) return;
  if (!result.ok()) peer_.broken_.set(std::move(result).status());
  if (peer_.needs_poll_) peer_.handed_ = true;
  chunks_told_ = chunks_released_;
}

void RecvStream::tell() {
  tell_of_chunks();
  if (!due_) return;
  Line line;
  line.words[0] = released_;
  RemoteSlice where{&peer_.remote_arena_, freed_offset_};
  // Where traffic goes one way no next message comes that could carry it.
  bool goes_both_ways = may_wait_ && peer_.messages_ > sent_at_tell_;
  auto result = goes_both_ways ? peer_.link_.signal_soon(where, line) : peer_.link_.signal(where, line);
  if (result.ok() && *result == PutResult::kFull) return;
  if (!result.ok()) peer_.broken_.set(std::move(result).status());
  if (peer_.needs_poll_) peer_.handed_ = true;
  sent_at_tell_ = peer_.messages_;
  told_ = released_;  // a peer that is gone needs no telling
  slots_owed_ = 0;
  due_ = false;
}

}  // namespace tutti
