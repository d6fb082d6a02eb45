// Everything that is read from other processes: round trips, and garbage.
#include <catch2/catch.hpp>

#include <random>

#include "bootstrap/channel.h"
#include "bootstrap/meeting.h"
#include "bootstrap/messages.h"
#include "bootstrap/pmi1.h"
#include "bootstrap/ranks.h"
#include "bootstrap/routing.h"

namespace tutti::bootstrap {
namespace {

UniqueId full_id() {
  UniqueId id = fresh_id(UniqueId::Kind::kServed);
  id.host = 77;
  id.addresses = {Endpoint::ip("10.1.2.3", 4711).value(), Endpoint::ip("2001:db8::7", 4711).value()};
  return id;
}

Hello hello_of(int rank, int nranks) {
  Hello hello;
  hello.rank = rank;
  hello.nranks = nranks;
  hello.pid = 10 + rank;
  hello.timeout_ms = 60'000;
  hello.host_name = fmt::format("host{}", static_cast<char>('A' + rank));
  hello.endpoints = {Endpoint::unix_socket("0000a"), Endpoint::ip("10.0.0.1", 1234).value()};
  return hello;
}

// Feeds a decoder cut and changed copies of a good message: it must answer, whatever it answers.
template <typename Decode>
void survive(const Bytes& good, Decode decode) {
  std::mt19937 random(7);
  for (int round = 0; round < 3'000; ++round) {
    Bytes bad = good;
    bad.resize(random() % (good.size() + 20));
    for (unsigned change = random() % 8; change > 0 && !bad.empty(); --change)
      bad[random() % bad.size()] = static_cast<std::byte>(random());
    (void)decode(bad).ok();
  }
}

TEST_CASE("a unique id survives its 128 bytes") {
  UniqueId id = full_id();
  auto back = decode_unique_id(encode(id));
  REQUIRE(back.ok());
  CHECK(*back == id);
}

TEST_CASE("addresses that do not fit into a unique id are left out") {
  UniqueId id = full_id();
  for (int i = 0; i < 20; ++i) id.addresses.push_back(Endpoint::ip(fmt::format("10.9.9.{}", i), 4711).value());
  auto back = decode_unique_id(encode(id));
  REQUIRE(back.ok());
  CHECK(back->addresses.size() > 3);
  CHECK(back->addresses.front() == id.addresses.front());
}

TEST_CASE("a unique id with any one byte changed is refused") {
  tutti_unique_id_t good = encode(full_id());
  for (size_t i = 0; i < sizeof(good.bytes); ++i) {
    tutti_unique_id_t bad = good;
    bad.bytes[i] ^= 0x41;
    CHECK(!decode_unique_id(bad).ok());
  }
  CHECK(!decode_unique_id(tutti_unique_id_t{}).ok());
}

TEST_CASE("messages survive their encoding") {
  Hello hello = hello_of(3, 8);
  CHECK(decode_hello(encode(hello)).value() == hello);
  CHECK(encode(hello).size() == kMaxHello);
  Neighbours neighbours = decode_neighbours(encode(Neighbours{5, Secret{}, {hello, hello_of(4, 8)}})).value();
  CHECK(neighbours.job == 5);
  CHECK(neighbours.hellos == std::vector<Hello>{hello, hello_of(4, 8)});
  CHECK(decode_link(encode(LinkHello{1, 2, 3, {}})).value().to == 2);
  CHECK(decode_notice(encode(Notice{4, Code::kTimeout, "late"})).value().text == "late");
  Parcel parcel{1, 2, 3, {4, 5}, bytes_of("payload")};
  CHECK(decode_parcel(encode(parcel)).value().path == parcel.path);
  CHECK(decode_block(encode(9, 2, as_bytes("x"))).value().origin == 2);
}

TEST_CASE("no bytes of a stranger break a decoder") {
  survive(encode(hello_of(0, 4)), decode_hello);
  survive(encode(Neighbours{1, {}, {hello_of(0, 4), hello_of(1, 4)}}), decode_neighbours);
  survive(encode(LinkHello{0, 1, 2, {}}), decode_link);
  survive(encode(Notice{1, Code::kRemote, "text"}), decode_notice);
  survive(encode(Parcel{0, 1, 2, {3, 4}, bytes_of("abc")}), decode_parcel);
  survive(encode(1, 2, as_bytes("abc")), decode_block);
  survive(bytes_of("cmd=get_result rc=0 msg=success value=0123"), [](const Bytes& bytes) {
    return parse_pmi(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  });
}

TEST_CASE("a hello of another version names the rank and both versions") {
  Hello hello = hello_of(3, 8);
  hello.version = kWireVersion + 1;
  Status status = decode_hello(encode(hello)).status();
  CHECK(status.code() == Code::kInvalidUsage);
  CHECK_THAT(std::string(status.message()), Catch::Contains("rank 3 (pid 13 on hostD) speaks version " +
                                                            std::to_string(kWireVersion + 1)));
}

TEST_CASE("frames arrive whole however they are cut") {
  Writer wire;
  for (int i = 0; i < 50; ++i) {
    wire.u32(static_cast<uint32_t>(i));
    wire.u32(7);
    wire.bytes(bytes_of(std::string(static_cast<size_t>(i), 'a')));
  }
  for (size_t piece : {1, 3, 8, 1000}) {
    FrameParser parser(64);
    size_t frames = 0;
    for (size_t at = 0; at < wire.size(); at += piece) {
      parser.add(wire.view().subspan(at, std::min(piece, wire.size() - at)));
      for (auto frame = parser.next().value(); frame; frame = parser.next().value())
        CHECK(frame->payload.size() == frames++);
    }
    CHECK(frames == 50);
    CHECK(parser.empty());
  }
}

TEST_CASE("a frame larger than allowed is refused before it arrives") {
  Writer wire;
  wire.u32(0x7fffffff);
  wire.u32(1);
  FrameParser parser(kMaxHello);
  parser.add(wire.view());
  CHECK(!parser.next().ok());
}

TEST_CASE("PMI-1 lines are read field by field") {
  PmiFields fields = parse_pmi("cmd=get_result rc=-1 msg=key not found value=unknown").value();
  CHECK(fields["cmd"] == "get_result");
  CHECK(fields["rc"] == "-1");
  CHECK(!parse_pmi("garbage").ok());
  CHECK(!parse_pmi("=x").ok());
}

TEST_CASE("a meeting names ranks that differ") {
  Meeting meeting;
  REQUIRE(meeting.add(hello_of(0, 4)).ok());
  CHECK(std::string(meeting.add(hello_of(3, 8)).message()) ==
        "rank 3 (pid 13 on hostD) was started with 8 ranks, rank 0 (pid 10 on hostA) with 4: start all with the same "
        "number");
  Hello twin = hello_of(0, 4);
  twin.pid = 11;
  CHECK(std::string(meeting.add(twin).message()) ==
        "two processes claim rank 0: pid 10 on hostA and pid 11 on hostA: give each process its own rank");
}

TEST_CASE("a meeting names the ranks that are missing at the first deadline") {
  Meeting meeting;
  for (int rank : {0, 1, 2, 4, 6, 7}) REQUIRE(meeting.add(hello_of(rank, 8)).ok());
  CHECK(!meeting.complete());
  CHECK_THAT(std::string(meeting.missing().message()),
             Catch::StartsWith("ranks 3, 5 of 8 have not joined after 60000 ms"));
}

TEST_CASE("every rank reaches every other along the overlay in few hops") {
  for (int n : {2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65}) {
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) {
        std::vector<int> path{from};
        while (path.back() != to) {
          int next = next_hop(to, n, neighbours_of(path.back(), n), path);
          REQUIRE(next >= 0);
          path.push_back(next);
        }
        REQUIRE(path.size() <= 8);
      }
    }
  }
}

TEST_CASE("neighbourhood in the overlay is mutual") {
  for (int n = 1; n <= 40; ++n) {
    for (int rank = 0; rank < n; ++rank) {
      for (int other : neighbours_of(rank, n)) {
        auto back = neighbours_of(other, n);
        REQUIRE(other != rank);
        REQUIRE(std::count(back.begin(), back.end(), rank) == 1);
      }
    }
  }
}

}  // namespace
}  // namespace tutti::bootstrap
