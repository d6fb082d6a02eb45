#include "transports/verbs/receiver.h"

#include <cstring>

#include "transports/common/mapped.h"

namespace tutti {
namespace {

Status twice(const MessageHead& head) { return error(Code::kRemote, "the peer sent message {} twice", head.number); }

}  // namespace

Status VerbsReceiver::take(const MessageHead& head, std::span<const std::byte> rest) {
  if (!has_number(head.kind)) {
    return error(Code::kRemote, "the peer sent a message of kind {}, which nobody knows here; run one version of tutti",
                 static_cast<int>(head.kind));
  }
  if (head.number > applied_ + 1) return keep(head, rest);
  if (head.number <= applied_) return twice(head);
  TUTTI_TRY(apply(head, rest));
  for (auto next = early_.begin(); next != early_.end() && next->first == applied_ + 1; next = early_.erase(next)) {
    TUTTI_TRY(apply(next->second.head, next->second.rest));
  }
  return {};
}

Status VerbsReceiver::keep(const MessageHead& head, std::span<const std::byte> rest) {
  if (early_.size() == kMostEarly) {
    return error(Code::kRemote, "the peer sent {} messages, of which the first, {}, has not come", kMostEarly,
                 applied_ + 1);
  }
  bool is_new = early_.try_emplace(head.number, Early{head, {rest.begin(), rest.end()}}).second;
  return is_new ? Status() : twice(head);
}

Status VerbsReceiver::apply(const MessageHead& head, std::span<const std::byte> rest) {
  applied_ = head.number;
  if (rest.size() != sizeof(Line) + head.payload_bytes) {
    return error(Code::kRemote, "the peer sent a message of {} bytes with a payload of {}", rest.size(),
                 head.payload_bytes);
  }
  if (head.kind == MessageHead::Kind::kSignal) return store(head, rest);
  News& news = news_.emplace_back(News{.kind = head.kind, .memory = head.signal_memory, .line = {}});
  std::memcpy(news.line.words, rest.data(), sizeof news.line.words);
  return {};
}

std::optional<VerbsReceiver::News> VerbsReceiver::next_news() {
  if (news_.empty()) return std::nullopt;
  News next = news_.front();
  news_.pop_front();
  return next;
}

Status VerbsReceiver::store(const MessageHead& head, std::span<const std::byte> rest) const {
  Place place = writable(head.signal_memory, head.signal_offset, sizeof(Line));
  std::byte* at = place.bytes.data();
  if (at == nullptr || place.device != nullptr || reinterpret_cast<uintptr_t>(at) % alignof(Line) != 0) {
    return error(Code::kRemote, "the peer sent a signal to memory {} offset {}, where it may not write",
                 head.signal_memory, head.signal_offset);
  }
  if (head.payload_bytes > 0) {
    auto to = TUTTI_TRY(place_for(head, head.payload_bytes));
    TUTTI_TRY(to.store(rest.subspan(sizeof(Line))));
  }
  Line line;
  std::memcpy(line.words, rest.data(), sizeof line.words);
  store_line(at, line);
  return {};
}

Result<VerbsReceiver::Place> VerbsReceiver::place_for(const MessageHead& head, uint64_t payload_bytes) const {
  if (payload_bytes == 0) return Place();
  Place to = writable(head.payload_memory, head.payload_offset, payload_bytes);
  if (to.bytes.empty()) {
    return error(Code::kRemote, "the peer sent {} bytes to memory {} offset {}, where it may not write", payload_bytes,
                 head.payload_memory, head.payload_offset);
  }
  return to;
}

Status VerbsReceiver::Place::store(std::span<const std::byte> from) {
  if (device != nullptr) TUTTI_TRY(device->write(bytes.data(), from));
  else std::memcpy(bytes.data(), from.data(), from.size());
  bytes = bytes.subspan(from.size());
  return {};
}

VerbsReceiver::Place VerbsReceiver::writable(uint32_t id, uint64_t offset, uint64_t size_bytes) const {
  auto found = exposed_.find(id);
  if (found == exposed_.end() || !in_bounds(found->second.bytes.size(), offset, size_bytes)) return {};
  return {found->second.bytes.subspan(offset, size_bytes), found->second.device};
}

}  // namespace tutti
