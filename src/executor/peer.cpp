#include "executor/peer.h"

#include <algorithm>

namespace tutti {
namespace {

Line& line_at(std::span<std::byte> arena, uint64_t offset) { return *reinterpret_cast<Line*>(arena.data() + offset); }

}  // namespace

Peer::Peer(int self, Link& link, const StreamLayout& layout, std::span<std::byte> arena,
           const RemoteMemory& remote_arena)
    : self_(self),
      link_(link),
      layout_(layout),
      arena_(arena),
      remote_arena_(remote_arena),
      needs_poll_(link.needs_poll()) {
  TUTTI_CHECK(arena.size() >= layout.arena_bytes() && remote_arena.size_bytes >= layout.arena_bytes());
  if (!mapped()) mirror_.resize(layout.channels * layout.slots * layout.slot_stride());
  for (int channel = 0; channel < layout.channels; ++channel) {
    sends_.push_back(std::make_unique<SendStream>(*this, channel));
    recvs_.push_back(std::make_unique<RecvStream>(*this, channel));
  }
}

void Peer::poll() {
  if (!broken_.ok()) return;
  uint64_t completed = 0;
  broken_ = link_.poll(&completed);
  for (auto& stream : recvs_) stream->tell();
}

bool Peer::told_all() const {
  return std::none_of(recvs_.begin(), recvs_.end(), [](auto& stream) { return stream->owes(); });
}

SendStream::SendStream(Peer& peer, int channel) : peer_(peer), channel_(channel) {}

uint64_t SendStream::freed() const {
  if (freed_seen_ < sent_) {
    freed_seen_ = load_counter(line_at(peer_.arena_, peer_.layout_.freed_offset(peer_.rank(), channel_)));
  }
  return freed_seen_;
}

bool SendStream::has_slot() const {
  auto slots = static_cast<uint64_t>(peer_.layout_.slots);
  return sent_ - freed_seen_ < slots || sent_ - freed() < slots;
}

std::byte* SendStream::slot() {
  const StreamLayout& layout = peer_.layout_;
  int slot = static_cast<int>(sent_ % layout.slots);
  if (peer_.mapped()) return peer_.remote_arena_.mapped + layout.payload_offset(peer_.self_, channel_, slot);
  return peer_.mirror_.data() + (channel_ * layout.slots + slot) * layout.slot_stride();
}

Result<PutResult> SendStream::send(const Message& message, uint64_t signature, const std::byte* payload) {
  const StreamLayout& layout = peer_.layout_;
  int slot = static_cast<int>(sent_ % layout.slots);
  Line line = encode(message, sent_ + 1, signature, payload);
  RemoteSlice where{&peer_.remote_arena_, layout.line_offset(peer_.self_, channel_, slot)};
  bool by_put = message.kind == MessageKind::kSlot && !peer_.mapped();
  PutResult result;
  if (by_put) {
    RemoteSlice to{&peer_.remote_arena_, layout.payload_offset(peer_.self_, channel_, slot)};
    result = TUTTI_TRY(peer_.link_.put(to, {payload, message.size_bytes}, where, line));
  } else {
    result = TUTTI_TRY(peer_.link_.signal(where, line));
  }
  if (result == PutResult::kFull) return result;
  ++sent_;
  if (message.kind == MessageKind::kReference || message.kind == MessageKind::kPull) referenced_ = sent_;
  return result;
}

RecvStream::RecvStream(Peer& peer, int channel) : peer_(peer), channel_(channel) {}

const Line& RecvStream::next_line() const {
  int slot = static_cast<int>(taken_ % peer_.layout_.slots);
  return line_at(peer_.arena_, peer_.layout_.line_offset(peer_.rank(), channel_, slot));
}

bool RecvStream::ready() const { return load_counter(next_line()) == taken_ + 1; }

std::byte* RecvStream::next_slot() const {
  int slot = static_cast<int>(taken_ % peer_.layout_.slots);
  return peer_.arena_.data() + peer_.layout_.payload_offset(peer_.rank(), channel_, slot);
}

void RecvStream::take(const std::byte* payload, uint64_t size_bytes, bool lent) {
  TUTTI_CHECK(!holding());
  ++taken_;
  payload_ = payload;
  size_bytes_ = size_bytes;
  lent_ = lent;
}

void RecvStream::release() {
  if (!holding()) return;
  released_ = taken_;
  bool batch_full = released_ - told_ >= static_cast<uint64_t>(peer_.layout_.slots + 1) / 2;
  due_ = due_ || lent_ || batch_full;
  tell();
}

void RecvStream::tell() {
  if (!due_) return;
  Line line;
  line.words[0] = released_;
  RemoteSlice where{&peer_.remote_arena_, peer_.layout_.freed_offset(peer_.self_, channel_)};
  auto result = peer_.link_.signal(where, line);
  if (result.ok() && *result == PutResult::kFull) return;
  if (!result.ok() && peer_.broken_.ok()) peer_.broken_ = std::move(result).status();
  told_ = released_;  // a peer that is gone needs no telling
  due_ = false;
}

}  // namespace tutti
