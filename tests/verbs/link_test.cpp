// How a verbs link uses its device: order, credits, room, and what a message costs.
#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "transports/verbs/lane.h"
#include "verbs/faked.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 1 << 20;
constexpr uint64_t kData = 4096;

// Until rank 1 has the line.
Status await_line(Job& job, uint64_t turn) {
  return await_until([&] { return counter_of(job.window(1).line(0)) == turn; }, {&job.link(0, 1), &job.link(1, 0)});
}

bool arrived(Job& job, int rank, uint64_t offset, const std::vector<std::byte>& expected) {
  return std::memcmp(job.window(rank).at(offset), expected.data(), expected.size()) == 0;
}

}  // namespace

// The fake shows written data only with the completion of the message behind it, as relaxed ordering may.
TEST_CASE("a payload is there when its line is, however late the device makes it visible") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.lag = 3});
  for (uint64_t turn = 1; turn <= 50; ++turn) {
    auto source = pattern(turn * 4001, turn);
    check_ok(put(job.link(0, 1), job.slice(0, 1, kData), source, job.slice(0, 1, 0), Line{{turn}}));
    check_ok(await_line(job, turn));
    CHECK(arrived(job, 1, kData, source));
  }
  check_used_well(fake);
}

TEST_CASE("a receiver that looks elsewhere makes the link full, and never unready") {
  Fake fake;
  Job job(verbs_over_one_lane(), 2, kWindow);
  check_ok(job.status());
  uint64_t sent = 0, completed = 0;
  auto fill = [&] {
    for (int tries = 0; tries < 1000; ++tries) {
      auto result = job.link(0, 1).signal(job.slice(0, 1, 0), Line{{sent + 1}});
      REQUIRE(result.ok());
      if (*result == PutResult::kDone) ++sent;
      check_ok(job.link(0, 1).poll(&completed));
    }
  };
  fill();
  CHECK(sent > 32);
  CHECK(sent < 128);
  for (int round = 0; round < 20; ++round) {
    uint64_t before = sent;
    check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == before; }, {&job.link(1, 0)}));
    fill();
    CHECK(sent > before + 32);
  }
  check_used_well(fake);
}

TEST_CASE("two ends that are full of data both go on") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  uint64_t sent[2] = {};
  uint64_t completed = 0;
  constexpr uint64_t kSignals = 20'000;
  auto seen = [&](int rank) { return counter_of(job.window(rank).line(0)); };
  Deadline deadline = Deadline::after_ms(kPatienceMs);
  while ((seen(0) < kSignals || seen(1) < kSignals) && !deadline.passed()) {
    for (int rank : {0, 1}) {
      bool room = true;
      while (room && sent[rank] < kSignals) {
        auto result = job.link(rank, 1 - rank).signal(job.slice(rank, 1 - rank, 0), Line{{sent[rank] + 1}});
        REQUIRE(result.ok());
        room = *result == PutResult::kDone;
        if (room) ++sent[rank];
      }
    }
    for (int rank : {0, 1}) check_ok(job.link(rank, 1 - rank).poll(&completed));
  }
  CHECK(seen(0) == kSignals);
  CHECK(seen(1) == kSignals);
  check_used_well(fake);
}

TEST_CASE("data leaves the last credit to the message that returns credits") {
  Fake fake;
  VerbsOptions options{.library = TUTTI_TEST_VERBS_LIBRARY};
  auto ports = VerbsDevice::find(options).value();
  auto device = VerbsDevice::open(options, ports[0]).value(), far_device = VerbsDevice::open(options, ports[1]).value();
  auto lane = VerbsLane::create(*device, 0).value(), far_lane = VerbsLane::create(*far_device, 0).value();
  SideHello few = far_lane->hello().value();
  few.receives = 4;
  check_ok(lane->join(few, 0));
  check_ok(far_lane->join(lane->hello().value(), 0));
  int sent = 0;
  while (sent < 10 && lane->sender().signal({.kind = MessageHead::Kind::kSignal}, Line()) == PutResult::kDone) ++sent;
  CHECK(sent == 3);
}

TEST_CASE("large payloads never take more requests than the queue has, in both directions and late") {
  Fake fake;
  Job job(verbs_with({}), 2, 4 << 20);
  check_ok(job.status());
  fake.verbs->set_faults({.lag = 2});
  auto there = pattern(3'000'001, 1), back = pattern(2'500'003, 2);
  for (uint64_t turn = 1; turn <= 5; ++turn) {
    check_ok(put(job.link(0, 1), job.slice(0, 1, kData), there, job.slice(0, 1, 0), Line{{turn}}));
    check_ok(put(job.link(1, 0), job.slice(1, 0, kData), back, job.slice(1, 0, 0), Line{{turn}}));
    auto both = [&] {
      return counter_of(job.window(0).line(0)) == turn && counter_of(job.window(1).line(0)) == turn;
    };
    check_ok(await_until(both, {&job.link(0, 1), &job.link(1, 0)}));
    CHECK(arrived(job, 1, kData, there));
    CHECK(arrived(job, 0, kData, back));
  }
  check_used_well(fake);
}

