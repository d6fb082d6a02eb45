// Links of several lanes: what is sent arrives in order, and once, whichever lanes fail under way.
#include <algorithm>
#include <random>

#include "base/sanitizers.h"
#include "transports/verbs/wire.h"
#include "verbs/faked.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 8 << 20;
constexpr uint64_t kLines = 64;
constexpr uint64_t kData = 64 << 10;        // where messages of a rank's peer begin
constexpr size_t kMostBytes = 900'000;
constexpr uint64_t kPlaces = 4;             // so many of them, in turn
constexpr uint64_t kSources = 5 << 20;      // where a rank's own memory begins that is sent from where it is
constexpr uint64_t kStep = kUnderThreadSanitizer ? 7 : 1;  // of 60 requests, one of which fails in each run

// One direction of a link: messages of every kind, and a receiver that looks at each as soon as its line is there, and
// then lets its place be used again.
class Flow {
 public:
  Flow(Job& job, int from, uint64_t seed) : job_(job), from_(from), to_(1 - from), random_(seed) {}

  // As the executor does: no place is used again before the receiver has released it.
  Status send() {
    if (sent_ - received_ == kPlaces) return {};
    if (content_.size() == sent_) compose();
    const auto& content = content_[sent_];
    uint64_t turn = sent_ + 1;
    if (turn > kPlaces && !is_clean(turn - kPlaces)) return error(Code::kInternal, "{}", stray(turn - kPlaces));
    Link& link = job_.link(from_, to_);
    // Registered memory and ordinary, in places that are used again as soon as what was there has left.
    std::byte* registered = job_.window(from_).at(kSources + turn % 4 / 2 * (kMostBytes + 64));
    std::byte* place = turn % 2 == 0 ? registered : ordinary_.data() + turn % 4 / 2 * (kMostBytes + 64);
    if (turn > 4 && completed_ < turn - 4) {
      TUTTI_TRY(link.poll(&completed_));
      if (completed_ < turn - 4) return {};
    }
    if (!content.empty()) std::copy(content.begin(), content.end(), place);
    auto result = link.put(job_.slice(from_, to_, place_of(turn)), {place, content.size()},
                           job_.slice(from_, to_, turn % kLines * 64), Line{{turn}});
    if (!result.ok()) return result.status();
    if (*result == PutResult::kDone) ++sent_;
    return {};
  }

  // Looks for the next one. "" or what is wrong with it.
  std::string receive() {
    uint64_t missing = 0;
    for (uint64_t turn = received_ + 1; turn <= sent_; ++turn) {
      uint64_t there = counter_of(job_.window(to_).line(turn % kLines * 64));
      if (there != turn) missing = missing == 0 ? turn : missing;
      if (there != turn) continue;
      if (missing != 0) return fmt::format("message {} is there before {}", turn, missing);
      const auto& content = content_[turn - 1];
      if (!same(content, std::span(job_.window(to_).at(place_of(turn)), content.size()))) {
        return fmt::format("message {} of {} bytes has other content", turn, content.size());
      }
      // Whoever wrote there once more would be seen.
      std::fill_n(job_.window(to_).at(place_of(turn)), content.size(), std::byte{0xA5});
      ++received_;
    }
    return {};
  }
  // Places that no message is on its way to have what the receiver left there.
  std::string look_for_strays() const {
    for (uint64_t turn = std::max<uint64_t>(received_, kPlaces) - kPlaces + 1; turn <= received_; ++turn) {
      if (!is_clean(turn)) return stray(turn);
    }
    return {};
  }
  uint64_t received() const { return received_; }
  uint64_t sent() const { return sent_; }

 private:
  static uint64_t place_of(uint64_t turn) { return kData + turn % kPlaces * (kMostBytes + 64); }
  bool is_clean(uint64_t turn) const {
    std::span left(job_.window(to_).at(place_of(turn)), content_[turn - 1].size());
    return is_all(left, std::byte{0xA5});
  }
  static std::string stray(uint64_t turn) {
    return fmt::format("something was written where message {} had been taken from", turn);
  }
  void compose() {
    constexpr size_t kSizes[] = {0, 8, 152, 153, 10'000, 64 << 10, (64 << 10) + 1, 300'000, kMostBytes};
    content_.push_back(pattern(kSizes[random_() % std::size(kSizes)], random_()));
  }

  Job& job_;
  const int from_;
  const int to_;
  std::mt19937 random_;
  std::vector<std::vector<std::byte>> content_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t completed_ = 0;
  std::vector<std::byte> ordinary_ = std::vector<std::byte>(2 * (kMostBytes + 64));
};

