// Messages that a device has confirmed, and nobody has taken there yet, when the lane that brought them is lost.
#include <chrono>
#include <thread>

#include "verbs/faked.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 8 << 20;
constexpr size_t kPayload = 20'000;

RemoteSlice line_of(Job& job, uint64_t turn) { return job.slice(0, 1, turn * sizeof(Line)); }

Result<PutResult> put_turn(Job& job, uint64_t turn) {
  std::span<const std::byte> payload(job.window(0).at(65'536), kPayload);
  return job.link(0, 1).put(job.slice(0, 1, 65'536 + turn * kPayload), payload, line_of(job, turn), Line{{turn}});
}

uint64_t missing(Job& job, uint64_t turns) {
  uint64_t missing = 0;
  for (uint64_t turn = 1; turn <= turns; ++turn) {
    missing += counter_of(job.window(1).line(turn * sizeof(Line))) != turn ? 1 : 0;
  }
  return missing;
}

}  // namespace

TEST_CASE("what a device had confirmed and its end never took, since the device is gone, ends the link in words") {
  Fake fake;
  Job job(verbs_over_one_lane({.goes_over_tcp = true}), 2, kWindow);
  check_ok(job.status());
  uint64_t completed = 0;
  for (uint64_t turn = 1; turn <= 3; ++turn) {
    REQUIRE(put_turn(job, turn).ok());
    check_ok(job.link(0, 1).poll(&completed));
  }
  REQUIRE(completed == 3);
  fake.verbs->set_faults({.gone_device = "fake1"});
  REQUIRE(put_turn(job, 4).ok());
  Status sender;
  Deadline deadline = Deadline::after_ms(static_cast<int64_t>(kPatienceMs));
  while (sender.ok() && missing(job, 4) > 0 && !deadline.passed()) {
    uint64_t ignored = 0;
    sender = job.link(0, 1).poll(&completed);
    (void)job.link(1, 0).poll(&ignored);
  }
  INFO(sender.message());
  CHECK(mentions(sender, "lost messages that its device had confirmed"));
}

TEST_CASE("a lost message that only told of room is nobody's loss") {
  Fake fake;
  Job job(verbs_over_one_lane({.goes_over_tcp = true}), 2, kWindow);
  check_ok(job.status());
  uint64_t completed = 0, turn = 0;
  int rounds = GENERATE(range(1, 18));  // in one of them the device is asked whether that message has left
  for (int round = 1; round <= rounds; ++round) {
    for (uint64_t end = turn + 64; turn < end;) {
      RemoteSlice line = job.slice(1, 0, ++turn % 64 * sizeof(Line));
      REQUIRE(*job.link(1, 0).signal(line, Line{{turn}}) == PutResult::kDone);
    }
    uint64_t before = fake.counts().requests;
    for (int i = 0; i < 20; ++i) check_ok(job.link(0, 1).poll(&completed));
    REQUIRE(fake.counts().requests > before);
    for (int i = 0; i < 20 && round < rounds; ++i) check_ok(job.link(1, 0).poll(&completed));
  }
  fake.verbs->set_faults({.gone_device = "fake1"});
  REQUIRE(put_turn(job, 1).ok());
  check_ok(await_until([&] { return missing(job, 1) == 0; }, {&job.link(0, 1), &job.link(1, 0)}));
  CHECK(missing(job, 1) == 0);
}

TEST_CASE("a rank that is away for long after a lane was lost takes all that had come over it") {
  Fake fake;
  Job job(verbs_with({.goes_over_tcp = true}), 2, kWindow);
  check_ok(job.status());
  uint64_t completed = 0, sent = 0;
  // What it has sent has completed, so that its queue has more than it takes at a time.
  for (uint64_t turn = 1; turn <= 120; ++turn) {
    auto result = job.link(1, 0).put(job.slice(1, 0, 65'536 + turn * kPayload), {job.window(1).at(65'536), kPayload},
                                     job.slice(1, 0, turn * sizeof(Line)), Line{{turn}});
    REQUIRE(result.ok());
    if (*result != PutResult::kDone) break;
  }
  for (uint64_t turn = 1; turn <= 110; ++turn) {
    auto result = job.link(0, 1).signal(line_of(job, turn), Line{{turn}});
    REQUIRE(result.ok());
    if (*result != PutResult::kDone) break;
    sent = turn;
    check_ok(job.link(0, 1).poll(&completed));
  }
  fake.verbs->set_faults({.failing_request = 1, .failing_status = 12});
  for (int i = 0; i < 3; ++i) {
    (void)job.link(0, 1).signal(line_of(job, sent + 1), Line{{sent + 1}});
    check_ok(job.link(0, 1).poll(&completed));
  }
  check_ok(job.link(1, 0).poll(&completed));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  check_ok(await_until([&] { return missing(job, sent) == 0; }, {&job.link(0, 1), &job.link(1, 0)}));
  CHECK(missing(job, sent) == 0);
}

TEST_CASE("what a device has refused is pending until it has gone over another lane") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  uint64_t completed = 0;
  check_ok(job.link(0, 1).poll(&completed));
  fake.verbs->set_faults({.refused_request = 1});
  std::span<const std::byte> payload(job.window(0).at(65'536), 100);
  auto result = job.link(0, 1).put(job.slice(0, 1, 65'536), payload, line_of(job, 1), Line{{1}});
  REQUIRE(result.ok());
  CHECK(job.link(0, 1).has_pending());
  check_ok(await_until([&] { return missing(job, 1) == 0; }, {&job.link(0, 1), &job.link(1, 0)}));
  check_ok(await_until([&] { return !job.link(0, 1).has_pending(); }, {&job.link(0, 1), &job.link(1, 0)}));
}

}  // namespace tutti::test
