#include <catch2/catch.hpp>

#include "tests/topology/samples.h"
#include "topology/topology.h"

using namespace tutti;
using samples::host;
using samples::rank;

namespace {

std::string refusal(const std::vector<RankFacts>& ranks, std::string_view forced = "") {
  auto merged = merge(ranks, forced);
  return merged.ok() ? "" : std::string(merged.status().message());
}

}  // namespace

TEST_CASE("ranks are grouped by host in order of first appearance") {
  auto topology =
      merge(std::vector{rank(host("b"), 1), rank(host("a"), 1), rank(host("b"), 2), rank(host("a"), 2)}, "");
  REQUIRE(topology.ok());
  REQUIRE(topology->hosts.size() == 2);
  CHECK(topology->hosts[0].inventory.hostname == "b");
  CHECK(topology->hosts[0].ranks == std::vector{0, 2});
  CHECK(topology->hosts[1].ranks == std::vector{1, 3});
  CHECK(topology->ranks[3].local_rank == 1);
  CHECK(topology->max_ranks_per_host() == 2);
}

TEST_CASE("containers of one machine are told apart by their network namespaces") {
  Inventory container = host("a");
  container.identity.net_namespace = 99;
  auto topology = merge(std::vector{rank(host("a"), 1), rank(container, 1)}, "");
  REQUIRE(topology.ok());
  CHECK(topology->hosts.size() == 2);
  CHECK(topology->link(0, 1).kind == LinkKind::kTcp);
  CHECK_FALSE(topology->same_process(0, 1));
}

TEST_CASE("containers that share the network namespace are one host, each with namespaces of its own") {
  Inventory container = host("a");
  container.identity.mount_namespace = 99;
  container.cpu.allowed_cpus = {2};
  auto topology = merge(std::vector{rank(host("a"), 1), rank(container, 2)}, "");
  REQUIRE(topology.ok());
  CHECK(topology->hosts.size() == 1);
  CHECK(topology->inventory_of(1) == container);
  CHECK(topology->inventory_of(0) == host("a"));
}

TEST_CASE("hosts whose boot id is unknown are told apart by name") {
  Inventory a = host("a");
  Inventory b = host("b");
  a.identity.boot_id = b.identity.boot_id = "";
  auto topology = merge(std::vector{rank(a, 1), rank(b, 1), rank(a, 2)}, "");
  REQUIRE(topology.ok());
  CHECK(topology->hosts.size() == 2);
  CHECK(topology->link(0, 1).kind == LinkKind::kTcp);
}

TEST_CASE("ranks bound to their own cores are not oversubscribed, ranks that share them are") {
  Inventory first = host("a");
  Inventory second = host("a");
  first.cpu.allowed_cpus = {0};
  second.cpu.allowed_cpus = {1};
  auto bound = merge(std::vector{rank(first, 1), rank(second, 2)}, "");
  REQUIRE(bound.ok());
  CHECK(bound->hosts[0].inventory.cpu.allowed_cpus == std::vector{0, 1});
  CHECK(bound->ranks[1].cpus == std::vector{1});
  CHECK_FALSE(bound->oversubscribed());
  auto sharing = merge(std::vector{rank(first, 1), rank(first, 2)}, "");
  REQUIRE(sharing.ok());
  CHECK(sharing->oversubscribed());
}

TEST_CASE("all ranks that merge the same facts get the same digest, others do not") {
  auto facts = samples::two_hosts();
  auto one = merge(facts, "");
  auto other = merge(facts, "");
  REQUIRE(one.ok());
  REQUIRE(other.ok());
  CHECK(one->digest() == other->digest());
  facts[2].inventory.costs.tcp_ns.value += 1;
  CHECK(merge(facts, "")->digest() != one->digest());
  CHECK(merge(samples::two_hosts(), "tcp")->digest() != one->digest());
}

TEST_CASE("what cannot be linked is an error that names the two ranks") {
  CHECK(refusal({}) == "a topology needs at least one rank");
  CHECK_THAT(refusal(samples::two_hosts(), "shm"), Catch::Contains("rank 0 on a and rank 2 on b share no kernel"));
  CHECK_THAT(refusal(samples::two_hosts(), "loopback"), Catch::Contains("rank 0 on a and rank 2 on b"));
  CHECK_THAT(refusal({rank(host("a"), 1), rank(host("a"), 1), rank(host("a"), 2)}, "loopback"),
             Catch::Contains("rank 0 on a and rank 2 on a are different processes"));
  CHECK_THAT(refusal(samples::two_hosts(), "pigeon"), Catch::Contains("no transport \"pigeon\""));
  auto cut_off = samples::two_hosts();
  cut_off[2].inventory.nics[1].up = false;
  CHECK_THAT(refusal(cut_off), Catch::StartsWith("rank 2 on b cannot reach rank 0 on a"));
}

TEST_CASE("hosts of different byte order are refused by name") {
  auto facts = samples::two_hosts();
  facts[2].inventory.cpu.architecture = "s390x";
  CHECK_THAT(refusal(facts), Catch::StartsWith("rank 0 on a (x86_64) and rank 2 on b (s390x) differ in byte order"));
}

TEST_CASE("a single host has as many processes as asked for") {
  Topology topology = single_host(host("a"), 3);
  CHECK(topology.nranks() == 3);
  CHECK(topology.hosts.size() == 1);
  CHECK(topology.link(0, 2).kind == LinkKind::kShm);
  CHECK(topology.ranks[2].local_rank == 2);
}
