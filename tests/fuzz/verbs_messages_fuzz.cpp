// A peer over verbs may send anything, beside the queue pairs and over them: it writes only where it may, and in which
// order messages come over several lanes makes no difference. An input is a message of the connection, and then those
// of queue pairs: each a byte with the size of what follows its head, the head and that.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "fuzz/input.h"
#include "transports/verbs/receiver.h"

namespace {

using tutti::MessageHead;

constexpr size_t kMemoryBytes = 4096;

struct Message {
  MessageHead head;
  std::span<const std::byte> rest;
};

// One memory with id 1 and guards around it.
class Receiver {
 public:
  Receiver() {
    memory_.fill(kGuard);
    receiver_.expose({.id = 1, .bytes = own()});
  }
  // False when the receiver refused a message.
  bool receive(const std::vector<Message>& messages) {
    for (const Message& each : messages) {
      if (!receiver_.take(each.head, each.rest).ok()) return false;
      while (auto news = receiver_.next_news()) heard_.push_back(news->memory);
    }
    return true;
  }
  void check_place(const MessageHead& head, uint64_t payload_bytes) {
    auto place = receiver_.place_for(head, payload_bytes);
    if (!place.ok() || payload_bytes == 0) return;
    std::span<std::byte> bytes = place->bytes;
    TUTTI_CHECK(bytes.size() == payload_bytes && bytes.data() >= own().data());
    TUTTI_CHECK(payload_bytes <= static_cast<uint64_t>(own().data() + own().size() - bytes.data()));
  }
  bool guards_hold() const {
    auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(memory_.begin(), memory_.begin() + kMemoryBytes, is_guard) &&
           std::all_of(memory_.end() - kMemoryBytes, memory_.end(), is_guard);
  }
  friend bool operator==(const Receiver& a, const Receiver& b) {
    return a.memory_ == b.memory_ && a.heard_ == b.heard_;
  }

 private:
  static constexpr std::byte kGuard{0xa5};
  std::span<std::byte> own() { return std::span(memory_).subspan(kMemoryBytes, kMemoryBytes); }

  alignas(64) std::array<std::byte, 3 * kMemoryBytes> memory_;
  tutti::VerbsReceiver receiver_;
  std::vector<uint32_t> heard_;
};

std::vector<Message> messages_in(std::span<const std::byte> bytes) {
  std::vector<Message> messages;
  while (bytes.size() > sizeof(MessageHead)) {
    Message message;
    auto size = std::min<size_t>(std::to_integer<size_t>(bytes[0]), bytes.size() - 1 - sizeof message.head);
    std::memcpy(&message.head, bytes.data() + 1, sizeof message.head);
    message.rest = bytes.subspan(1 + sizeof message.head, size);
    messages.push_back(message);
    bytes = bytes.subspan(1 + sizeof message.head + size);
  }
  return messages;
}

// What can be read can be said again, and is then the same.
void check_beside(std::span<const std::byte, tutti::kSideMessageBytes> bytes) {
  auto parsed = tutti::parse_side_message(bytes);
  if (!parsed.ok()) return;
  tutti::SideBytes again = tutti::encode(*parsed);
  TUTTI_CHECK(tutti::encode(tutti::parse_side_message(again).value()) == again);
  if (auto* data = std::get_if<tutti::SideData>(&*parsed)) Receiver().check_place(data->head, data->payload_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  auto bytes = tutti::fuzz::as_bytes(data, size_bytes);
  if (bytes.size() < tutti::kSideMessageBytes) return 0;
  check_beside(bytes.first<tutti::kSideMessageBytes>());
  auto messages = messages_in(bytes.subspan(tutti::kSideMessageBytes));
  Receiver in_order, reversed;
  bool in_order_ok = in_order.receive(messages);
  for (const Message& each : messages) in_order.check_place(each.head, each.head.payload_bytes);
  std::reverse(messages.begin(), messages.end());
  bool reversed_ok = reversed.receive(messages);
  TUTTI_CHECK(in_order.guards_hold() && reversed.guards_hold());
  TUTTI_CHECK(!in_order_ok || !reversed_ok || in_order == reversed);
  return 0;
}
