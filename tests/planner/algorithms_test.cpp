// Every algorithm against the validator and the symbolic checker.
#include <catch2/catch.hpp>

#include "plan/resolve.h"
#include "plan/validate.h"
#include "planner/planner.h"
#include "planner/topologies.h"

namespace tutti {
namespace {

Plan plan_of(const Algorithm& algorithm, int nranks, int channels = 0) {
  Request request;
  request.count = 1000;
  Tuning tuning;
  tuning.channels = channels;
  return Plan(algorithm.shape(test::make_topology(1, nranks), request, tuning), algorithm.generate);
}

void require_ok(const Status& status, const Plan& plan) {
  INFO(plan.shape().algorithm << " of " << plan.shape().nranks << " ranks: " << status.message());
  REQUIRE(status.ok());
}

TEST_CASE("every algorithm is valid for 1 to 16 ranks, any number of slices and at least two slots") {
  for (const Algorithm* algorithm : algorithms()) {
    for (int nranks = 1; nranks <= 16; ++nranks) {
      for (uint64_t slices : {0, 1, 2, 3, 7}) {
        for (int slots : {2, 3, 4}) {
          Plan plan = plan_of(*algorithm, nranks);
          INFO("slices " << slices << ", slots " << slots);
          require_ok(validate(plan, {slices, slots}), plan);
        }
      }
    }
  }
}

TEST_CASE("every algorithm computes all outputs with the permissions that it claims") {
  uint64_t seed = 1;
  for (const Algorithm* algorithm : algorithms()) {
    for (int nranks = 1; nranks <= 16; ++nranks) {
      for (int slots : {2, 3, 4}) {
        for (int mode = 0; mode < 8; ++mode) {
          Plan plan = plan_of(*algorithm, nranks);
          CheckOptions options;
          options.slices = 1 + seed % 4;
          options.slots = slots;
          options.in_place = (mode & 1) != 0;
          options.by_reference = (mode & 2) != 0;
          options.deliver_directly = (mode & 4) != 0;
          if (options.by_reference && !plan.shape().by_reference) continue;
          if (options.deliver_directly && !plan.shape().deliver_directly) continue;
          options.seed = seed++;
          INFO("mode " << mode << ", slots " << slots << ", slices " << options.slices << ", seed " << options.seed);
          require_ok(check_symbolically(plan, options), plan);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti
