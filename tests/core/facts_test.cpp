#include "core/facts.h"

#include <catch2/catch.hpp>

namespace tutti::test {
namespace {

Facts sample() {
  Facts facts;
  facts.rank.inventory.hostname = "node7";
  facts.rank.inventory.identity.boot_id = "b";
  facts.rank.pid = 42;
  facts.transports = {{"shm", Blob{std::byte{1}, std::byte{255}}}, {"tcp", {}}};
  facts.agreed = options_to_agree(Config{}, {});
  return facts;
}

}  // namespace

TEST_CASE("facts survive their way to another rank") {
  std::vector<std::vector<std::byte>> bytes = {encode(sample()), encode(sample())};
  auto all = decode_all(bytes);
  REQUIRE(all.status().message() == "");
  CHECK((*all)[1].rank == sample().rank);
  CHECK((*all)[1].transports == sample().transports);
}

TEST_CASE("ranks with different options are told which, and both values") {
  Facts other = sample();
  Config config;
  config.slots = 8;
  other.agreed = options_to_agree(config, {});
  std::vector<std::vector<std::byte>> bytes = {encode(sample()), encode(sample()), encode(other)};
  auto all = decode_all(bytes);
  REQUIRE_FALSE(all.ok());
  CHECK(all.status().code() == Code::kInvalidUsage);
  CHECK(all.status().message() ==
        "ranks differ: TUTTI_SLOTS is '4' on rank 0 and '8' on rank 2; set it alike on all ranks");
}

TEST_CASE("ranks with different plan files are told which ranks, and what to do") {
  PlanShape shape;
  shape.algorithm = "mine";
  shape.nranks = 2;
  Plan plan(shape, std::vector<RankPlan>(2));
  Facts one = sample(), same = sample();
  Config config;
  config.plan_file = "here.json";
  one.agreed = options_to_agree(config, plan);
  config.plan_file = "there.json";
  same.agreed = options_to_agree(config, plan);
  CHECK(decode_all(std::vector{encode(one), encode(same)}).ok());
  auto all = decode_all(std::vector{encode(one), encode(same), encode(sample())});
  REQUIRE_FALSE(all.ok());
  CHECK(all.status().message() ==
        fmt::format("ranks differ: TUTTI_PLAN_FILE is 'the plan {:016x}' on rank 0 and '' on rank 2; name files with "
                    "the same plan on all ranks",
                    plan.digest()));
}

TEST_CASE("malformed facts name their rank") {
  std::vector<std::vector<std::byte>> bytes = {encode(sample()), {std::byte{0xff}, std::byte{0}}};
  auto all = decode_all(bytes);
  REQUIRE_FALSE(all.ok());
  CHECK(all.status().message().find("rank 1") != std::string_view::npos);
}

}  // namespace tutti::test
