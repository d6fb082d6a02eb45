#include <catch2/catch.hpp>

#include <fstream>
#include <sstream>

#include "plan/examples.h"
#include "plan/text.h"

namespace tutti {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a plan's text reads back as the same plan") {
  for (const Algorithm* algorithm : algorithms()) {
    for (int nranks : {1, 2, 3, 7}) {
      Plan plan = test::write_out(*algorithm, nranks).plan();
      Result<Plan> read = parse_plan(to_json(plan, true));
      REQUIRE(read.ok());
      REQUIRE(read->shape() == plan.shape());
      REQUIRE(read->digest() == plan.digest());
      for (int rank = 0; rank < nranks; ++rank) {
        for (int channel = 0; channel < plan.shape().channels; ++channel)
          REQUIRE(read->part(rank, channel) == plan.part(rank, channel));
      }
    }
  }
}

TEST_CASE("names with quotes, newlines and bad UTF-8 stay valid JSON") {
  test::WrittenPlan written = test::write_out("ring", 2);
  written.shape.algorithm = "a \"b\"\n\\ \xc3\xa9 \xff";
  Result<Plan> read = parse_plan(to_json(written.plan(), true));
  REQUIRE(read.ok());
  REQUIRE_THAT(read->shape().algorithm, Contains("a \"b\"\n\\ \xc3\xa9"));
}

TEST_CASE("steps read as sentences") {
  std::vector<Step> steps = test::write_out("direct_two_shot", 3).steps(0);
  REQUIRE(to_text(steps[0]) == "wait <- rank 2 (into output[2]), lag 2");
  REQUIRE(to_text(steps[4]) == "reduce output[0] = input[0] + arrival[1] + arrival[2], finish, lag 1");
  REQUIRE(to_text(steps[5]) == "put output[0] -> rank 1 (into output[0]), lag 1");
  REQUIRE(to_text(Step{.kind = StepKind::kPut, .peer = 4}) == "put signal -> rank 4");
  REQUIRE(to_text(Step{.kind = StepKind::kWait, .peer = 4, .chunk = 2}) == "wait <- rank 4 (chunk 2)");
}

// The text of a small plan, one step a line.
std::string small_plan() { return to_json(test::write_out("direct_one_shot", 2).plan(), true); }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void require_refused(const std::string& text, const std::string& reason) {
  Result<Plan> read = parse_plan(text);
  REQUIRE_FALSE(read.ok());
  REQUIRE_THAT(std::string(read.status().message()), Contains(reason));
}

TEST_CASE("malformed plan text gives the line and the reason") {
  std::string good = small_plan();
  REQUIRE(parse_plan(good).ok());
  require_refused("", "line 1: ");
  require_refused("{\n\n  \"format\": }", "line 3: ");
  require_refused("[1, 2]", "line 1: the plan must be an object");
  require_refused("{}", "line 1: the plan lacks \"format\"");
  require_refused(replaced(good, "tutti.plan", "tutti.topology"), "\"format\" must be \"tutti.plan\"");
  require_refused(replaced(good, "\"version\": 1", "\"version\": 2"),
                  "line 3: \"version\" must be a number from 1 to 1");
  require_refused(replaced(good, "\"nranks\": 2", "\"nranks\": 0"),
                  "line 4: \"nranks\" must be a number from 1 to 65536");
  require_refused(replaced(good, "\"nranks\": 2", "\"nranks\": 1e99"), "line 4: \"nranks\" must be a whole number");
  require_refused(replaced(good, "\"nranks\": 2", "\"nranks\": 18446744073709551615"),
                  "line 4: \"nranks\" must be a number");
  require_refused(replaced(good, "\"nranks\": 2", "\"nranks\": 65536"),
                  "line 6: 65536 ranks with 1 channels have 65536 parts, but there are 2");
  require_refused(replaced(good, "\"slice_bytes\": 16384", "\"slice_bytes\": 100"),
                  "line 4: the plan's slice_bytes is 100");
  require_refused(replaced(good, "\"all_reduce\"", "\"all_change\""), "names no collective");
  require_refused(replaced(good, "\"root\"", "\"roof\""), "line 4: \"shape\" has an unknown \"roof\"");
  require_refused(replaced(good, "\"kind\": \"put\"", "\"kind\": \"shout\""), "line 9: a step's kind is");
  require_refused(replaced(good, "\"peer\": 1", "\"peer\": -1"), "line 9: \"peer\" must be a number from 0");
  require_refused(replaced(good, "\"peer\": 1", "\"peer\": 1, \"peer\": 1"), "line 9: the step has \"peer\" twice");
  require_refused(replaced(good, "input[0]", "input[0"), "line 9: a place is a text like");
  require_refused(replaced(good, "input[0]", "input[99999999999]"), "line 9: a place is a text like");
  require_refused(replaced(good, "\"finish\": true", "\"finish\": 1"), "line 11: \"finish\" must be true or false");
  require_refused(replaced(good, "\"rank\": 1", "\"rank\": 0"), "the part of rank 0, channel 0 is there twice");
  require_refused(std::string(100000, '['), "line 1: it is nested too deeply");
  require_refused(good + "x", "line ");
}

}  // namespace
}  // namespace tutti
