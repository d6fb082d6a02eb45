// What two ends say beside the data.
#include "transports/verbs/wire.h"

#include <catch2/catch.hpp>

#include <random>

namespace tutti::test {
namespace {

template <typename T>
T again(const T& message) {
  auto parsed = parse_side_message(encode(SideMessage(message)));
  REQUIRE(parsed.ok());
  REQUIRE(std::holds_alternative<T>(*parsed));
  return std::get<T>(*parsed);
}

SideHello hello() {
  SideHello hello{.queue = {17, 0xabcdef}, .port = {}, .receives = 128, .probe = {0x123456789, 42}, .name = "x port 1"};
  hello.port = {.infiniband = true, .lid = 7, .mtu_bytes = 2048, .gids = std::vector<Gid>(3)};
  hello.port.gids[1].type = GidType::kRoceV2Ipv6;
  hello.port.gids[1].bytes[15] = std::byte{9};
  for (Gid& gid : hello.port.gids) gid.index = -1;
  return hello;
}

}  // namespace

TEST_CASE("side messages arrive as they were sent") {
  SideHello said = hello(), heard = again(said);
  CHECK(heard.queue.number == 17);
  CHECK(heard.queue.first_packet == 0xabcdef);
  CHECK(heard.port == said.port);
  CHECK(heard.receives == 128);
  CHECK(heard.probe == said.probe);
  CHECK(heard.name == said.name);
  again(SideReady{});
  SideVerdict verdict = again(SideVerdict{.proven = false, .ports = 3, .lanes = 2, .reason = std::string(1000, 'r')});
  CHECK(!verdict.proven);
  CHECK(verdict.ports == 3);
  CHECK(verdict.lanes == 2);
  CHECK(verdict.reason == std::string(480, 'r'));
  SideLost lost = again(SideLost{.lane = 3, .received = 0x123456789a});
  CHECK(lost.lane == 3);
  CHECK(lost.received == 0x123456789a);
  SideData data{.head = {.kind = MessageHead::Kind::kSignal, .signal_memory = 3, .number = 1ull << 40},
                .line = {{1, 2, 3, 4, 5, 6, 7, 8}},
                .payload_bytes = 1ull << 33};
  SideData came = again(data);
  CHECK(came.head.signal_memory == 3);
  CHECK(came.head.number == 1ull << 40);
  CHECK(std::equal(std::begin(came.line.words), std::end(came.line.words), std::begin(data.line.words)));
  CHECK(came.payload_bytes == 1ull << 33);
}

TEST_CASE("beside the queue pairs only messages with a number are data") {
  for (auto kind : {MessageHead::Kind::kCredit, MessageHead::Kind::kProbe}) {
    CHECK(!parse_side_message(encode(SideMessage(SideData{.head = {.kind = kind}, .line = {}}))).ok());
  }
  SideData with_payload{.head = {.kind = MessageHead::Kind::kSignal, .payload_bytes = 8}, .line = {}};
  CHECK(!parse_side_message(encode(SideMessage(with_payload))).ok());
}

TEST_CASE("more addresses than a message holds are left out, the last ones first") {
  SideHello many = hello();
  many.port.gids.assign(100, many.port.gids[1]);
  CHECK(again(many).port.gids.size() == kMostGids);
}

TEST_CASE("both ends choose the same route, however many addresses a port has") {
  auto gid = [](GidType type, size_t subnet, size_t host) {
    Gid made{.index = static_cast<int>(subnet), .type = type};
    made.bytes[14] = std::byte(subnet);
    made.bytes[15] = std::byte(host);
    return made;
  };
  PortFacts facts{.mtu_bytes = 4096};
  for (size_t i = GENERATE(20u, 200u); i-- > 0;) facts.gids.push_back(gid(GidType::kRoceV2Ipv4, i, 1));
  facts.gids.push_back(gid(GidType::kRoceV1, 1, 1));
  PortAddress many = address_of(facts, -1, 0).value();
  SideHello said = hello();
  said.port = many;
  PortAddress heard = again(said).port;
  for (GidType type : {GidType::kRoceV2Ipv4, GidType::kRoceV1}) {
    PortAddress one{.mtu_bytes = 4096, .gids = {gid(type, 18, 2)}};
    Route there = choose_route(many, one).value(), back = choose_route(one, heard).value();
    CHECK(there.from.bytes == back.to.bytes);
    CHECK(there.from.type == type);
    if (facts.gids.size() < kMostGids && type == GidType::kRoceV2Ipv4) CHECK(there.from.index == 18);
  }
}

TEST_CASE("garbage beside the data is refused and harms nothing") {
  std::mt19937 random(1);
  SideBytes good = encode(SideMessage(hello()));
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    SideBytes bytes = good;
    int changes = 1 + static_cast<int>(random() % 8);
    for (int k = 0; k < changes; ++k) bytes[random() % 120] = static_cast<std::byte>(random());
    auto parsed = parse_side_message(bytes);
    if (!parsed.ok()) ++refused;
    auto* hello = parsed.ok() ? std::get_if<SideHello>(&*parsed) : nullptr;
    if (hello == nullptr) continue;
    CHECK(hello->port.gids.size() <= kMostGids);
    CHECK(mtu_code_of(hello->port.mtu_bytes) != 0);
    CHECK(hello->receives >= 2);
  }
  CHECK(refused > 1000);
  CHECK(!parse_side_message(SideBytes{}).ok());
}

}  // namespace tutti::test
