#include "transports/verbs/sender.h"

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

constexpr size_t kMostAtOnce = 1 << 30;  // a message of any device may have 2^31 bytes

}  // namespace

void VerbsSender::begin(uint32_t peer_receives, const RemoteRange& peer_probe) {
  peer_receives_ = peer_receives;
  peer_probe_ = peer_probe;
}

Result<PutResult> VerbsSender::put(const RemoteRange& to, std::span<const std::byte> from,
                                   const std::shared_ptr<const Registration>& registration, MessageHead head,
                                   const Line& line, uint64_t number) {
  if (!may_send()) return PutResult::kFull;
  uint32_t stage = memory_.stage_at(from.data());
  if (from.size() <= kEagerBytes) {
    head.payload_bytes = static_cast<uint16_t>(from.size());
    TUTTI_TRY(post_message(head, &line, from));
    if (stage < kStages) stage_is_lent_[stage] = false;
    return PutResult::kDone;
  }
  head.payload_bytes = 0;
  bool is_readable = (registration != nullptr && from.size() <= kMostAtOnce) || stage < kStages;
  if (is_readable) {
    TUTTI_TRY(put_in_place(to, from, {.put = number, .registration = registration, .stage = stage}, head, line));
    return PutResult::kDone;
  }
  put_ = {.active = true, .to = to, .left = from, .head = head, .line = line, .place = head, .number = number};
  TUTTI_TRY(push());
  return PutResult::kDone;
}

Status VerbsSender::write(const RemoteRange& to, const MessageHead& place, std::span<const std::byte> from) {
  TUTTI_CHECK(may_send());
  put_ = {.active = true, .has_message = false, .to = to, .left = from, .head = {}, .line = {}, .place = place};
  return push();
}

// One doorbell for the payload and the message behind it.
Status VerbsSender::put_in_place(const RemoteRange& to, std::span<const std::byte> from, Leaving leaving,
                                 const MessageHead& head, const Line& line) {
  Request write, message;
  fill_write(write, to, head, from, leaving.stage < kStages ? memory_.key() : leaving.registration->local_key());
  fill_message(message, head, &line, {});
  ask_for(message);
  leaving.request = posted_;
  write.work.next = &message.work;
  TUTTI_TRY(queue_.post(write.work));
  if (leaving.registration != nullptr) ++in_callers_memory_;
  leaving_[begun_++ % kSends] = std::move(leaving);
  return {};
}

std::byte* VerbsSender::stage(size_t size_bytes) {
  if (size_bytes > kStageBytes) return nullptr;
  auto* free = std::find(stage_is_lent_.begin(), stage_is_lent_.end(), false);
  if (free == stage_is_lent_.end()) return nullptr;
  *free = true;
  return memory_.stage(static_cast<uint32_t>(free - stage_is_lent_.begin()));
}

void VerbsSender::on_completed(uint64_t request) {
  while (completed_ < request) queued_bytes_ -= posted_ones_[++completed_ % kSends].bytes.size();
  for (; left_ < begun_ && leaving_[left_ % kSends].request <= completed_; ++left_) {
    Leaving& gone = leaving_[left_ % kSends];
    if (gone.stage < kStages) stage_is_lent_[gone.stage] = false;
    if (gone.registration != nullptr) --in_callers_memory_;
    gone.registration.reset();
  }
}

uint64_t VerbsSender::oldest_put() const {
  if (left_ < begun_) return leaving_[left_ % kSends].put;
  return put_.active && put_.has_message ? put_.number : UINT64_MAX;
}

Result<PutResult> VerbsSender::signal(const MessageHead& head, const Line& line, std::span<const std::byte> payload) {
  if (!may_send()) return PutResult::kFull;
  TUTTI_TRY(post_message(head, &line, payload));
  return PutResult::kDone;
}

Status VerbsSender::probe(std::span<const std::byte> pattern) {
  Request write, message;
  fill_write(write, peer_probe_, {}, to_block(pattern), memory_.key());
  fill_message(message, {.kind = MessageHead::Kind::kProbe}, nullptr, {});
  ask_for(message);
  write.work.next = &message.work;
  return queue_.post(write.work);
}

Status VerbsSender::advance() {
  if (put_.active) TUTTI_TRY(push());
  bool owes = reposted_ - told_ >= kReceives / 2;
  uint32_t least = put_.active && put_.has_message ? 2 : 1;  // the message behind a payload has its credit already
  if (owes && has_room(1) && credits() >= least) {
    return post_message({.kind = MessageHead::Kind::kCredit}, nullptr, {});
  }
  return {};
}

void VerbsSender::on_message(const MessageHead& head) {
  ++reposted_;
  // A peer that claims more than it can have got is not believed.
  uint64_t claimed = peer_reposted_ + (head.reposted - static_cast<uint32_t>(peer_reposted_));
  if (claimed <= messages_) peer_reposted_ = claimed;
}

