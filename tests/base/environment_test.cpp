#include <stdlib.h>

#include <catch2/catch.hpp>
#include <string>

#include "base/capture.h"
#include "base/config.h"
#include "base/log.h"

using namespace tutti;
using Catch::Matchers::Contains;

namespace {

// Sets a variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("variables overlay the defaults") {
  Variable timeout("TUTTI_TIMEOUT_MS", "1234");
  Variable transport("TUTTI_TRANSPORT", "tcp");
  Variable with_equals("TUTTI_CALIBRATION", "/tmp/a=b");
  auto config = Config::from_environment();
  REQUIRE(config.ok());
  Config expected;
  expected.timeout_ms = 1234;
  expected.transport = "tcp";
  expected.calibration = "/tmp/a=b";
  CHECK(*config == expected);
}

TEST_CASE("a variable with a bad value is an error that names it") {
  Variable slots("TUTTI_SLOTS", "many");
  auto config = Config::from_environment();
  REQUIRE_FALSE(config.ok());
  CHECK(config.status().code() == Code::kInvalidArgument);
  CHECK_THAT(std::string(config.status().message()), Contains("TUTTI_SLOTS") && Contains("'many'"));
}

TEST_CASE("an unknown variable warns once with the nearest name and changes nothing") {
  Variable misspelt("TUTTI_TIMEOUT_MSEC", "5");
  Variable far("TUTTI_SOMETHING_ELSE_ENTIRELY", "5");
  StderrCapture capture;
  auto first = Config::from_environment();
  auto second = Config::from_environment();
  auto text = capture.text();
  REQUIRE(first.ok());
  CHECK(*first == Config());
  CHECK_THAT(text, Contains("TUTTI_TIMEOUT_MSEC") && Contains("did you mean TUTTI_TIMEOUT_MS?"));
  CHECK_THAT(text, Contains("TUTTI_SOMETHING_ELSE_ENTIRELY") && Contains("`tutti options`"));
  CHECK(text.find("TUTTI_TIMEOUT_MSEC") == text.rfind("TUTTI_TIMEOUT_MSEC"));
}

TEST_CASE("a variable in the wrong case is unknown, not silently taken") {
  Variable lower("TUTTI_timeout_ms", "5");
  StderrCapture capture;
  auto config = Config::from_environment();
  auto text = capture.text();
  REQUIRE(config.ok());
  CHECK(*config == Config());
  CHECK_THAT(text, Contains("TUTTI_timeout_ms") && Contains("did you mean TUTTI_TIMEOUT_MS?"));
}

TEST_CASE("TUTTI_LOG=error silences the warning about unknown variables") {
  Variable unknown("TUTTI_AAA_SILENCED", "5");  // before TUTTI_LOG in any order
  Variable log("TUTTI_LOG", "error");
  StderrCapture capture;
  auto config = Config::from_environment();
  auto text = capture.text();
  set_log_level("warn");
  REQUIRE(config.ok());
  CHECK(text.empty());
}

TEST_CASE("environment() tells unset from empty") {
  Variable empty("TUTTI_TEST_EMPTY", "");
  CHECK(environment("TUTTI_TEST_EMPTY") == "");
  CHECK_FALSE(environment("TUTTI_TEST_UNSET").has_value());
}
