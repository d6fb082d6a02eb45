// Which port a rank takes, and by which addresses two ports reach each other.
#include "transports/verbs/path.h"

#include <arpa/inet.h>

#include <catch2/catch.hpp>

#include <set>

namespace tutti::test {
namespace {

Gid gid(int index, GidType type, const char* address) {
  Gid result{.index = index, .type = type};
  REQUIRE(::inet_pton(AF_INET6, address, result.bytes.data()) == 1);
  return result;
}

PortFacts port(const char* device, int number, uint64_t speed_mbps, bool active = true) {
  return {.device = device, .port = number, .active = active, .mtu_bytes = 4096, .speed_mbps = speed_mbps, .gids = {}};
}

std::string refusal(const Result<std::vector<size_t>>& chosen) { return std::string(chosen.status().message()); }

PortAddress ethernet(std::vector<Gid> gids, int mtu_bytes = 4096) {
  return {.infiniband = false, .lid = 0, .mtu_bytes = mtu_bytes, .gids = std::move(gids)};
}

PortAddress infiniband(uint16_t lid, const char* address) {
  return {.infiniband = true, .lid = lid, .mtu_bytes = 4096, .gids = {gid(0, GidType::kInfiniband, address)}};
}

}  // namespace

TEST_CASE("ports that are up are used, the fastest first") {
  std::vector<PortFacts> ports = {port("a", 1, 100'000), port("b", 1, 400'000), port("b", 2, 400'000, false),
                                  port("c", 1, 400'000)};
  CHECK(choose_ports(ports, "").value() == std::vector<size_t>{1, 3, 0});
}

TEST_CASE("ranks of a host go through ports that are alike, the near ones first") {
  std::vector<PortFacts> ports = {port("slow", 1, 100'000), port("a", 1, 400'000), port("b", 1, 400'000),
                                  port("c", 1, 400'000), port("d", 1, 400'000)};
  CHECK(order_ports(ports, {.numa_nodes = {0}, .turn = 1}) == std::vector<size_t>{2, 3, 4, 1, 0});
  CHECK(order_ports(ports, {.numa_nodes = {}, .turn = 7}) == std::vector<size_t>{4, 1, 2, 3, 0});
  for (size_t i : {0, 1, 2}) ports[i].numa_node = 0;
  for (size_t i : {3, 4}) ports[i].numa_node = 1;
  CHECK(order_ports(ports, {.numa_nodes = {0}, .turn = 0}) == std::vector<size_t>{1, 2, 3, 4, 0});
  CHECK(order_ports(ports, {.numa_nodes = {1}, .turn = 1}) == std::vector<size_t>{4, 3, 2, 1, 0});
  CHECK(order_ports(ports, {.numa_nodes = {0, 1}, .turn = 2}) == std::vector<size_t>{3, 4, 1, 2, 0});
  CHECK(order_ports(ports, {}) == std::vector<size_t>{1, 2, 3, 4, 0});
}

TEST_CASE("the option names devices, and ports of them") {
  std::vector<PortFacts> ports = {port("mlx5_0", 1, 100'000), port("mlx5_0", 2, 100'000), port("mlx5_10", 1, 400'000)};
  CHECK(choose_ports(ports, "mlx5_0").value() == std::vector<size_t>{0, 1});
  CHECK(choose_ports(ports, "mlx5_0:2").value() == std::vector<size_t>{1});
  CHECK(choose_ports(ports, "mlx5_0:1,mlx5_10").value() == std::vector<size_t>{2, 0});
  CHECK(choose_ports(ports, "mlx5_10,mlx5_10").value() == std::vector<size_t>{2, 2});
  CHECK_THAT(refusal(choose_ports(ports, "mlx5_1")), Catch::Contains("mlx5_10:1 (up)"));
  CHECK_THAT(refusal(choose_ports({}, "")), Catch::Contains("no RDMA device"));
  ports = {port("mlx5_0", 1, 100'000, false)};
  CHECK_THAT(refusal(choose_ports(ports, "")), Catch::Contains("mlx5_0:1 (down)"));
}

TEST_CASE("two ends try every pair of their ports, each once, the best first") {
  auto [mine, theirs] = GENERATE(table<size_t, size_t>({{1, 1}, {1, 3}, {3, 1}, {2, 2}, {2, 3}, {4, 2}, {3, 5}}));
  CHECK(port_at(0, mine, theirs, true) == 0);
  CHECK(port_at(0, mine, theirs, false) == 0);
  std::set<std::pair<size_t, size_t>> tried;
  for (size_t i = 0; i < mine * theirs; ++i) {
    tried.emplace(port_at(i, mine, theirs, true), port_at(i, mine, theirs, false));
  }
  CHECK(tried.size() == mine * theirs);
  CHECK(tried.rbegin()->first == mine - 1);
}

TEST_CASE("both ends choose the same pair of addresses, of the best type and one subnet") {
  PortAddress a = ethernet({gid(0, GidType::kRoceV1, "fe80::1"), gid(1, GidType::kRoceV2Ipv4, "::ffff:10.1.0.1"),
                            gid(2, GidType::kRoceV2Ipv4, "::ffff:10.2.0.1")});
  PortAddress b = ethernet({gid(5, GidType::kRoceV2Ipv4, "::ffff:10.2.0.2"), gid(6, GidType::kRoceV1, "fe80::2"),
                            gid(7, GidType::kRoceV2Ipv6, "fd00::2")}, 1024);
  Route there = choose_route(a, b).value(), back = choose_route(b, a).value();
  CHECK(there.from.index == 2);
  CHECK(there.to.index == 5);
  CHECK(back.from.index == 5);
  CHECK(back.to.index == 2);
  CHECK(there.by_gid);
  CHECK(there.mtu_bytes == 1024);
}

TEST_CASE("what did not work is followed by other kinds of addresses, the same from both ends") {
  auto v2 = [](int index, const char* address) { return gid(index, GidType::kRoceV2Ipv4, address); };
  PortAddress a = ethernet({v2(0, "::ffff:10.1.0.1"), v2(1, "::ffff:10.2.0.1"), gid(2, GidType::kRoceV1, "fe80::1")});
  PortAddress b = ethernet({v2(5, "::ffff:10.1.0.2"), v2(6, "::ffff:10.1.0.3"), gid(7, GidType::kRoceV1, "fe80::2")});
  CHECK(count_routes(a, b) == 5);
  CHECK(count_routes(b, a) == 5);
  std::vector<std::pair<int, int>> tried;
  for (size_t tries = 0; tries < 6; ++tries) {
    Route there = choose_route(a, b, tries).value(), back = choose_route(b, a, tries).value();
    CHECK(back.from == there.to);
    CHECK(back.to == there.from);
    tried.emplace_back(there.from.index, there.to.index);
  }
  CHECK(tried == std::vector<std::pair<int, int>>{{0, 5}, {1, 5}, {2, 7}, {0, 6}, {1, 6}, {0, 5}});
  CHECK(count_routes(infiniband(3, "fe80::a"), infiniband(4, "fe80::b")) == 1);
}

TEST_CASE("ports without a type of address in common have no route, and the error names the types") {
  PortAddress a = ethernet({gid(0, GidType::kRoceV1, "fe80::1")});
  PortAddress b = ethernet({gid(0, GidType::kRoceV2Ipv4, "::ffff:10.2.0.2")});
  Status refused = choose_route(a, b).status();
  CHECK_THAT(std::string(refused.message()), Catch::Contains("RoCE v1 here, RoCE v2 over IPv4 there"));
  CHECK(!choose_route(a, infiniband(7, "fe80::9")).ok());
}

TEST_CASE("InfiniBand goes by LID within a subnet, and by GID to another one") {
  PortAddress a = infiniband(3, "fe80::a"), b = infiniband(4, "fe80::b"), far = infiniband(4, "fec0:0:0:2::b");
  Route near = choose_route(a, b).value();
  CHECK(!near.by_gid);
  CHECK(near.lid == 4);
  CHECK(choose_route(a, far).value().by_gid);
  CHECK(choose_route(a, infiniband(0, "fe80::c")).value().by_gid);
}

TEST_CASE("one GID may be asked for, and must be there") {
  PortFacts facts = port("a", 1, 1);
  facts.gids = {gid(0, GidType::kRoceV1, "fe80::1"), gid(3, GidType::kRoceV2Ipv4, "::ffff:10.1.0.1")};
  CHECK(address_of(facts, -1, 0).value().gids[0].index == 3);
  CHECK(address_of(facts, 0, 0).value().gids.size() == 1);
  CHECK_THAT(std::string(address_of(facts, 2, 0).status().message()), Catch::Contains("TUTTI_IB_GID_INDEX"));
}

TEST_CASE("packets may be asked to be small, by sizes that there are") {
  CHECK(address_of(port("a", 1, 1), -1, 0).value().mtu_bytes == 4096);
  CHECK(address_of(port("a", 1, 1), -1, 1024).value().mtu_bytes == 1024);
  CHECK_THAT(std::string(address_of(port("a", 1, 1), -1, 1500).status().message()), Catch::Contains("TUTTI_IB_MTU"));
}

TEST_CASE("codes of the specification are speeds and sizes") {
  CHECK(speed_mbps_of(32, 2) == 100'000);
  CHECK(speed_mbps_of(128, 2) == 400'000);
  CHECK(speed_mbps_of(3, 2) == 0);
  for (int code = 1; code <= 5; ++code) CHECK(mtu_code_of(mtu_bytes_of(code)) == code);
  CHECK(mtu_bytes_of(0) == 0);
  CHECK(mtu_bytes_of(6) == 0);
  CHECK(mtu_code_of(1500) == 0);
}

}  // namespace tutti::test