Status VerbsSender::push() {
  while (has_room(2) && block_is_free()) {
    bool is_last = put_.left.size() <= kBlockBytes;
    if (is_last && put_.has_message && credits() == 0) return {};
    auto piece = put_.left.first(std::min(put_.left.size(), kBlockBytes));
    Request write, message;
    fill_write(write, put_.to, put_.place, to_block(piece), memory_.key());
    if (is_last && put_.has_message) {
      fill_message(message, put_.head, &put_.line, {});
      write.work.next = &message.work;  // one doorbell for both
      ask_for(message);
    } else if (blocks_used_ % kBlocksAtOnce == 0) {
      ask_for(write);
    }
    TUTTI_TRY(queue_.post(write.work));
    put_.left = put_.left.subspan(piece.size());
    put_.to.address += piece.size();
    put_.place.payload_offset += piece.size();
    if (!is_last) continue;
    put_.active = false;
    return {};
  }
  return {};
}

std::span<const std::byte> VerbsSender::to_block(std::span<const std::byte> from) {
  std::byte* block = memory_.block(blocks_used_);
  std::memcpy(block, from.data(), from.size());
  block_users_[blocks_used_++ % kBlocks] = posted_ + 1;  // the next request
  return {block, from.size()};
}

void VerbsSender::fill_write(Request& request, const RemoteRange& to, const MessageHead& place,
                             std::span<const std::byte> from, uint32_t key) {
  request.memory = {.addr = reinterpret_cast<uint64_t>(from.data()),
                    .length = static_cast<uint32_t>(from.size()),
                    .lkey = key};
  request.work.wr_id = ++posted_;
  request.work.sg_list = &request.memory;
  request.work.num_sge = 1;
  request.work.opcode = IBV_WR_RDMA_WRITE;
  request.work.wr.rdma.remote_addr = to.address;
  request.work.wr.rdma.rkey = to.key;
  posted_ones_[posted_ % kSends] = {.memory = place.payload_memory, .offset = place.payload_offset, .bytes = from};
  queued_bytes_ += from.size();
  ++unsignalled_;
}

void VerbsSender::fill_message(Request& request, MessageHead head, const Line* line,
                               std::span<const std::byte> payload) {
  told_ = reposted_;
  head.reposted = static_cast<uint32_t>(told_);
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
  request.memory = {.addr = reinterpret_cast<uint64_t>(slot), .length = size, .lkey = memory_.key()};
  request.work.wr_id = posted_;
  request.work.sg_list = &request.memory;
  request.work.num_sge = 1;
  request.work.opcode = IBV_WR_SEND;
  posted_ones_[posted_ % kSends] = {.message = messages_, .bytes = {slot, size}};
  queued_bytes_ += size;
  if (++unsignalled_ >= kSignalEvery) ask_for(request);
  if (size <= queue_.inline_bytes()) request.work.send_flags |= IBV_SEND_INLINE;
}

void VerbsSender::ask_for(Request& request) {
  request.work.send_flags |= IBV_SEND_SIGNALED;
  unsignalled_ = 0;
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
  posted_ones_[posted_ % kSends] = {};
  nothing.work.opcode = IBV_WR_RDMA_WRITE;
  nothing.work.send_flags = IBV_SEND_SIGNALED;
  nothing.work.wr.rdma.remote_addr = peer_probe_.address;
  nothing.work.wr.rdma.rkey = peer_probe_.key;
  unsignalled_ = 0;
  return queue_.post(nothing.work);
}

Owed VerbsSender::owed_message(const Posted& posted) const {
  Owed message{.is_message = true};
  std::memcpy(&message.head, posted.bytes.data(), sizeof message.head);
  if (posted.bytes.size() < sizeof message.head + sizeof(Line)) return message;
  std::memcpy(message.line.words, posted.bytes.data() + sizeof message.head, sizeof message.line.words);
  message.bytes = posted.bytes.subspan(sizeof message.head + sizeof(Line));
  return message;
}

Result<std::vector<Owed>> VerbsSender::owed(uint64_t received) const {
  if (received > messages_) return error(Code::kRemote, "the peer has {} messages of {}", received, messages_);
  uint64_t first = completed_ + 1;
  for (uint64_t i = first; i <= posted_; ++i) {
    uint64_t message = posted_ones_[i % kSends].message;
    if (message != 0 && message <= received) first = i + 1;
  }
  std::vector<Owed> all;
  auto add_write = [&](uint32_t memory, uint64_t offset, std::span<const std::byte> bytes) {
    if (memory == 0) return;  // the probe
    all.push_back({.head = {.payload_memory = memory, .payload_offset = offset}, .line = {}, .bytes = bytes});
  };
  for (uint64_t i = first; i <= posted_; ++i) {
    const Posted& each = posted_ones_[i % kSends];
    if (each.message == 0) {
      add_write(each.memory, each.offset, each.bytes);
    } else if (Owed message = owed_message(each); message.head.number != 0) {
      all.push_back(message);
    }
  }
  if (!put_.active) return all;
  add_write(put_.place.payload_memory, put_.place.payload_offset, put_.left);
  if (put_.has_message) all.push_back({.is_message = true, .head = put_.head, .line = put_.line, .bytes = {}});
  return all;
}

void VerbsSender::settle() {
  put_.active = false;
  on_completed(posted_);
}

}  // namespace tutti