// Sends both ways until so many have arrived.
std::string run(Job& job, Flow& there, Flow& back, uint64_t messages) {
  Deadline deadline = Deadline::after_ms(kPatienceMs);
  uint64_t completed = 0;
  while (there.received() < messages || back.received() < messages) {
    for (Flow* flow : {&there, &back}) {
      Status sent = flow->sent() < messages ? flow->send() : Status();
      if (!sent.ok()) return std::string(sent.message());
    }
    for (int rank : {0, 1}) {
      Status polled = job.link(rank, 1 - rank).poll(&completed);
      if (!polled.ok()) return std::string(polled.message());
    }
    for (Flow* flow : {&there, &back}) {
      if (std::string wrong = flow->receive(); !wrong.empty()) return wrong;
    }
    if (deadline.passed()) return fmt::format("stuck after {} and {}", there.received(), back.received());
  }
  std::string strays = there.look_for_strays();
  return strays.empty() ? back.look_for_strays() : strays;
}

}  // namespace

TEST_CASE("messages over several lanes take effect in the order in which they were sent") {
  Fake fake;
  auto options = GENERATE(VerbsOptions{}, VerbsOptions{.device = "fake0,fake0,fake1,fake1"});
  Job job(verbs_with(options), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.lag = GENERATE(0, 3)});
  Flow there(job, 0, 1), back(job, 1, 2);
  CHECK(run(job, there, back, 100) == "");
  check_used_well(fake);
}

TEST_CASE("several lanes carry what is sent, each its part") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.lag = 20});
  FakeCounts before = fake.counts();
  Flow there(job, 0, 1), back(job, 1, 2);
  CHECK(run(job, there, back, 50) == "");
  FakeCounts after = fake.counts();
  for (const char* device : {"fake0", "fake1"}) {
    CHECK(after.written_bytes[device] - before.written_bytes[device] > 1'000'000);
  }
}

TEST_CASE("where one lane fails, all that was on its way arrives over the other one, once and in order") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  uint64_t failing = GENERATE(range<uint64_t>(1, 60, kStep));
  int lag = GENERATE(0, 2);
  fake.verbs->set_faults({.failing_request = failing, .failing_status = 12, .lag = lag});
  Flow there(job, 0, failing), back(job, 1, failing + 100);
  INFO(failing << " fails, lag " << lag);
  CHECK(run(job, there, back, 40) == "");
  check_used_well(fake);
}

TEST_CASE("a device that nothing leaves any more is left for the other one, and nobody hangs") {
  Fake fake;
  std::string cut = GENERATE("fake0", "fake1");
  Job job(verbs_with({.device = "fake0,fake0,fake1,fake1"}), 2, kWindow);
  check_ok(job.status());
  Flow there(job, 0, 1), back(job, 1, 2);
  CHECK(run(job, there, back, 10) == "");
  fake.verbs->set_faults({.cut_device = cut, .lag = 1});
  CHECK(run(job, there, back, 40) == "");  // one of the four lanes lies within the other device
}

TEST_CASE("what a device does not take any more arrives over the other one, once and in order") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  uint64_t refused = GENERATE(range<uint64_t>(1, 60, kStep));
  int lag = GENERATE(0, 2);
  fake.verbs->set_faults({.refused_request = refused, .lag = lag});
  Flow there(job, 0, refused), back(job, 1, refused + 100);
  INFO(refused << " is refused, lag " << lag);
  CHECK(run(job, there, back, 40) == "");
  check_used_well(fake);
}

