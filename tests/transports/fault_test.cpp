// The faults that FaultTransport injects are the ones it says, and are found out.
#include "transports/fault/fault.h"

#include <cstring>

#include "transports/checks.h"
#include "transports/fabric.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 1 << 16;
constexpr uint64_t kData = 4096;

Factory with_faults(Factory inner, Faults faults) {
  return [=](const TransportContext& context) { return make_fault_transport(inner(context), faults); };
}

// Sends ten puts of 64 bytes to ten places, each with its own line.
Status send_ten(Job& job, const std::vector<std::byte>& source) {
  for (uint64_t i = 0; i < 10; ++i) {
    TUTTI_TRY(put(job.link(0, 1), job.slice(0, 1, kData + i * 64), std::span(source).first(64), job.slice(0, 1, i * 64),
                  Line{{1}}));
  }
  uint64_t completed = 0;
  return await_until([&] { return job.link(0, 1).poll(&completed).ok() && completed == 10; }, {&job.link(1, 0)});
}

}  // namespace

TEMPLATE_TEST_CASE("a dropped put arrives neither as payload nor as line", "", Loopback, Tcp) {
  Job job(with_faults(TestType::make(), {.drop_put = 4}), 2, kWindow);
  check_ok(job.status());
  auto source = pattern(64, 1);
  check_ok(send_ten(job, source));
  check_ok(await(job.link(1, 0), job.window(1).line(9 * 64), 1));
  for (uint64_t i = 0; i < 10; ++i) {
    bool arrived = std::memcmp(job.window(1).at(kData + i * 64), source.data(), 64) == 0;
    CHECK(arrived == (i != 3));
    CHECK((counter_of(job.window(1).line(i * 64)) == 1) == (i != 3));
  }
}

TEMPLATE_TEST_CASE("a truncated put arrives by half", "", Loopback, Tcp) {
  Job job(with_faults(TestType::make(), {.truncate_put = 1}), 2, kWindow);
  check_ok(job.status());
  auto source = pattern(64, 1);
  check_ok(send_ten(job, source));
  check_ok(await(job.link(1, 0), job.window(1).line(9 * 64), 1));
  CHECK(counter_of(job.window(1).line(0)) == 1);
  CHECK(std::memcmp(job.window(1).at(kData), source.data(), 32) == 0);
  CHECK(std::memcmp(job.window(1).at(kData + 32), source.data() + 32, 32) != 0);
}

TEMPLATE_TEST_CASE("a killed link is an error at both ends", "", Loopback, Shm, Tcp) {
  Job job(with_faults(TestType::make(), {.kill = 5}), 2, kWindow);
  check_ok(job.status());
  Status here = send_ten(job, pattern(64, 1));
  CHECK(here.code() == Code::kAborted);
  Status there = await_until([] { return false; }, {&job.link(1, 0)});
  CHECK(there.code() == Code::kRemote);
  CHECK(there.place().peer == 0);
}

TEST_CASE("the same seed fails at the same calls") {
  auto answers = [](uint64_t seed) {
    Job job(with_faults(Loopback::make(), {.seed = seed, .full_chance = 0.3}), 2, kWindow);
    std::vector<bool> full;
    for (uint64_t i = 0; i < 200; ++i) {
      full.push_back(job.link(0, 1).signal(job.slice(0, 1, 0), Line{{i + 1}}).value() == PutResult::kFull);
    }
    return full;
  };
  CHECK(answers(7) == answers(7));
  CHECK(answers(7) != answers(8));
}

TEST_CASE("held signals arrive late, in order, and all of them") {
  Job job(with_faults(Loopback::make(), {.hold_chance = 1, .hold_polls = 3}), 2, kWindow);
  check_ok(job.status());
  check_ok(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{1}}));
  CHECK(counter_of(job.window(1).line(0)) == 0);
  uint64_t completed = 0;
  for (int i = 0; i < 3; ++i) check_ok(job.link(0, 1).poll(&completed));
  CHECK(counter_of(job.window(1).line(0)) == 1);
}

}  // namespace tutti::test
