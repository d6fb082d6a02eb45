#include "discovery/calibrate.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "base/fd.h"
#include "discovery/calibration_json.h"
#include "discovery/discover.h"
#include "discovery/text_file.h"
#include "tests/base/capture.h"
#include "tests/base/sanitizers.h"
#include "tests/discovery/scratch.h"

using namespace tutti;

namespace {

Inventory some_host() {
  Inventory host;
  host.hostname = "example";
  host.cpu = {"x86_64", "Example 9000", 1, 2, 2, {0, 1}};
  return host;
}

// This one, under ThreadSanitizer with less memory, which is measured in a tenth of the time.
Inventory live_host() {
  auto host = discover_live();
  REQUIRE(host.ok());
  if (test::kUnderThreadSanitizer) host->limits.memory_limit_bytes = 64 << 20;
  return *host;
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

TEST_CASE("figures of another build, whose kernels are of another speed, are not used") {
  Scratch scratch;
  std::string file = scratch.path("costs.json");
  CalibratedMachine measured = calibrated_machine(some_host());
  CHECK_FALSE(measured.build.empty());
  measured.build = "other";
  REQUIRE(write_text_file(file, to_json(Calibration{measured, odd_costs()})).ok());
  CHECK_THAT(refusal(config_for(file), some_host()), Catch::Contains("by another build (other)"));
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
  auto refused = calibrate(config_for("off"), some_host());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == Code::kInvalidUsage);
  auto nothing = calibrate_if_missing(config_for("off"), some_host());
  REQUIRE(nothing.ok());
  CHECK(nothing->note == "");
  CHECK(nothing->costs == Costs());
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

TEST_CASE("missing figures are measured and stored once, and the note says so") {
  Scratch scratch;
  std::string file = scratch.path("folder/costs.json");
  Config config = config_for(file);
  const Inventory host = live_host();
  auto measured = calibrate_if_missing(config, host);
  INFO(measured.status().message());
  REQUIRE(measured.ok());
  CHECK_THAT(measured->note, Catch::StartsWith("measured this host's costs in ") && Catch::EndsWith(file));
  CHECK(measured->costs.measured_at_s != 0);
  CHECK(*load_costs(config, host) == measured->costs);
  auto again = calibrate_if_missing(config, host);
  REQUIRE(again.ok());
  CHECK(again->note == "");
  CHECK(again->costs == measured->costs);
}

TEST_CASE("a broken file of the cache is warned of where it is read, and replaced by the next measurement") {
  Scratch scratch;
  CacheHome cache(scratch.path("cache"));
  const Inventory host = live_host();
  std::string file = *calibration_file(Config(), host);
  REQUIRE(std::filesystem::create_directories(std::filesystem::path(file).parent_path()));
  REQUIRE(write_text_file(file, "garbage").ok());
  std::string said;
  {
    StderrCapture capture;
    CHECK(*load_costs(Config(), host) == Costs());
    CHECK(*load_costs(Config(), host) == Costs());  // is not said twice
    said = capture.text();
  }
  std::string warning = "[tutti] warning: default costs are used: cannot use the calibration file " + file;
  CHECK_THAT(said, Catch::StartsWith(warning + ": line 1: syntax error") &&
                       Catch::EndsWith("`tutti topo --calibrate` measures anew\n"));
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  auto measured = calibrate_if_missing(Config(), host);
  REQUIRE(measured.ok());
  CHECK_THAT(measured->note, Catch::Contains(" anew, since it could not use " + file + ": line 1: syntax error"));
  CHECK(*load_costs(Config(), host) == measured->costs);
}

TEST_CASE("a file that the user named is replaced only when calibration is asked for") {
  Scratch scratch;
  std::string file = scratch.path("precious.txt");
  const Inventory host = live_host();
  REQUIRE(write_text_file(file, "precious").ok());
  auto refused = calibrate_if_missing(config_for(file), host);
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(std::string(refused.status().message()), Catch::StartsWith("cannot use the calibration file " + file));
  CHECK(*read_text_file(file) == "precious");
  auto asked = calibrate(config_for(file), host);
  REQUIRE(asked.ok());
  CHECK(*load_costs(config_for(file), host) == *asked);
}

TEST_CASE("figures that are stored are measured anew only when asked for") {
  Scratch scratch;
  std::string file = scratch.path("costs.json");
  const Inventory host = live_host();
  REQUIRE(write_text_file(file, to_json(Calibration{calibrated_machine(host), odd_costs()})).ok());
  CHECK(calibrate_if_missing(config_for(file), host)->costs == odd_costs());
  auto anew = calibrate(config_for(file), host);
  REQUIRE(anew.ok());
  CHECK(anew->wake_ns != odd_costs().wake_ns);
}

TEST_CASE("of many processes that find no figures one measures, and all get the same") {
  Scratch scratch;
  Config config = config_for(scratch.path("costs.json"));
  const Inventory host = live_host();
  constexpr int kProcesses = 4;
  constexpr int kMeasured = 1, kShared = 2;  // exit statuses
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto found = calibrate_if_missing(config, host);
      bool same = found.ok() && found->costs == *load_costs(config, host);
      ::_exit(!same ? 0 : found->note.empty() ? kShared : kMeasured);
    }
    children.push_back(child);
  }
  std::map<int, int> statuses;
  for (pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    ++statuses[WEXITSTATUS(status)];
  }
  CHECK(statuses == std::map<int, int>{{kMeasured, 1}, {kShared, kProcesses - 1}});
}

TEST_CASE("a process that calibrates for too long is told of, with its file, and keeps nobody from joining") {
  Scratch scratch;
  Config config = config_for(scratch.path("costs.json"));
  config.bootstrap_timeout_ms = 100;
  Fd other(::open((config.calibration + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  auto late = calibrate(config, some_host());
  REQUIRE_FALSE(late.ok());
  CHECK(late.status().code() == Code::kTimeout);
  std::string what = "another process has been calibrating into " + config.calibration + " for too long";
  CHECK_THAT(std::string(late.status().message()), Catch::Contains(what));
  auto without = calibrate_if_missing(config, some_host());
  REQUIRE(without.ok());
  CHECK(without->costs == Costs());
  CHECK_THAT(without->note, Catch::StartsWith("default costs are used") && Catch::Contains(what));
}

TEST_CASE("where figures cannot be stored the defaults stand, and the note says why and what to do") {
  auto refused = calibrate_if_missing(config_for("/proc/nowhere/costs.json"), some_host());
  REQUIRE(refused.ok());
  CHECK(refused->costs == Costs());
  CHECK_THAT(refused->note, Catch::StartsWith("default costs are used") && Catch::Contains("/proc/nowhere") &&
                                Catch::EndsWith("set TUTTI_CALIBRATION to a file, or to \"off\""));
}

TEST_CASE("a place that cannot be written is an error that names it") {
  auto refused = calibrate(config_for("/proc/nowhere/costs.json"), some_host());
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(std::string(refused.status().message()), Catch::Contains("/proc/nowhere"));
}
