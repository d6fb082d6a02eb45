#include "executor/peer.h"

#include <algorithm>

namespace tutti {
namespace {

const Line* line_at(std::span<std::byte> arena, uint64_t offset) {
  return reinterpret_cast<const Line*>(arena.data() + offset);
}

}  // namespace

Peer::Peer(int self, Link& link, const StreamLayout& layout, std::span<std::byte> arena,
           const RemoteMemory& remote_arena)
    : self_(self),
      rank_(link.peer()),
      link_(link),
      layout_(layout),
      arena_(arena),
      remote_arena_(remote_arena),
      needs_poll_(link.needs_poll()) {
  TUTTI_CHECK(arena.size() >= layout.arena_bytes() && remote_arena.size_bytes >= layout.arena_bytes());
  if (!mapped()) mirror_.resize(layout.channels * layout.slots * layout.slot_stride());
  sends_.reserve(layout.channels);
  recvs_.reserve(layout.channels);
  for (int channel = 0; channel < layout.channels; ++channel) {
    sends_.emplace_back(*this, channel);
    recvs_.emplace_back(*this, channel);
  }
}

void Peer::poll() {
  if (!broken_.ok()) return;
  uint64_t completed = 0;
  broken_ = link_.poll(&completed);
  for (RecvStream& stream : recvs_) stream.tell();
}

bool Peer::told_all() const {
  return std::none_of(recvs_.begin(), recvs_.end(), [](const RecvStream& stream) { return stream.owes(); });
}

SendStream::SendStream(Peer& peer, int channel)
    : peer_(peer),
      slots_{.first = peer.mapped() ? peer.remote_arena_.mapped + peer.layout_.payload_offset(peer.self_, channel, 0)
                                    : peer.mirror_.data() + channel * peer.layout_.slots * peer.layout_.slot_stride(),
             .stride = peer.layout_.slot_stride(),
             .count = static_cast<uint32_t>(peer.layout_.slots)},
      lines_offset_(peer.layout_.line_offset(peer.self_, channel, 0)),
      payloads_offset_(peer.layout_.payload_offset(peer.self_, channel, 0)),
      freed_(line_at(peer.arena_, peer.layout_.freed_offset(peer.rank(), channel))) {}

Result<PutResult> SendStream::send(const Message& message, uint64_t signature, const std::byte* payload) {
  Line line = encode(message, sent_ + 1, signature, payload);
  RemoteSlice where{&peer_.remote_arena_, lines_offset_ + slots_.next * sizeof(Line)};
  bool by_put = message.kind == MessageKind::kSlot && !peer_.mapped();
  PutResult result;
  if (by_put) {
    RemoteSlice to{&peer_.remote_arena_, payloads_offset_ + slots_.next * slots_.stride};
    result = TUTTI_TRY(peer_.link_.put(to, {payload, message.size_bytes}, where, line));
  } else {
    result = TUTTI_TRY(peer_.link_.signal(where, line));
  }
  if (result == PutResult::kFull) return result;
  peer_.handed_ = true;
  ++sent_;
  slots_.advance();
  if (message.kind == MessageKind::kReference || message.kind == MessageKind::kPull) referenced_ = sent_;
  return result;
}

RecvStream::RecvStream(Peer& peer, int channel)
    : peer_(peer),
      slots_{.first = peer.arena_.data() + peer.layout_.payload_offset(peer.rank(), channel, 0),
             .stride = peer.layout_.slot_stride(),
             .count = static_cast<uint32_t>(peer.layout_.slots)},
      lines_(line_at(peer.arena_, peer.layout_.line_offset(peer.rank(), channel, 0))),
      freed_offset_(peer.layout_.freed_offset(peer.self_, channel)) {}

void RecvStream::take(const std::byte* payload, uint64_t size_bytes, Lent lent) {
  TUTTI_CHECK(!holding());
  ++taken_;
  slots_.advance();
  payload_ = payload;
  size_bytes_ = size_bytes;
  lent_ = lent;
}

void RecvStream::release_held() {
  released_ = taken_;
  bool batch_full = released_ - told_ >= static_cast<uint64_t>(told_at_once(static_cast<int>(slots_.count)));
  due_ = due_ || lent_ != Lent::kNo || batch_full;
  tell();
}

void RecvStream::tell() {
  if (!due_) return;
  Line line;
  line.words[0] = released_;
  auto result = peer_.link_.signal({&peer_.remote_arena_, freed_offset_}, line);
  if (result.ok() && *result == PutResult::kFull) return;
  if (!result.ok() && peer_.broken_.ok()) peer_.broken_ = std::move(result).status();
  peer_.handed_ = true;
  told_ = released_;  // a peer that is gone needs no telling
  due_ = false;
}

}  // namespace tutti
