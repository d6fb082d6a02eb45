#include "transports/verbs/sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

constexpr size_t kMostAtOnce = 1 << 30;  // a message of any device may have 2^31 bytes

}  // namespace

void VerbsSender::begin(uint32_t peer_receives, const RemoteRange& peer_probe) {
  peer_receives_ = peer_receives;
  peer_probe_ = peer_probe;
}

PutResult VerbsSender::put(const RemoteRange& to, const PutSource& payload, MessageHead head, const Line& line,
                           uint64_t number) {
  if (!may_send()) return PutResult::kFull;
  auto from = payload.bytes;
  const auto& registration = payload.registration;
  uint32_t stage = memory_.stage_at(from.data());
  bool is_of_host = payload.device == nullptr && head.payload_memory < kFirstDeviceId;
  if (from.size() <= kEagerBytes && is_of_host) {
    head.payload_bytes = static_cast<uint16_t>(from.size());
    post_message(head, &line, from);
    if (stage < kStages) stage_is_lent_[stage] = false;
    return PutResult::kDone;
  }
  head.payload_bytes = 0;
  if ((registration != nullptr && from.size() <= kMostAtOnce) || stage < kStages) {
    post_put(to, from, stage < kStages ? memory_.key() : registration->local_key(), head, line, number);
    keep({.put = number, .request = posted_, .registration = registration, .stage = stage});
    return PutResult::kDone;
  }
  if (from.size() <= kBlockBytes) {
    if (!block_is_free()) return PutResult::kFull;
    auto copied = to_block(from, payload.device);
    if (copied.empty()) return PutResult::kFull;
    // Free again only with the message, which alone tells: should the queue pair fail, it is sent from there once more.
    post_put(to, copied, memory_.key(), head, line, number);
    return PutResult::kDone;
  }
  put_ = {.active = true,
          .to = to,
          .from = from,
          .left = from,
          .device = payload.device,
          .head = head,
          .line = line,
          .number = number};
  push();
  return PutResult::kDone;
}

// One doorbell for both.
void VerbsSender::post_put(const RemoteRange& to, std::span<const std::byte> from, uint32_t key,
                           const MessageHead& head, const Line& line, uint64_t number) {
  Request& write = next_request();
  fill_write(write, to, from, key);
  Request& message = next_request();
  fill_message(message, head, &line, {});
  ask_for(message);
  Posted& posted = posted_ones_[posted_ % kSends];
  posted.payload = from;
  posted.put = number;
  write.work.next = &message.work;
  post(write.work);
}

void VerbsSender::post(ibv_send_wr& first) {
  (first_kept_ == nullptr ? first_kept_ : last_kept_->next) = &first;
  for (last_kept_ = &first; last_kept_->next != nullptr;) last_kept_ = last_kept_->next;
  if (!in_batch_) ring();
}

void VerbsSender::ring() {
  ibv_send_wr* first = std::exchange(first_kept_, nullptr);
  if (first != nullptr && refused_.ok()) refused_ = queue_.post(*first);
}

void VerbsSender::end_batch() {
  in_batch_ = false;
  ring();
}

void VerbsSender::keep(Leaving leaving) {
  if (leaving.stage == kStages) ++in_callers_memory_;
  bool is_last = left_ == begun_ || leaving_[(begun_ - 1) % kSends].put < leaving.put;
  is_in_order_ = left_ == begun_ || (is_in_order_ && is_last);
  leaving_[begun_++ % kSends] = std::move(leaving);
}

std::byte* VerbsSender::stage(size_t size_bytes) {
  if (size_bytes > kStageBytes) return nullptr;
  auto* free = std::find(stage_is_lent_.begin(), stage_is_lent_.end(), false);
  if (free == stage_is_lent_.end()) return nullptr;
  *free = true;
  return memory_.stage(static_cast<uint32_t>(free - stage_is_lent_.begin()));
}

