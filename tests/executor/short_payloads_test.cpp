// Payloads that go to the places beside their lines (MessageKind::kShort), where the sender has not mapped the slots.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "executor/collective.h"

namespace tutti::test {
namespace {

constexpr uint64_t kSignature = 5;

std::vector<std::byte> contents(uint64_t number, uint64_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  for (uint64_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<std::byte>(number * 31 + i);
  return bytes;
}

bool holds(const std::byte* payload, const std::vector<std::byte>& expected) {
  return payload != nullptr && std::memcmp(payload, expected.data(), expected.size()) == 0;
}

}  // namespace

TEST_CASE("short payloads take no slot: as many are under way as there are lines, and none lies on another") {
  constexpr int kSlots = 2;
  StreamLayout layout{.nranks = 3, .channels = 2, .slots = kSlots, .slot_bytes = 8192};
  const uint64_t lines = layout.shape(0).message_lines();
  const uint64_t size = GENERATE(uint64_t{41}, StreamLayout::kShortBytes);
  INFO(size << " bytes");
  Ranks ranks(layout, fabric("tcp").make);
  std::vector<std::vector<std::byte>> sent;
  for (uint64_t i = 0; i < 3 * lines; ++i) sent.push_back(contents(i, size));
  for (int channel = 0; channel < layout.channels; ++channel) {
    SendStream& to = ranks[0].peers()[1]->send_stream(channel);
    Peer& from = *ranks[1].peers()[0];
    RecvStream& stream = from.recv_stream(channel);
    uint64_t next = 0, received = 0;
    while (received < sent.size()) {
      uint64_t before = next;
      for (; next < sent.size() && to.has_room(); ++next) {
        Message message{.kind = MessageKind::kShort, .size_bytes = size, .chunk_bytes = size};
        REQUIRE(to.send(message, kSignature, sent[next].data()).ok());
      }
      if (before == 0) CHECK(next == lines);  // with no word from the receiver
      for (; received < next; ++received) {
        for (int i = 0; i < kPatienceMs && !stream.ready(); ++i) {
          ranks[0].peers()[1]->poll();
          from.poll();
          if (i > 100) ::usleep(1000);
        }
        REQUIRE(stream.ready());
        Message message = decode(stream.next_line());
        const std::byte* payload = stream.payload_beside_line(message);
        REQUIRE(holds(payload, sent[received]));
        stream.take(MessageKind::kShort, payload, size, Lent::kNo);
        stream.release();
      }
      for (int i = 0; i < kPatienceMs && next < sent.size() && !to.has_room(); ++i) {
        from.poll();
        ranks[0].peers()[1]->poll();
        if (i > 100) ::usleep(1000);
      }
    }
  }
}

TEST_CASE("a short payload that is too long for its place is refused") {
  StreamLayout layout{.nranks = 2, .channels = 1, .slots = 2, .slot_bytes = 8192};
  Ranks ranks(layout, fabric("tcp").make);
  const RecvStream& stream = ranks[0].peers()[1]->recv_stream(0);
  Message message{.kind = MessageKind::kShort, .size_bytes = StreamLayout::kShortBytes};
  CHECK(stream.payload_beside_line(message) != nullptr);
  message.size_bytes += 1;
  CHECK(stream.payload_beside_line(message) == nullptr);
  const RecvStream& direct = ranks[0].peers()[1]->recv_stream(layout.direct_channel());
  message.size_bytes = 64;
  CHECK(direct.payload_beside_line(message) == nullptr);
}

}  // namespace tutti::test