TEST_CASE("what a message costs the device is what docs/verbs.md says") {
  Fake fake;
  Job job(verbs_over_one_lane(), 2, kWindow);
  check_ok(job.status());
  uint64_t turn = 0;
  auto cost_of = [&](size_t size_bytes) {
    constexpr uint64_t kMessages = 64;
    auto source = pattern(size_bytes, 3);
    FakeCounts before = fake.counts();
    for (uint64_t i = 0; i < kMessages; ++i) {
      ++turn;
      check_ok(put(job.link(0, 1), job.slice(0, 1, kData), source, job.slice(0, 1, 0), Line{{turn}}));
      check_ok(await_line(job, turn));
    }
    FakeCounts after = fake.counts();
    struct Cost {
      double requests, doorbells, completions;
    };
    return Cost{static_cast<double>(after.requests - before.requests) / kMessages,
                static_cast<double>(after.doorbells - before.doorbells) / kMessages,
                static_cast<double>(after.completions - before.completions) / kMessages};
  };
  // One more for each 64, which returns credits.
  auto small = cost_of(100);
  CHECK(small.requests <= 1.02);
  CHECK(small.doorbells <= 1.02);
  CHECK(small.completions <= 1 + 1.0 / 16 + 0.05);
  auto medium = cost_of(64 << 10);
  CHECK(medium.requests <= 2.02);
  CHECK(medium.doorbells <= 1.02);
  CHECK(medium.completions <= 2.05);
  auto large = cost_of(256 << 10);
  CHECK(large.requests <= 5.02);
  CHECK(large.doorbells <= 4.02);
  check_used_well(fake);
}

TEST_CASE("a batch takes one doorbell, and where something is copied, one for what came before") {
  Fake fake;
  Job job(verbs_over_one_lane(), 2, kWindow);
  check_ok(job.status());
  Link& link = job.link(0, 1);
  uint64_t turn = 0;
  auto send = [&](size_t size_bytes) {
    auto source = pattern(size_bytes, ++turn);
    auto result = link.put(job.slice(0, 1, kData + turn * 1024), source, job.slice(0, 1, turn % 32 * 64), Line{{turn}});
    REQUIRE(result.ok());
    CHECK(*result == PutResult::kDone);
  };
  FakeCounts before = fake.counts();
  link.begin_batch();
  for (size_t size : {0, 8, 100, 152}) send(size);
  CHECK(fake.counts().requests == before.requests);
  send(1000);  // in a block
  CHECK(fake.counts().doorbells == before.doorbells + 1);
  CHECK(fake.counts().requests == before.requests + 4);
  for (size_t size : {0, 8}) send(size);
  link.end_batch();
  CHECK(fake.counts().doorbells == before.doorbells + 2);
  CHECK(fake.counts().requests == before.requests + 8);
  send(8);
  CHECK(fake.counts().doorbells == before.doorbells + 3);
  for (uint64_t i = 1; i <= turn; ++i) {
    auto is_there = [&] { return counter_of(job.window(1).line(i % 32 * 64)) == i; };
    check_ok(await_until(is_there, {&link, &job.link(1, 0)}));
  }
  CHECK(arrived(job, 1, kData + 5 * 1024, pattern(1000, 5)));
  check_used_well(fake);
}

TEST_CASE("exported memory is sent from where it is, and is the caller's again when it has left") {
  Fake fake;
  Job job(verbs_over_one_lane(), 2, kWindow);
  check_ok(job.status());
  std::span source(job.window(0).at(kData), 256 << 10);
  auto content = pattern(source.size(), 4);
  std::copy(content.begin(), content.end(), source.begin());
  fake.verbs->set_faults({.lag = 5});
  FakeCounts before = fake.counts();
  check_ok(put(job.link(0, 1), job.slice(0, 1, kData), source, job.slice(0, 1, 0), Line{{1}}));
  CHECK(fake.counts().requests == before.requests + 2);
  CHECK(fake.counts().doorbells == before.doorbells + 1);
  uint64_t completed = 0;
  check_ok(job.link(0, 1).poll(&completed));
  CHECK(completed == 0);
  CHECK(job.link(0, 1).has_pending());
  check_ok(await_until([&] { return job.link(0, 1).poll(&completed).ok() && completed == 1; }, {&job.link(0, 1)}));
  CHECK(!job.link(0, 1).has_pending());
  std::fill(source.begin(), source.end(), std::byte{0});
  check_ok(await_line(job, 1));
  CHECK(arrived(job, 1, kData, content));
  check_used_well(fake);
}

