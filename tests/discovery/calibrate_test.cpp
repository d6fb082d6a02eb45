#include "discovery/calibrate.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "discovery/calibration_json.h"
#include "discovery/discover.h"
#include "discovery/text_file.h"
#include "tests/discovery/scratch.h"

using namespace tutti;

namespace {

Inventory some_host() {
  Inventory host;
  host.hostname = "example";
  host.cpu = {"x86_64", "Example 9000", 1, 2, 2, {0, 1}};
  return host;
}

// Figures that no measurement gives.
Costs odd_costs() {
  Costs costs;
  costs.wake_ns = {123'456'789, Origin::kProbe};
  return costs;
}

Config config_for(const std::string& file) {
  Config config;
  config.calibration = file;
  return config;
}

std::string refusal(const Config& config, const Inventory& host) {
  auto costs = load_costs(config, host);
  return costs.ok() ? "" : std::string(costs.status().message());
}

}  // namespace

TEST_CASE("without a stored calibration the figures are the defaults") {
  Scratch scratch;
  auto costs = load_costs(config_for(scratch.path("none.json")), some_host());
  REQUIRE(costs.ok());
  CHECK(*costs == Costs());
}

TEST_CASE("stored figures are used on the machine they were measured on only") {
  Scratch scratch;
  std::string file = scratch.path("costs.json");
  REQUIRE(write_text_file(file, to_json(Calibration{calibrated_machine(some_host()), odd_costs()})).ok());
  CHECK(*load_costs(config_for(file), some_host()) == odd_costs());
  Inventory other = some_host();
  other.cpu.model = "Example 9001";
  CHECK_THAT(refusal(config_for(file), other),
             Catch::Contains(file + ": measured on another machine (example, Example 9000"));
}

TEST_CASE("a calibration file that cannot be used is refused with file, line, reason and remedy") {
  Scratch scratch;
  std::string file = scratch.path("costs.json");
  std::string good = to_json(Calibration{calibrated_machine(some_host()), odd_costs()});
  auto expect = [&](const std::string& text, const std::string& reason) {
    REQUIRE(write_text_file(file, text).ok());
    std::string sentence = refusal(config_for(file), some_host());
    CAPTURE(sentence);
    CHECK_THAT(sentence, Catch::StartsWith("cannot use the calibration file " + file + ": "));
    CHECK_THAT(sentence, Catch::Contains(reason));
    CHECK_THAT(sentence, Catch::EndsWith("`tutti topo --calibrate` measures anew"));
  };
  expect("", "line 1: syntax error");
  expect(good.substr(0, good.size() / 2), "syntax error");
  expect("{\n\"format\": \"tutti.inventory\"}", "line 2: format must have \"format\": \"tutti.calibration\"");
  expect("{\"format\": \"tutti.calibration\",\n\n\"version\": 99}", "line 3: version must have");
  std::string zero = good;
  zero.replace(zero.find("123456789"), 9, "0");
  expect(zero, "costs.wake_ns.value must be a whole number from 1");
}

TEST_CASE("switched off, nothing is loaded, measured or stored") {
  CHECK(*load_costs(config_for("off"), some_host()) == Costs());
  CHECK(*calibration_file(config_for("off"), some_host()) == "");
  auto refused = calibrate(config_for("off"), some_host(), Calibrate::kAlways);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == Code::kInvalidUsage);
}

TEST_CASE("the default file is one per host and processor") {
  Inventory other = some_host();
  other.cpu.model = "Example 9001";
  auto one = calibration_file(Config(), some_host());
  auto two = calibration_file(Config(), other);
  if (!one.ok()) return;  // neither XDG_CACHE_HOME nor HOME here
  CHECK_THAT(*one, Catch::Contains("/tutti/example-"));
  CHECK(*one != *two);
}

TEST_CASE("calibration measures this machine, stores the figures, and replaces a broken file") {
  Scratch scratch;
  std::string file = scratch.path("folder/costs.json");
  Config config = config_for(file);
  auto host = discover_live();
  REQUIRE(host.ok());
  auto measured = calibrate(config, *host, Calibrate::kIfMissing);
  INFO(measured.status().message());
  REQUIRE(measured.ok());
  CHECK(*load_costs(config, *host) == *measured);
  REQUIRE(write_text_file(file, "garbage").ok());
  auto again = calibrate(config, *host, Calibrate::kIfMissing);
  REQUIRE(again.ok());
  CHECK(*load_costs(config, *host) == *again);
}

TEST_CASE("figures that are stored are measured anew only when asked for") {
  Scratch scratch;
  std::string file = scratch.path("costs.json");
  auto host = discover_live();
  REQUIRE(host.ok());
  REQUIRE(write_text_file(file, to_json(Calibration{calibrated_machine(*host), odd_costs()})).ok());
  CHECK(*calibrate(config_for(file), *host, Calibrate::kIfMissing) == odd_costs());
  auto anew = calibrate(config_for(file), *host, Calibrate::kAlways);
  REQUIRE(anew.ok());
  CHECK(anew->wake_ns != odd_costs().wake_ns);
}

TEST_CASE("many that calibrate one host at once share one measurement") {
  Scratch scratch;
  Config config = config_for(scratch.path("costs.json"));
  auto host = discover_live();
  REQUIRE(host.ok());
  std::vector<Result<Costs>> results(4, Status(Code::kInternal, "did not run"));
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] { result = calibrate(config, *host, Calibrate::kIfMissing); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    REQUIRE(result.ok());
    CHECK(*result == *results.front());
  }
}

TEST_CASE("a place that cannot be written is an error that names it") {
  auto refused = calibrate(config_for("/proc/nowhere/costs.json"), some_host(), Calibrate::kAlways);
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(std::string(refused.status().message()), Catch::Contains("/proc/nowhere"));
}
