#include "core/tuning_file.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "discovery/text_file.h"
#include "tests/base/capture.h"
#include "tests/discovery/scratch.h"

namespace tutti::test {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

Topology topology_of(int nranks) {
  Inventory host;
  host.hostname = "example";
  host.cpu = {"x86_64", "Example 9000", 1, 2, 2, {0, 1}};
  host.identity.boot_id = "b";
  return single_host(host, nranks);
}

TuningTable table_for(int nranks) {
  return {tuned_ranks_of(topology_of(nranks)), {{TUTTI_ALL_REDUCE, {{4096, "ring"}}}}};
}

Config config_for(const std::string& file) {
  Config config;
  config.tuning = file;
  return config;
}

std::string refusal(const Config& config, int nranks) {
  auto loaded = load_tuning(config, topology_of(nranks));
  return loaded.ok() ? "" : std::string(loaded.status().message());
}

}  // namespace

TEST_CASE("a stored tuning is found by ranks that are alike, and by no others") {
  Scratch scratch;
  CacheHome cache(scratch.path("cache"));
  auto file = store_tuning(table_for(4), "");
  REQUIRE(file.status().message() == "");
  CHECK_THAT(*file, StartsWith(scratch.path("cache/tutti/tuning-4-ranks-1-hosts-shm-")));
  auto found = load_tuning(Config(), topology_of(4));
  REQUIRE(found.ok());
  CHECK(found->collectives == table_for(4).collectives);
  CHECK(found->digest != 0);
  CHECK_FALSE(found->named);
  CHECK(load_tuning(Config(), topology_of(2))->digest == 0);
  CHECK(load_tuning(config_for("off"), topology_of(4))->digest == 0);
  Topology other = topology_of(4);
  other.hosts[0].inventory.cpu.model = "Example 9001";
  CHECK(load_tuning(Config(), other)->digest == 0);
}

TEST_CASE("what a file says of other collectives stays when it is for the same ranks") {
  Scratch scratch;
  std::string file = scratch.path("tuning.json");
  TuningTable broadcasts{tuned_ranks_of(topology_of(4)), {{TUTTI_BROADCAST, {{64, "chain"}}}}};
  TuningTable newer{tuned_ranks_of(topology_of(4)), {{TUTTI_ALL_REDUCE, {{128, "recursive_doubling"}}}}};
  REQUIRE(store_tuning(table_for(4), file).ok());
  REQUIRE(store_tuning(broadcasts, file).ok());
  REQUIRE(store_tuning(newer, file).ok());
  auto both = load_tuning(config_for(file), topology_of(4));
  REQUIRE(both.status().message() == "");
  REQUIRE(both->collectives.size() == 2);
  for (const TunedCollective& each : both->collectives) {
    bool is_newer = each.collective == TUTTI_ALL_REDUCE;
    CHECK(each == (is_newer ? newer.collectives[0] : broadcasts.collectives[0]));
  }
  REQUIRE(store_tuning(table_for(2), file).ok());
  CHECK(load_tuning(config_for(file), topology_of(2))->collectives == table_for(2).collectives);
}

TEST_CASE("a named tuning file that cannot be used is refused with file, reason and remedy") {
  Scratch scratch;
  std::string file = scratch.path("tuning.json");
  CHECK_THAT(refusal(config_for(file), 4), StartsWith("cannot open " + file) && Contains("; name a file"));
  REQUIRE(store_tuning(table_for(4), file).ok());
  CHECK(refusal(config_for(file), 4) == "");
  constexpr const char* kRemedy = "; `tutti bench --tune` measures anew, TUTTI_TUNING=off goes without";
  CHECK(refusal(config_for(file), 2) ==
        "cannot use the tuning file " + file + ": it is for 4 ranks on 1 host over shm (Example 9000 with 2 CPUs), but "
        "here are 2 ranks on 1 host over shm (Example 9000 with 2 CPUs)" + kRemedy);
  CHECK(refusal(config_for(file), 1) == "");
  REQUIRE(write_text_file(file, "precious").ok());
  for (int nranks : {1, 4}) {
    CHECK_THAT(refusal(config_for(file), nranks),
               StartsWith("cannot use the tuning file " + file + ": line 1: ") && EndsWith(kRemedy));
  }
}

TEST_CASE("a wrong file in the cache is warned of, and goes unused") {
  Scratch scratch;
  CacheHome cache(scratch.path("cache"));
  std::string file = *store_tuning(table_for(4), "");
  REQUIRE(write_text_file(file, "garbage").ok());
  std::string said;
  {
    StderrCapture capture;
    CHECK(load_tuning(Config(), topology_of(4))->digest == 0);
    said = capture.text();
  }
  CHECK_THAT(said, StartsWith("[tutti] warning: no tuning is used: cannot use the tuning file " + file + ": line 1: "));
}

TEST_CASE("ranks use what all of them have, nothing where they differ, and what was named must be alike") {
  TuningVote none, one{1, 0}, two{2, 0}, named{1, 1};
  CHECK(*agree(std::vector{none, none}));
  CHECK(*agree(std::vector{one, one, named}));
  CHECK_FALSE(*agree(std::vector{one, none}));
  CHECK_FALSE(*agree(std::vector{one, one, two}));
  auto refused = agree(std::vector{named, one, none});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == Code::kInvalidUsage);
  CHECK(refused.status().message() ==
        "ranks differ: TUTTI_TUNING gives the tuning 0000000000000001 on rank 0 and no tuning on rank 2; name files "
        "with the same tuning on all ranks, or set TUTTI_TUNING=off on all");
}

TEST_CASE("a tuning that cannot be written is an error that names the place") {
  auto refused = store_tuning(table_for(2), "/proc/nowhere/tuning.json");
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(std::string(refused.status().message()), Contains("/proc/nowhere"));
}

}  // namespace tutti::test
