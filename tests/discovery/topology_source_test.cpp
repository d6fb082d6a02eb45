#include "discovery/topology_source.h"

#include <catch2/catch.hpp>

#include "discovery/text_file.h"
#include "tests/discovery/scratch.h"

using namespace tutti;

namespace {

const std::string kMachine = std::string(TUTTI_MACHINES) + "/dual-socket.json";

Config quiet() {
  Config config;
  config.calibration = "off";
  return config;
}

std::string refusal(const Config& config, const std::string& file, int nranks) {
  auto topology = topology_for(config, {.file = file, .nranks = nranks});
  return topology.ok() ? "" : std::string(topology.status().message());
}

}  // namespace

TEST_CASE("a topology comes from this host, a machine, an inventory or a topology") {
  Scratch scratch;
  CHECK(topology_for(quiet(), {"", 0})->nranks() == 1);
  CHECK(topology_for(quiet(), {"", 3})->nranks() == 3);
  auto machine = topology_for(quiet(), {kMachine, 4});
  REQUIRE(machine.ok());
  CHECK(machine->hosts[0].inventory.hostname == "node17");
  CHECK(machine->nranks() == 4);
  CHECK(topology_for(quiet(), {std::string(TUTTI_MACHINES) + "/dual-socket.inventory.json", 4})->digest() ==
        machine->digest());
  std::string file = scratch.path("topology.json");
  REQUIRE(write_text_file(file, to_json(*machine)).ok());
  CHECK(*topology_for(quiet(), {file, 0}) == *machine);
  CHECK(*topology_for(quiet(), {file, 4}) == *machine);
}

TEST_CASE("the option fabric says where this host is") {
  Config config = quiet();
  CHECK(topology_for(config, {"", 1})->hosts[0].inventory.fabric.empty());
  config.fabric = "rack7";
  CHECK(topology_for(config, {"", 1})->hosts[0].inventory.fabric == "rack7");
}

TEST_CASE("the option transport is forced") {
  Config config = quiet();
  config.transport = "tcp";
  CHECK(topology_for(config, {kMachine, 2})->link(0, 1).kind == LinkKind::kTcp);
  config.transport = "loopback";
  CHECK_THAT(refusal(config, kMachine, 2),
             Catch::Contains("rank 0 on node17 and rank 1 on node17 are different processes"));
}

TEST_CASE("a file that does not fit is refused with its name, line and reason") {
  Scratch scratch;
  std::string file = scratch.path("t.json");
  auto expect = [&](const std::string& text, int nranks, const std::string& reason) {
    REQUIRE(write_text_file(file, text).ok());
    CHECK(refusal(quiet(), file, nranks) == file + ": " + reason);
  };
  const std::string remedy = "; correct the file, docs/topology.md has its format";
  expect("{}", 0, "line 1: the document must have \"format\": \"tutti.topology\"" + remedy);
  expect("{\n\"format\": \"recipe\"}", 0, "line 2: format must have \"format\": \"tutti.topology\"" + remedy);
  expect("{\n\"format\": \"tutti.inventory\", \"version\": 1, \"hostnam\": \"a\"}", 0,
         "line 2: hostnam is no field of this format (did you mean \"hostname\"?)" + remedy);
  expect(to_json(single_host(Inventory(), 2)), 3, "it has 2 ranks, not 3; leave out the number of ranks");
  CHECK_THAT(refusal(quiet(), scratch.path("absent.json"), 0), Catch::Contains("absent.json: No such file"));
  CHECK_THAT(refusal(quiet(), "", -1), Catch::Contains("from 0 to 1048576, not -1"));
}