TEST_CASE("of a batch, too, what a device does not take or send arrives over the other one, once and in order") {
  constexpr uint64_t kBatch = 6, kMessages = 5 * kBatch;
  constexpr size_t kSizes[] = {0, 100, 20'000};
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  uint64_t bad = GENERATE(range<uint64_t>(1, 30));
  bool is_refused = GENERATE(true, false);
  int lag = GENERATE(0, 2);
  FakeFaults faults = {.lag = lag};
  if (is_refused) faults.refused_request = bad;
  else faults.failing_request = bad, faults.failing_status = 12;
  fake.verbs->set_faults(faults);
  INFO(bad << (is_refused ? " is refused" : " fails") << ", lag " << lag);
  Link& link = job.link(0, 1);
  uint64_t sent = 0, received = 0, completed = 0;
  auto place_of = [](uint64_t turn) { return kData + turn * 20'000; };
  auto is_next_there = [&] { return counter_of(job.window(1).line((received + 1) % kLines * 64)) == received + 1; };
  auto all_are_there = [&] {
    while (received < sent && is_next_there()) ++received;
    return received == sent;
  };
  while (sent < kMessages) {
    link.begin_batch();
    for (auto result = PutResult::kDone; result == PutResult::kDone;) {
      std::span<std::byte> source(job.window(0).at(place_of(sent + 1)), kSizes[sent % std::size(kSizes)]);
      auto content = pattern(source.size(), sent);
      std::copy(content.begin(), content.end(), source.begin());
      auto put = link.put(job.slice(0, 1, place_of(sent + 1)), source, job.slice(0, 1, (sent + 1) % kLines * 64),
                          Line{{sent + 1}});
      REQUIRE(put.ok());
      result = *put;
      if (result == PutResult::kDone && ++sent % kBatch == 0) break;
    }
    link.end_batch();
    check_ok(link.poll(&completed));
    if (sent % (2 * kBatch) == 0) check_ok(await_until(all_are_there, {&link, &job.link(1, 0)}));
  }
  check_ok(await_until(all_are_there, {&link, &job.link(1, 0)}));
  for (uint64_t i = 0; i < kMessages; ++i) {
    auto content = pattern(kSizes[i % std::size(kSizes)], i);
    CHECK(same(content, std::span(job.window(1).at(place_of(i + 1)), content.size())));
  }
  check_used_well(fake);
}

TEST_CASE("a device that is gone, and does not even say so, is left for the other one") {
  Fake fake;
  std::string gone = GENERATE("fake0", "fake1");
  int lag = GENERATE(0, 3);
  Job job(verbs_with({.device = "fake0,fake0,fake1,fake1"}), 2, kWindow);
  check_ok(job.status());
  Flow there(job, 0, 1), back(job, 1, 2);
  CHECK(run(job, there, back, 10) == "");
  fake.verbs->set_faults({.gone_device = gone, .lag = lag});
  CHECK(run(job, there, back, 40) == "");
  check_used_well(fake);
}

TEST_CASE("where all lanes fail, so does the link, with the words of the last one") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.cut = true});
  Flow there(job, 0, 1), back(job, 1, 2);
  CHECK_THAT(run(job, there, back, 10), Catch::Contains("no longer answers") || Catch::Contains("peer's end"));
}

TEST_CASE("a sleeping rank goes on when a lane fails") {
  Fake fake;
  Job job(verbs_with({}), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.failing_request = 3, .failing_status = 12});
  auto statuses = on_threads(2, [&](int rank) -> Status {
    for (uint64_t turn = 1; turn <= 20; ++turn) {
      if (rank == 0) TUTTI_TRY(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{turn}}));
      TUTTI_TRY(await_asleep(job.link(rank, 1 - rank), job.window(rank).line(0), turn));
      if (rank == 1) TUTTI_TRY(signal(job.link(1, 0), job.slice(1, 0, 0), Line{{turn}}));
    }
    return {};
  });
  for (const Status& status : statuses) check_ok(status);
}

TEST_CASE("a sleeping rank goes on when a device is gone") {
  Fake fake;
  Job job(verbs_with({.device = "fake0,fake0,fake1,fake1"}), 2, kWindow);
  check_ok(job.status());
  auto statuses = on_threads(2, [&](int rank) -> Status {
    for (uint64_t turn = 1; turn <= 20; ++turn) {
      if (rank == 0 && turn == 10) fake.verbs->set_faults({.gone_device = "fake0"});
      if (rank == 0) TUTTI_TRY(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{turn}}));
      TUTTI_TRY(await_asleep(job.link(rank, 1 - rank), job.window(rank).line(0), turn));
      if (rank == 1) TUTTI_TRY(signal(job.link(1, 0), job.slice(1, 0, 0), Line{{turn}}));
    }
    return {};
  });
  for (const Status& status : statuses) check_ok(status);
}

TEST_CASE("where no lane is left, all that was on its way arrives over tcp, once and in order") {
  Fake fake;
  Job job(verbs_over_one_lane({.goes_over_tcp = true}), 2, kWindow);
  check_ok(job.status());
  uint64_t failing = GENERATE(range<uint64_t>(1, 60, kStep));
  int lag = GENERATE(0, 2);
  fake.verbs->set_faults({.failing_request = failing, .failing_status = 12, .lag = lag});
  Flow there(job, 0, failing), back(job, 1, failing + 100);
  INFO(failing << " fails, lag " << lag);
  CHECK(run(job, there, back, 40) == "");
  check_used_well(fake);
}

TEST_CASE("lanes that are lost together, or one after the other, or are just gone, leave tcp") {
  Fake fake;
  auto first = GENERATE(FakeFaults{.failing_request = 7, .failing_status = 12, .lag = 2}, FakeFaults{.lag = 3},
                        FakeFaults{.refused_request = 9}, FakeFaults{.gone_device = "fake0", .lag = 1});
  auto then = GENERATE(FakeFaults{.cut = true, .lag = 3}, FakeFaults{.gone_device = "fake0", .lag = 2},
                       FakeFaults{.gone_device = "fake1"});
  Job job(verbs_with({.goes_over_tcp = true}), 2, kWindow);
  check_ok(job.status());
  Flow there(job, 0, 1), back(job, 1, 2);
  CHECK(run(job, there, back, 10) == "");
  CHECK(job.link(0, 1).carried_by() == "");
  fake.verbs->set_faults(first);
  CHECK(run(job, there, back, 15) == "");
  fake.verbs->set_faults(then);
  CHECK(run(job, there, back, 40) == "");
  for (int rank : {0, 1}) CHECK(job.link(rank, 1 - rank).carried_by() == "tcp");
  CHECK(fake.counts().mistakes == 0);
}