TEST_CASE("puts are counted in their order, however their payloads go") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.lag = 5});
  std::span exported(job.window(0).at(kData), 64 << 10);
  auto copied = pattern(32 << 10, 1), small = pattern(100, 2);
  check_ok(put(job.link(0, 1), job.slice(0, 1, kData), copied, job.slice(0, 1, 0), Line{{1}}));
  check_ok(put(job.link(0, 1), job.slice(0, 1, 128 << 10), exported, job.slice(0, 1, 64), Line{{1}}));
  check_ok(put(job.link(0, 1), job.slice(0, 1, 256 << 10), small, job.slice(0, 1, 128), Line{{1}}));
  uint64_t completed = 0;
  check_ok(job.link(0, 1).poll(&completed));
  CHECK(completed == 1);
  check_ok(await_until([&] { return job.link(0, 1).poll(&completed).ok() && completed == 3; }, {&job.link(0, 1)}));
  check_used_well(fake);
}

TEST_CASE("what is composed in a stage leaves from there, and each stage serves again") {
  Fake fake;
  Job job(verbs_with({}), 2, 4 << 20);
  check_ok(job.status());
  fake.verbs->set_faults({.lag = 3});
  Link& link = job.link(0, 1);
  CHECK(link.stage(1 << 20, kNoChannel) == nullptr);
  size_t staged = 0;
  for (uint64_t turn = 1; turn <= 60; ++turn) {
    auto content = pattern(turn % 3 == 0 ? 100 : 200'000 + turn, turn);
    std::byte* stage = link.stage(256 << 10, kNoChannel);
    staged += stage != nullptr ? 1 : 0;
    std::span from(stage != nullptr ? stage : content.data(), content.size());
    if (stage != nullptr) std::copy(content.begin(), content.end(), stage);
    uint64_t place = kData + (turn % 8) * (256 << 10), line = (turn % 8) * 64;
    check_ok(put(link, job.slice(0, 1, place), from, job.slice(0, 1, line), Line{{turn}}));
    if (turn % 8 != 0) continue;
    check_ok(await_until([&] { return counter_of(job.window(1).line(line)) == turn; }, {&link, &job.link(1, 0)}));
    CHECK(arrived(job, 1, place, content));
  }
  CHECK(staged >= 40);
  std::set<std::byte*> all;
  uint64_t completed = 0;
  check_ok(await_until([&] { return link.poll(&completed).ok() && completed == 60; }, {&link, &job.link(1, 0)}));
  while (std::byte* stage = link.stage(1, kNoChannel)) all.insert(stage);
  CHECK(all.size() == 8);
  check_used_well(fake);
}

TEST_CASE("a rank that has aborted is written to no more") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.shows_at_once = true, .lag = 3});
  auto source = pattern(100'000, 5);
  check_ok(put(job.link(0, 1), job.slice(0, 1, kData), source, job.slice(0, 1, 0), Line{{1}}));
  job.link(1, 0).abort();
  uint64_t completed = 0;
  for (int i = 0; i < 20; ++i) (void)job.link(0, 1).poll(&completed);
  CHECK(std::all_of(job.window(1).at(kData), job.window(1).at(kData) + source.size(),
                    [](std::byte byte) { return byte == std::byte{0}; }));
}

// A payload, whose message asks for its completion, 125 messages of which each sixteenth does, and one that returns
// credits: the last 14 do not.
TEST_CASE("a link that ends with its queue full waits until all has arrived") {
  Fake fake;
  Job job(verbs_over_one_lane(), 2, 64 * 64);
  check_ok(job.status());
  Link& link = job.link(0, 1);
  uint64_t completed = 0, sent = 0;
  fake.verbs->set_faults({.lag = 1'000'000});
  auto payload = pattern(1000, 1);
  check_ok(put(link, job.slice(0, 1, 1024), payload, job.slice(0, 1, 0), Line{{++sent}}));
  while (link.signal(job.slice(0, 1, 0), Line{{sent + 1}}).value() == PutResult::kDone) ++sent;
  fake.verbs->set_faults({});
  uint64_t before = fake.counts().requests;
  for (uint64_t turn = 1; turn <= 64; ++turn) {
    check_ok(signal(job.link(1, 0), job.slice(1, 0, 0), Line{{turn}}));
    check_ok(link.poll(&completed));
  }
  REQUIRE(fake.counts().requests == before + 64 + 1);
  fake.verbs->end_lag();
  job.node(0).links[1].reset();
  CHECK(fake.counts().requests == before + 64 + 2);  // the one that asks
  check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == sent; }, {&job.link(1, 0)}));
  check_used_well(fake);
}

