// Requests that are waited for together.
#include <catch2/catch.hpp>

#include <vector>

#include "base/sanitizers.h"
#include "core/ranks.h"
#include "tutti/tutti.h"

namespace tutti::test {
namespace {

constexpr size_t kCalls = 16;
// Far apart, so that several calls complete between one look at a request and the look at the next.
constexpr size_t kStride = 4096;
constexpr int kRounds = kUnderThreadSanitizer ? 100 : 2000;
using Requests = std::vector<tutti_request_t*>;

std::string start_all(tutti_comm_t* comm, std::vector<float>& values, Requests& requests) {
  for (size_t i = 0; i < kCalls; ++i) {
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = TUTTI_ALL_REDUCE;
    call.datatype = TUTTI_FLOAT32;
    call.send_buffer = call.recv_buffer = values.data() + i * values.size() / kCalls;
    call.count = i % 2 == 0 ? values.size() / kCalls : 1;
    if (tutti_start(comm, &call, &requests[i * kStride]) != TUTTI_SUCCESS) return tutti_last_error(comm);
  }
  return "";
}

std::string take_in_order(Requests& requests) {
  for (size_t i = 0; i < kCalls; ++i) {
    size_t index = 0;
    if (tutti_wait_any(requests.size(), requests.data(), &index) != TUTTI_SUCCESS) return tutti_last_error(nullptr);
    if (index == i * kStride) continue;
    tutti_wait_all(requests.size(), requests.data());
    return "call " + std::to_string(index / kStride) + " came before " + std::to_string(i);
  }
  return "";
}

}  // namespace

TEST_CASE("wait_any takes the requests of a communicator in the order in which they were started") {
  auto said = with_ranks(2, {}, [](tutti_comm_t* comm, int) -> std::string {
    std::vector<float> values(kCalls * 500);
    std::string wrong;
    for (int round = 0; round < kRounds && wrong.empty(); ++round) {
      Requests requests(kCalls * kStride);
      wrong = start_all(comm, values, requests);
      if (wrong.empty()) wrong = take_in_order(requests);
    }
    return wrong;
  });
  CHECK(said == std::vector<std::string>(2));
}

}  // namespace tutti::test
