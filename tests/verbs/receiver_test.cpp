// What the receiving half makes of messages that no rank sends.
#include "transports/verbs/receiver.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "transports/checks.h"

namespace tutti::test {
namespace {

constexpr uint32_t kMemory = 3;

// Memory of 4 KiB that messages may name, and a receiver for it.
struct Exposed {
  Exposed() { receiver.expose({.id = kMemory, .bytes = bytes}); }
  // A line for the place of that number, whose counter is the message's number.
  Status take(uint64_t number, MessageHead head = {.kind = MessageHead::Kind::kSignal, .signal_memory = kMemory}) {
    head.number = number;
    Line line{{number}};
    return receiver.take(head, std::as_bytes(std::span(line.words)));
  }
  uint64_t counter() const {
    uint64_t counter = 0;
    std::memcpy(&counter, bytes.data(), sizeof counter);
    return counter;
  }

  alignas(64) std::array<std::byte, 4096> bytes{};
  VerbsReceiver receiver;
};

}  // namespace

TEST_CASE("a message of a kind that has no number, or that nobody knows, is refused in words") {
  using Kind = MessageHead::Kind;
  for (auto kind : {Kind::kCredit, Kind::kProbe, Kind::kLost, Kind{0}, Kind{7}, Kind{999}}) {
    Exposed to;
    Status refused = to.take(1, {.kind = kind, .signal_memory = kMemory});
    CHECK(refused.code() == Code::kRemote);
    CHECK(mentions(refused, fmt::format("of kind {}", static_cast<int>(kind))));
    CHECK(!to.receiver.next_news());
    // Nor is it kept for later.
    CHECK(!to.take(5, {.kind = kind, .signal_memory = kMemory}).ok());
  }
}

TEST_CASE("messages that come early take effect in the order of their numbers") {
  Exposed to;
  for (uint64_t number : {4, 2, 5, 3}) check_ok(to.take(number));
  CHECK(to.counter() == 0);
  check_ok(to.take(1));
  CHECK(to.counter() == 5);
}

TEST_CASE("a message that comes twice is refused, whether it has taken effect, waits, or has no number") {
  Exposed to;
  check_ok(to.take(1));
  check_ok(to.take(3));
  for (uint64_t number : {0, 1, 3}) {
    CHECK(mentions(to.take(number), fmt::format("the peer sent message {} twice", number)));
  }
  check_ok(to.take(2));
  CHECK(to.counter() == 3);
}

TEST_CASE("a peer that leaves a message out cannot have any number of others kept") {
  Exposed to;
  Status kept;
  uint64_t number = 1;
  while (kept.ok() && number < 1'000'000) kept = to.take(++number);
  CHECK(number < 20'000);
  CHECK(number > 8 * 1024);
  CHECK(kept.code() == Code::kRemote);
  CHECK(mentions(kept, "of which the first, 1, has not come"));
}

TEST_CASE("a message is refused whose size is not what it says, or that names memory of others") {
  Exposed to;
  using Kind = MessageHead::Kind;
  CHECK(mentions(to.take(1, {.kind = Kind::kSignal, .payload_bytes = 8, .signal_memory = kMemory}), "payload of 8"));
  CHECK(mentions(to.take(2, {.kind = Kind::kSignal, .signal_memory = kMemory + 1}), "may not write"));
  CHECK(mentions(to.take(3, {.kind = Kind::kSignal, .signal_memory = kMemory, .signal_offset = 4096 - 32}),
                 "may not write"));
  CHECK(mentions(to.take(4, {.kind = Kind::kSignal, .signal_memory = kMemory, .signal_offset = 8}), "may not write"));
  CHECK(to.receiver.hide(kMemory));
  CHECK(mentions(to.take(5), "may not write"));
  CHECK(to.counter() == 0);
}

}  // namespace tutti::test