TEST_CASE("a link does not wait for what its peer would have to receive, once that has ended") {
  Fake fake;
  Job job(verbs_over_one_lane(), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.lag = 1'000'000});
  job.node(0).links[1].reset();
  check_ok(signal(job.link(1, 0), job.slice(1, 0, 0), Line{{1}}));
  uint64_t before = fake.counts().looks;
  job.node(1).links[0].reset();
  CHECK(fake.counts().looks < before + 10);
}

TEST_CASE("a device that takes nothing inline works as well") {
  Fake fake;
  fake.verbs->set_faults({.most_inline_bytes = GENERATE(0u, 60u)});
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  auto source = pattern(100'000, 5);
  for (uint64_t turn = 1; turn <= 300; ++turn) {
    auto payload = std::span(source).first(turn % 7 == 0 ? 100'000 : turn % 150);
    check_ok(put(job.link(0, 1), job.slice(0, 1, kData), payload, job.slice(0, 1, 0), Line{{turn}}));
    check_ok(await_line(job, turn));
    CHECK(std::memcmp(job.window(1).at(kData), payload.data(), payload.size()) == 0);
  }
  check_used_well(fake);
}

TEST_CASE("a sleep costs two calls, however many lanes there are, and none if there is no reason for it") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  Link& link = job.link(1, 0);
  uint64_t turn = 0, completed = 0;
  auto send = [&] { check_ok(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{++turn}})); };
  auto sleep = [&](bool comes_before) {
    WaitSet waits;
    if (comes_before) send();
    link.arm(waits);
    if (!comes_before) send();
    CHECK(waits.sleep(static_cast<int>(kPatienceMs)));
    link.disarm();
    check_ok(link.poll(&completed));
    CHECK(counter_of(job.window(1).line(0)) == turn);
  };
  for (int i = 0; i < 3; ++i) sleep(false);
  uint64_t before = fake.counts().event_calls;
  for (int i = 0; i < 20; ++i) sleep(false);
  CHECK(fake.counts().event_calls - before <= 40);
  before = fake.counts().event_calls;
  for (int i = 0; i < 20; ++i) sleep(true);
  CHECK(fake.counts().event_calls == before);
  check_used_well(fake);
}

TEST_CASE("an event of what was taken before ends one sleep at most") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  Link& link = job.link(1, 0);
  uint64_t completed = 0;
  auto sleeps = [&](int at_most_ms) {
    WaitSet waits;
    link.arm(waits);
    bool woken = waits.sleep(at_most_ms);
    link.disarm();
    check_ok(link.poll(&completed));
    return !woken;
  };
  fake.verbs->set_faults({.late_events = GENERATE(false, true)});
  while (!sleeps(0)) continue;
  for (uint64_t turn = 1; turn <= 5; ++turn) {
    // Asked for, and taken without a sleep.
    WaitSet waits;
    link.arm(waits);
    check_ok(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{turn}}));
    check_ok(link.poll(&completed));
    link.disarm();
    CHECK(counter_of(job.window(1).line(0)) == turn);
    bool first = sleeps(0);
    CHECK((first || sleeps(0)));
    CHECK(sleeps(0));
  }
  check_used_well(fake);
}

TEST_CASE("options reach the queue pair") {
  Fake fake;
  Job job(verbs_with({.gid_index = 0, .mtu_bytes = 1024, .service_level = 3, .traffic_class = 104, .pkey_index = 2,
                      .timeout = 11, .retries = 4}),
          2, kWindow);
  check_ok(job.status());
  FakeCounts counts = fake.counts();
  CHECK(counts.by_gid);
  CHECK(counts.mtu_code == 3);
  CHECK(counts.service_level == 3);
  CHECK(counts.traffic_class == 104);
  CHECK(counts.pkey_index == 2);
  CHECK(counts.timeout == 11);
  CHECK(counts.retries == 4);
}

TEST_CASE("ports of InfiniBand link by LID") {
  Fake fake;
  FakePort a{.device = "ib0", .infiniband = true, .lid = 5, .gids = {{0, "fe80::5"}}};
  FakePort b{.device = "ib1", .infiniband = true, .lid = 6, .gids = {{0, "fe80::6"}}};
  fake.verbs->set_ports({a, b});
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  CHECK(!fake.counts().by_gid);
}

}  // namespace tutti::test