TEST_CASE("a sleeping rank goes on over tcp, and hears of new memory there") {
  Fake fake;
  Job job(verbs_with({.goes_over_tcp = true}), 2, kWindow);
  check_ok(job.status());
  auto pattern_of = [](int rank, uint64_t turn) { return pattern(100'000, turn * 2 + static_cast<uint64_t>(rank)); };
  auto statuses = on_threads(2, [&](int rank) -> Status {
    Link& link = job.link(rank, 1 - rank);
    for (uint64_t turn = 1; turn <= 20; ++turn) {
      if (rank == 0 && turn == 5) fake.verbs->set_faults({.cut = true});
      auto sent = pattern_of(rank, turn);
      auto send = [&] {
        return put(link, job.slice(rank, 1 - rank, 4096), sent, job.slice(rank, 1 - rank, 0), Line{{turn}});
      };
      if (rank == 0) TUTTI_TRY(send());
      TUTTI_TRY(await_asleep(link, job.window(rank).line(0), turn));
      auto wanted = pattern_of(1 - rank, turn);
      if (!same(wanted, std::span(job.window(rank).at(4096), wanted.size()))) {
        return error(Code::kInternal, "turn {} has other content", turn);
      }
      if (rank == 1) TUTTI_TRY(send());
      uint64_t completed = 0;
      while (completed < turn) TUTTI_TRY(link.poll(&completed));
    }
    return {};
  });
  for (const Status& status : statuses) check_ok(status);
  const Window& added = job.node(0).add_window(4096);
  check_ok(job.link(0, 1).share(*added.exported));
  check_ok(await_until([&] { return job.link(1, 0).find(added.exported->id) != nullptr; },
                       {&job.link(0, 1), &job.link(1, 0)}));
}

TEST_CASE("over tcp too the end of a peer is told") {
  Fake fake;
  Job job(verbs_with({.goes_over_tcp = true}), 2, kWindow);
  check_ok(job.status());
  fake.verbs->set_faults({.cut = true});
  Flow there(job, 0, 1), back(job, 1, 2);
  CHECK(run(job, there, back, 5) == "");
  job.link(1, 0).abort();
  CHECK(mentions(await_until([] { return false; }, {&job.link(0, 1)}), "the peer has died, aborted or closed"));
}

TEST_CASE("memory that is released while a payload comes into it beside the queue pairs breaks the link") {
  constexpr size_t kPayload = 32 << 20;  // far more than two sockets hold
  Fake fake;
  Job job(verbs_over_one_lane({.goes_over_tcp = true}), 2, 4096);
  check_ok(job.status());
  std::vector<Link*> links = {&job.link(0, 1), &job.link(1, 0)};
  const Window& window = job.node(1).add_window(kPayload);
  check_ok(job.link(1, 0).share(*window.exported));
  const RemoteMemory* remote = nullptr;
  check_ok(await_until([&] { return (remote = job.link(0, 1).find(window.exported->id)) != nullptr; }, links));
  fake.verbs->set_faults({.cut = true});
  check_ok(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{1}}));
  check_ok(await_until([&] { return counter_of(job.window(1).line(0)) == 1; }, links));
  std::vector<std::byte> payload(kPayload, std::byte{7});
  check_ok(put(job.link(0, 1), {remote, 0}, payload, job.slice(0, 1, 64), Line{{1}}));
  check_ok(await_until([&] { return *window.at(0) == std::byte{7}; }, {&job.link(1, 0)}));
  std::byte* rest = std::find(window.at(0), window.at(kPayload), std::byte{0});
  job.node(1).transport->release(window.exported);
  uint64_t completed = 0;
  check_ok(job.link(0, 1).poll(&completed));  // more of it
  CHECK(completed == 0);
  Status broken = job.link(1, 0).poll(&completed);
  CHECK(mentions(broken, "the peer's payload is on its way into memory 2, which is released"));
  CHECK(std::find(window.at(0), window.at(kPayload), std::byte{0}) == rest);
}

TEST_CASE("a lost lane that no link can have is refused") {
  auto parsed = parse_side_message(encode(SideMessage(SideLost{.lane = kMostLanes, .received = 1})));
  CHECK(!parsed.ok());
}

}  // namespace tutti::test