void VerbsSender::on_completed(uint64_t request) {
  while (completed_ < request) {
    const Posted& gone = posted_ones_[++completed_ % kSends];
    queued_bytes_ -= gone.bytes.size();
    if (gone.is_owed) confirmed_ = gone.message;
  }
  for (; left_ < begun_ && leaving_[left_ % kSends].request <= completed_; ++left_) {
    Leaving& gone = leaving_[left_ % kSends];
    if (gone.stage < kStages) stage_is_lent_[gone.stage] = false;
    else --in_callers_memory_;
    gone.registration.reset();
  }
}

uint64_t VerbsSender::oldest_put() const {
  uint64_t oldest = put_.active ? put_.number : UINT64_MAX;
  if (left_ < begun_) oldest = std::min(oldest, leaving_[left_ % kSends].put);
  for (uint64_t i = left_ + 1; !is_in_order_ && i < begun_; ++i) oldest = std::min(oldest, leaving_[i % kSends].put);
  return oldest;
}

PutResult VerbsSender::signal(const MessageHead& head, const Line& line, std::span<const std::byte> payload) {
  if (!may_send()) return PutResult::kFull;
  post_message(head, &line, payload);
  return PutResult::kDone;
}

Status VerbsSender::probe(std::span<const std::byte> pattern) {
  auto copied = to_block(pattern, nullptr);
  Request& write = next_request();
  fill_write(write, peer_probe_, copied, memory_.key());
  Request& message = next_request();
  fill_message(message, {.kind = MessageHead::Kind::kProbe}, nullptr, {});
  ask_for(message);
  write.work.next = &message.work;
  post(write.work);
  return refused_;
}

void VerbsSender::advance() {
  if (put_.active) push();
  bool owes = reposted_ - told_ >= kReceives / 2;
  uint32_t least = put_.active ? 2 : 1;  // the message behind a payload has its credit already
  if (owes && has_room(1) && credits() >= least) post_message({.kind = MessageHead::Kind::kCredit}, nullptr, {});
}

void VerbsSender::on_message(const MessageHead& head) {
  ++reposted_;
  // A peer that claims more than it can have got is not believed.
  uint64_t claimed = peer_reposted_ + (head.reposted - static_cast<uint32_t>(peer_reposted_));
  if (claimed <= messages_) peer_reposted_ = claimed;
}

void VerbsSender::push() {
  while (refused_.ok() && unreadable_.ok() && has_room(2) && block_is_free()) {
    bool is_last = put_.left.size() <= kBlockBytes;
    if (is_last && credits() == 0) return;
    auto piece = put_.left.first(std::min(put_.left.size(), kBlockBytes));
    auto copied = to_block(piece, put_.device);
    if (copied.empty()) return;
    if (is_last) {
      post_put(put_.to, copied, memory_.key(), put_.head, put_.line, put_.number);
      posted_ones_[posted_ % kSends].payload = put_.from;
      keep({.put = put_.number, .request = posted_});
      put_.active = false;
      return;
    }
    Request& write = next_request();
    fill_write(write, put_.to, copied, memory_.key());
    if (blocks_used_ % kBlocksAtOnce == 0) ask_for(write);
    post(write.work);
    put_.left = put_.left.subspan(piece.size());
    put_.to.address += piece.size();
  }
}

std::span<const std::byte> VerbsSender::to_block(std::span<const std::byte> from, const DeviceMemory* device) {
  ring();  // what came before leaves meanwhile
  std::byte* block = memory_.block(blocks_used_);
  if (device == nullptr) std::memcpy(block, from.data(), from.size());
  else if (unreadable_.ok()) unreadable_ = device->read({block, from.size()}, from.data());
  if (!unreadable_.ok()) return {};
  block_users_[blocks_used_++ % kBlocks] = posted_ + 1;  // the next request
  return {block, from.size()};
}

// There is room: what was at its place has completed.
VerbsSender::Request& VerbsSender::next_request() {
  Request& next = requests_[++posted_ % kSends];
  next = {};
  next.work.wr_id = posted_;
  return next;
}

