#include "transports/verbs/sender.h"

#include <algorithm>
#include <cstring>

namespace tutti {

void VerbsSender::begin(uint32_t peer_receives, const RemoteRange& peer_probe) {
  peer_receives_ = peer_receives;
  peer_probe_ = peer_probe;
}

Result<PutResult> VerbsSender::put(const RemoteRange& to, std::span<const std::byte> from, MessageHead head,
                                   const Line& line) {
  if (!may_send()) return PutResult::kFull;
  if (from.size() <= kEagerBytes) {
    head.payload_bytes = static_cast<uint32_t>(from.size());
    TUTTI_TRY(post_message(head, &line, from));
    ++puts_completed_;
    return PutResult::kDone;
  }
  head.payload_bytes = 0;
  put_ = {.active = true, .to = to, .left = from, .head = head, .line = line};
  TUTTI_TRY(push());
  return PutResult::kDone;
}

Result<PutResult> VerbsSender::signal(const MessageHead& head, const Line& line) {
  if (!may_send()) return PutResult::kFull;
  TUTTI_TRY(post_message(head, &line, {}));
  return PutResult::kDone;
}

Status VerbsSender::probe(std::span<const std::byte> pattern) {
  Request write, message;
  fill_write(write, peer_probe_, pattern);
  fill_message(message, {.kind = MessageHead::Kind::kProbe}, nullptr, {});
  message.work.send_flags |= IBV_SEND_SIGNALED;
  unsignalled_ = 0;
  write.work.next = &message.work;
  return queue_.post(write.work);
}

Status VerbsSender::advance() {
  if (put_.active) TUTTI_TRY(push());
  bool owes = reposted_ - told_ >= kReceives / 2;
  uint32_t least = put_.active ? 2 : 1;  // the message behind a payload has its credit already
  if (owes && has_room(1) && credits() >= least) {
    return post_message({.kind = MessageHead::Kind::kCredit}, nullptr, {});
  }
  return {};
}

void VerbsSender::on_message(const MessageHead& head) {
  ++reposted_;
  // A peer that claims more than it can have got is not believed.
  if (head.reposted <= messages_) peer_reposted_ = std::max(peer_reposted_, head.reposted);
}

Status VerbsSender::push() {
  while (has_room(2) && block_is_free()) {
    bool is_last = put_.left.size() <= kBlockBytes;
    if (is_last && credits() == 0) return {};
    auto piece = put_.left.first(std::min(put_.left.size(), kBlockBytes));
    Request write, message;
    fill_write(write, put_.to, piece);
    if (is_last) {
      fill_message(message, put_.head, &put_.line, {});
      write.work.next = &message.work;  // one doorbell for both
    }
    TUTTI_TRY(queue_.post(write.work));
    put_.left = put_.left.subspan(piece.size());
    put_.to.address += piece.size();
    if (!is_last) continue;
    put_.active = false;
    ++puts_completed_;
    return {};
  }
  return {};
}

void VerbsSender::fill_write(Request& request, const RemoteRange& to, std::span<const std::byte> from) {
  std::byte* block = memory_.block(blocks_used_);
  std::memcpy(block, from.data(), from.size());
  request.memory = {.addr = reinterpret_cast<uint64_t>(block),
                    .length = static_cast<uint32_t>(from.size()),
                    .lkey = memory_.key()};
  request.work.wr_id = ++posted_;
  request.work.sg_list = &request.memory;
  request.work.num_sge = 1;
  request.work.opcode = IBV_WR_RDMA_WRITE;
  request.work.send_flags = IBV_SEND_SIGNALED;  // which frees the block
  request.work.wr.rdma.remote_addr = to.address;
  request.work.wr.rdma.rkey = to.key;
  block_users_[blocks_used_++ % kBlocks] = posted_;
  unsignalled_ = 0;
}

void VerbsSender::fill_message(Request& request, MessageHead head, const Line* line,
                               std::span<const std::byte> payload) {
  head.reposted = told_ = reposted_;
  ++messages_;
  std::byte* slot = memory_.send_slot(++posted_);
  std::byte* end = slot;
  auto append = [&](const void* data, size_t size) {
    if (size > 0) std::memcpy(end, data, size);
    end += size;
  };
  append(&head, sizeof head);
  if (line != nullptr) append(line->words, sizeof line->words);
  append(payload.data(), payload.size());
  auto size = static_cast<uint32_t>(end - slot);
  bool is_signalled = ++unsignalled_ == kSignalEvery;
  if (is_signalled) unsignalled_ = 0;
  request.memory = {.addr = reinterpret_cast<uint64_t>(slot), .length = size, .lkey = memory_.key()};
  request.work.wr_id = posted_;
  request.work.sg_list = &request.memory;
  request.work.num_sge = 1;
  request.work.opcode = IBV_WR_SEND;
  if (is_signalled) request.work.send_flags |= IBV_SEND_SIGNALED;
  if (size <= queue_.inline_bytes()) request.work.send_flags |= IBV_SEND_INLINE;
}

Status VerbsSender::post_message(const MessageHead& head, const Line* line, std::span<const std::byte> payload) {
  Request message;
  fill_message(message, head, line, payload);
  return queue_.post(message.work);
}

Status VerbsSender::ask_for_all() {
  if (all_completed() || unsignalled_ == 0 || !has_room(1)) return {};
  Request nothing;
  nothing.work.wr_id = ++posted_;
  nothing.work.opcode = IBV_WR_RDMA_WRITE;
  nothing.work.send_flags = IBV_SEND_SIGNALED;
  nothing.work.wr.rdma.remote_addr = peer_probe_.address;
  nothing.work.wr.rdma.rkey = peer_probe_.key;
  unsignalled_ = 0;
  return queue_.post(nothing.work);
}

}  // namespace tutti
