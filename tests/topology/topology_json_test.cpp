#include <catch2/catch.hpp>
#include <string>

#include "tests/topology/samples.h"
#include "topology/topology.h"

using namespace tutti;
using samples::host;
using samples::rank;

namespace {

std::string refusal(const std::string& text) {
  auto parsed = parse_topology(text);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

std::string document(const std::string& fields) {
  return "{\n\"format\": \"tutti.topology\",\n\"version\": 1,\n" + fields + "}\n";
}

}  // namespace

TEST_CASE("a topology read back from its JSON is the same value, text and digest") {
  auto facts = samples::two_hosts();
  facts[1].inventory.identity.pid_namespace = 77;
  facts[1].inventory.cpu.allowed_cpus = {2, 3};
  for (std::string_view forced : {"", "tcp"}) {
    auto topology = merge(facts, forced);
    REQUIRE(topology.ok());
    auto parsed = parse_topology(to_json(*topology));
    INFO(parsed.status().message());
    REQUIRE(parsed.ok());
    CHECK(*parsed == *topology);
    CHECK(to_json(*parsed) == to_json(*topology));
    CHECK(parsed->digest() == topology->digest());
  }
}

TEST_CASE("a topology written by hand needs hosts and ranks only") {
  auto parsed = parse_topology(
      document(R"("hosts": [{}, {"network_bytes_per_s": {"value": 5e9}}], "ranks": [{"host": 0}, {"host": 1}])"));
  INFO(parsed.status().message());
  REQUIRE(parsed.ok());
  CHECK(parsed->link(0, 1).kind == LinkKind::kTcp);
  CHECK(parsed->hosts[1].network_bytes_per_s == Figure{5'000'000'000, Origin::kUser});
  CHECK(parsed->hosts[0].network_bytes_per_s.origin == Origin::kDefault);
}

TEST_CASE("hosts of two fabrics are linked by no more than leads out of either") {
  auto hosts = [](const std::string& fabric) {
    return document(R"("hosts": [{"network_bytes_per_s": {"value": 2e9}, "inventory": {"fabric": "rack1"}},
      {"network_bytes_per_s": {"value": 2e9}, "inventory": {"fabric": ")" + fabric +
                    R"(", "fabric_bytes_per_s": {"value": 1e9}}}], "ranks": [{"host": 0}, {"host": 1}])");
  };
  auto apart = parse_topology(hosts("rack2"));
  INFO(apart.status().message());
  REQUIRE(apart.ok());
  CHECK(apart->link(0, 1).bytes_per_s == Figure{1'000'000'000, Origin::kUser});
  CHECK(parse_topology(to_json(*apart)).value() == *apart);
  CHECK_THAT(to_tree(*apart), Catch::Contains("fabric: rack2, 1 GB/s (user) to and from others\n"));
  auto together = parse_topology(hosts("rack1"));
  REQUIRE(together.ok());
  CHECK(together->link(0, 1).bytes_per_s == Figure{2'000'000'000, Origin::kUser});
  CHECK_THAT(to_tree(*together), Catch::Contains("fabric: rack1\n"));
}

TEST_CASE("a topology that contradicts itself is refused with line and reason") {
  CHECK(refusal(document("\"hosts\": [{}],\n\"ranks\": [{\"host\": 0},\n{\"host\": 1}]")) ==
        "line 6: ranks[1].host is 1, but the number of hosts is 1");
  CHECK(refusal(document("\"hosts\": [{}, {}], \"ranks\": [{}]")) == "line 4: host 1 has no rank; leave it out");
  CHECK(refusal(document("\"hosts\": []")) == "line 4: a topology needs at least one rank");
  CHECK_THAT(refusal(document("\"forced_transport\": \"pigeon\", \"hosts\": [{}], \"ranks\": [{}]")),
             Catch::Contains("no transport \"pigeon\""));
}

TEST_CASE("links that do not follow from the hosts are refused") {
  std::string text = to_json(*merge(samples::two_hosts(), ""));
  size_t kind = text.find("\"kind\": \"shm\"");
  REQUIRE(kind != std::string::npos);
  std::string other = text;
  other.replace(kind, 13, "\"kind\": \"tcp\"");
  CHECK_THAT(refusal(other), Catch::Contains("links contradicts the hosts' figures"));
  other = text;
  other.replace(kind, 13, "\"kind\": \"ufo\"");
  CHECK_THAT(refusal(other), Catch::Contains("links[0].kind must be one of"));
}
