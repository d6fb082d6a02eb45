// Which lane the channels of a plan go over, where a link has several.
#include <map>
#include <string>

#include "verbs/faked.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 8 << 20;
constexpr uint64_t kData = 64 << 10;
constexpr size_t kPieceBytes = 200'000;

// Puts of a channel from rank 0 to rank 1, one after the other or all at once, and which devices they came from.
class Channels {
 public:
  explicit Channels(const VerbsOptions& options = {}) : job_(verbs_with(options), 2, kWindow) {
    check_ok(job_.status());
  }

  enum class From : uint8_t { kWindow, kStage };
  std::map<std::string, uint64_t> put(int channel, int pieces, bool at_once = false, From from = From::kWindow) {
    std::map<std::string, uint64_t> before = fake_.counts().written_bytes;
    for (int i = 0; i < pieces; ++i) {
      send(channel, from);
      if (!at_once) wait_for(turn_);
    }
    wait_for(turn_);
    std::map<std::string, uint64_t> moved;
    for (const auto& [device, bytes] : fake_.counts().written_bytes) moved[device] = bytes - before[device];
    return moved;
  }
  const Fake& fake() const { return fake_; }

 private:
  void send(int channel, From from) {
    auto content = pattern(kPieceBytes, ++turn_);
    std::byte* place = from == From::kStage ? job_.link(0, 1).stage(kPieceBytes, channel)
                                            : job_.window(0).at(kData + turn_ % 32 * kPieceBytes);
    REQUIRE(place != nullptr);
    std::span source(std::copy(content.begin(), content.end(), place) - kPieceBytes, kPieceBytes);
    Deadline deadline = Deadline::after_ms(kPatienceMs);
    while (!deadline.passed()) {
      auto sent = job_.link(0, 1).put(job_.slice(0, 1, kData + turn_ % 32 * kPieceBytes), source,
                                      job_.slice(0, 1, turn_ % 64 * 64), Line{{turn_}}, channel);
      check_ok(sent.status());
      if (*sent == PutResult::kDone) return;
      poll();
    }
    FAIL("there was no room");
  }
  // Whatever the lanes, what was sent first is there first.
  void wait_for(uint64_t turn) {
    Deadline deadline = Deadline::after_ms(kPatienceMs);
    while (counter_of(job_.window(1).line(turn % 64 * 64)) != turn && !deadline.passed()) poll();
    REQUIRE(counter_of(job_.window(1).line(turn % 64 * 64)) == turn);
    CHECK(same(pattern(kPieceBytes, turn), std::span(job_.window(1).at(kData + turn % 32 * kPieceBytes), kPieceBytes)));
  }
  void poll() {
    uint64_t completed = 0;
    for (int rank : {0, 1}) check_ok(job_.link(rank, 1 - rank).poll(&completed));
  }

  Fake fake_;
  Job job_;
  uint64_t turn_ = 0;
};

constexpr uint64_t kHeads = 200 * 30;  // messages themselves may be counted, too

}  // namespace

TEST_CASE("each channel goes over the device of its turn, also what is composed in the link's memory") {
  Channels channels;
  auto from = GENERATE(Channels::From::kWindow, Channels::From::kStage);
  for (int channel : {0, 1, 2, 3, 1, 0}) {
    INFO("channel " << channel);
    auto moved = channels.put(channel, 6, false, from);
    CHECK(moved[channel % 2 == 0 ? "fake0" : "fake1"] >= 6 * kPieceBytes);
    CHECK(moved[channel % 2 == 0 ? "fake1" : "fake0"] < kHeads);
  }
  check_used_well(channels.fake());
}

TEST_CASE("a channel whose device is behind goes over the others, too") {
  Channels channels;
  channels.fake().verbs->set_faults({.lag = 30});
  auto moved = channels.put(1, 30, true);
  CHECK(moved["fake1"] > 10 * kPieceBytes);
  CHECK(moved["fake0"] > 10 * kPieceBytes);
  check_used_well(channels.fake());
}

TEST_CASE("a port that is named twice, or a slower one, is no further one to the planner") {
  auto lanes_of = [](const VerbsOptions& options) {
    Job job(verbs_with(options), 2, kWindow);
    check_ok(job.status());
    return job.node(0).transport->lanes();
  };
  Fake fake;
  CHECK(lanes_of({}) == 2);
  CHECK(lanes_of({.device = "fake0"}) == 1);
  CHECK(lanes_of({.device = "fake0,fake0"}) == 1);
  CHECK(lanes_of({.device = "fake0,fake0,fake1,fake1"}) == 2);
  fake.verbs->set_ports({FakePort{}, FakePort{.device = "fake1", .speed_code = 4, .gids = {{1, "::ffff:10.0.0.2"}}}});
  CHECK(lanes_of({.device = "fake0,fake1"}) == 1);
}

TEST_CASE("where a device fails its channels go over the one that is left") {
  Channels channels({.device = "fake0,fake0,fake1,fake1"});  // one of the four lanes lies within the first one
  for (int channel : {0, 1, 2, 3}) channels.put(channel, 2);
  channels.fake().verbs->set_faults({.cut_device = "fake1", .lag = 1});
  for (int channel : {0, 1, 2, 3}) channels.put(channel, 4);
  for (int channel : {0, 1, 2, 3}) {
    auto moved = channels.put(channel, 6);
    CHECK(moved["fake0"] >= 6 * kPieceBytes);
    CHECK(moved["fake1"] < kHeads);
  }
}

}  // namespace tutti::test
