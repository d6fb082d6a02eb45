// Every collective, type and operation among GPUs, beside sums that a loop makes in float64.
#include <catch2/catch.hpp>

#include "base/sanitizers.h"
#include "cuda/jobs.h"
#include "cuda/tested_calls.h"

namespace tutti::test {
namespace {

void check(int nranks, const std::vector<TestedCall>& cases) {
  Counted host("cuLaunchHostFunc"), launches("cuLaunchKernel");
  auto wrong = with_ranks_of_gpus(nranks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    std::string error;
    for (const TestedCall& each : cases) error += run(each, comm, rank, nranks, stream);
    return error;
  });
  CHECK(wrong == std::vector<std::string>(nranks));
  CHECK(host.now() == 0);
  CHECK(launches.now() == nranks * static_cast<int>(cases.size()));
}

TEST_CASE("every type and operation is combined among GPUs as a loop in float64 does it") {
  for (int nranks : {2, 3, 4}) {
    if (kUnderThreadSanitizer && nranks != 3) continue;
    INFO(nranks << " ranks");
    check(nranks, calls_of_every_type_and_op(61));
  }
}

TEST_CASE("every collective among GPUs is right at odd counts, in place and misaligned") {
  for (int nranks : {2, 3, 4}) {
    if (kUnderThreadSanitizer && nranks != 3) continue;
    INFO(nranks << " ranks");
    std::vector<TestedCall> cases;
    for (size_t t : {size_t{1}, size_t{6}, size_t{8}, size_t{9}}) {  // of 1, 2, 4 and 8 bytes
      const TestedType& type = tested_types()[t];
      for (uint64_t count : {uint64_t{1}, uint64_t{37}, uint64_t{5003}}) {
        for (bool in_place : {false, true}) {
          size_t misalignment = count == 37 ? type.size : count == 1 ? 1 : 0;
          for (tutti_collective_t each : kReducing) {
            cases.push_back({each, type, kSumOp, count, in_place, misalignment});
          }
          for (tutti_collective_t each : kMoving) {
            if (in_place && each == TUTTI_ALL_TO_ALL) continue;  // it goes through the host
            cases.push_back({each, type, kSumOp, count, in_place, misalignment});
          }
        }
      }
    }
    check(nranks, cases);
  }
}

}  // namespace
}  // namespace tutti::test