void VerbsSender::fill_write(Request& request, const RemoteRange& to, std::span<const std::byte> from, uint32_t key) {
  request.memory = {.addr = reinterpret_cast<uint64_t>(from.data()),
                    .length = static_cast<uint32_t>(from.size()),
                    .lkey = key};
  request.work.sg_list = &request.memory;
  request.work.num_sge = 1;
  request.work.opcode = IBV_WR_RDMA_WRITE;
  request.work.wr.rdma.remote_addr = to.address;
  request.work.wr.rdma.rkey = to.key;
  posted_ones_[posted_ % kSends] = {.bytes = from};
  queued_bytes_ += from.size();
  ++unsignalled_;
}

void VerbsSender::fill_message(Request& request, MessageHead head, const Line* line,
                               std::span<const std::byte> payload) {
  told_ = reposted_;
  head.reposted = static_cast<uint32_t>(told_);
  ++messages_;
  std::byte* slot = memory_.send_slot(posted_);
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
  request.work.sg_list = &request.memory;
  request.work.num_sge = 1;
  request.work.opcode = IBV_WR_SEND;
  posted_ones_[posted_ % kSends] = {.bytes = {slot, size}, .message = messages_, .is_owed = head.number != 0};
  queued_bytes_ += size;
  if (++unsignalled_ >= kSignalEvery) ask_for(request);
  if (size <= queue_.inline_bytes()) request.work.send_flags |= IBV_SEND_INLINE;
}

void VerbsSender::ask_for(Request& request) {
  request.work.send_flags |= IBV_SEND_SIGNALED;
  unsignalled_ = 0;
}

void VerbsSender::post_message(const MessageHead& head, const Line* line, std::span<const std::byte> payload) {
  Request& message = next_request();
  fill_message(message, head, line, payload);
  post(message.work);
}

void VerbsSender::ask_for_all() {
  if (all_completed() || unsignalled_ == 0 || !has_room(1)) return;
  Request& nothing = next_request();
  posted_ones_[posted_ % kSends] = {};
  nothing.work.opcode = IBV_WR_RDMA_WRITE;
  nothing.work.send_flags = IBV_SEND_SIGNALED;
  nothing.work.wr.rdma.remote_addr = peer_probe_.address;
  nothing.work.wr.rdma.rkey = peer_probe_.key;
  unsignalled_ = 0;
  post(nothing.work);
}

Owed VerbsSender::owed_of(const Posted& posted) {
  Owed owed{.head = {}, .line = {}, .payload = posted.payload, .put = posted.put};
  std::memcpy(&owed.head, posted.bytes.data(), sizeof owed.head);
  auto rest = posted.bytes.subspan(sizeof owed.head);
  if (rest.size() < sizeof owed.line.words) return owed;
  std::memcpy(owed.line.words, rest.data(), sizeof owed.line.words);
  if (owed.payload.empty()) owed.payload = rest.subspan(sizeof owed.line.words);
  return owed;
}

Result<std::vector<Owed>> VerbsSender::take_owed(uint64_t received) {
  if (received > messages_) return error(Code::kRemote, "the peer has received {} messages of {}", received, messages_);
  // What they carried may be the caller's again.
  if (received < confirmed_) {
    return error(Code::kRemote, "the peer has lost messages that its device had confirmed: it received {}, and {} were",
                 received, confirmed_);
  }
  std::vector<Owed> owed;
  for (uint64_t i = completed_ + 1; i <= posted_; ++i) {
    const Posted& each = posted_ones_[i % kSends];
    if (each.is_owed && each.message > received) owed.push_back(owed_of(each));
  }
  if (put_.active) owed.push_back({.head = put_.head, .line = put_.line, .payload = put_.from, .put = put_.number});
  put_.active = false;
  first_kept_ = nullptr;
  on_completed(posted_);
  return owed;
}

}  // namespace tutti
