#include "discovery/between_cores.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

using namespace tutti;

namespace {

// As a virtual machine's two processors were seen, but for TCP: cores of one cache, undisturbed and not, the threads of
// one core, and far cores. Through slots the threads are quicker than disturbed cores.
constexpr uint64_t kGB = 1'000'000'000;
const BetweenCores kNear{.cache_line_ns = 55,
                         .later_cache_line_ns = 52,
                         .yield_ns = 1000,
                         .memory_bytes_per_s = 26 * kGB,
                         .slots = SlotRates{56 * kGB, 46 * kGB},
                         .small_slots = SlotRates{121 * kGB, 60 * kGB},
                         .settle_wait_ns = 100,
                         .pull = PullCost{975, 11 * kGB},
                         .tcp = TcpCost{3300, 3100, 1900, 9 * kGB, 6 * kGB, 11 * kGB, 7 * kGB}};
const BetweenCores kDisturbed{.cache_line_ns = 60,
                              .later_cache_line_ns = 63,
                              .yield_ns = 900,
                              .memory_bytes_per_s = 29 * kGB,
                              .slots = SlotRates{38 * kGB, 39 * kGB},
                              .small_slots = SlotRates{110 * kGB, 58 * kGB},
                              .settle_wait_ns = 120,
                              .pull = PullCost{990, 9 * kGB},
                              .tcp = TcpCost{3200, 3300, 1900, 10 * kGB, 7 * kGB, 12 * kGB, 8 * kGB}};
const BetweenCores kThreads{.is_one_core = true,
                            .cache_line_ns = 26,
                            .later_cache_line_ns = 26,
                            .yield_ns = 1100,
                            .memory_bytes_per_s = 23 * kGB,
                            .slots = SlotRates{31 * kGB, 55 * kGB},
                            .small_slots = SlotRates{80 * kGB, 64 * kGB},
                            .settle_wait_ns = 50,
                            .pull = PullCost{980, 10 * kGB},
                            .tcp = TcpCost{3600, 3000, 1800, 8 * kGB, 5 * kGB, 9 * kGB, 6 * kGB}};
const BetweenCores kFar{.cache_line_ns = 260,
                        .later_cache_line_ns = 255,
                        .yield_ns = 1000,
                        .memory_bytes_per_s = 47 * kGB,
                        .slots = SlotRates{34 * kGB, 27 * kGB},
                        .small_slots = SlotRates{90 * kGB, 40 * kGB},
                        .settle_wait_ns = 300,
                        .pull = PullCost{985, 8 * kGB},
                        .tcp = TcpCost{4000, 3200, 2000, 7 * kGB, 4 * kGB, 8 * kGB, 5 * kGB}};

Costs costs_of(std::span<const BetweenCores> times) {
  Costs costs;
  set_between(times, costs);
  return costs;
}

Figure probed(uint64_t value) { return {value, Origin::kProbe}; }

}  // namespace

TEST_CASE("of several looks at two cores that of cores of one cache counts, in any order") {
  Costs expected;
  expected.cache_line_ns = probed(55);
  expected.slot_store_bytes_per_s = probed(56 * kGB);
  expected.slot_load_bytes_per_s = probed(46 * kGB);
  expected.small_slot_store_bytes_per_s = probed(121 * kGB);
  expected.small_slot_load_bytes_per_s = probed(60 * kGB);
  expected.slot_settle_ns = probed(100 - 82);  // but for the ways of two lines, one half behind the other
  expected.pull_ns = probed(975);
  expected.pull_bytes_per_s = probed(11 * kGB);
  expected.memory_bytes_per_s = probed(29 * kGB);  // the most beside cores as near
  expected.yield_ns = probed(900);                 // the least of all
  expected.tcp_ns = probed(3200);
  expected.tcp_send_ns = probed(3000);  // with the call that receives, of one look
  expected.tcp_receive_ns = probed(1800);
  expected.tcp_bytes_per_s = probed(10 * kGB);  // of the look that had the most of it
  expected.tcp_both_bytes_per_s = probed(7 * kGB);
  expected.large_tcp_bytes_per_s = probed(12 * kGB);
  expected.large_tcp_both_bytes_per_s = probed(8 * kGB);
  std::array order{0, 1, 2, 3};
  do {
    std::array<BetweenCores, 4> times;
    const std::array all{kNear, kDisturbed, kThreads, kFar};
    std::transform(order.begin(), order.end(), times.begin(), [&](int which) { return all[which]; });
    CHECK(costs_of(times) == expected);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("threads of one core count only where all looks saw such") {
  Costs far = costs_of(std::array{kFar, kThreads, kFar});
  CHECK(far.cache_line_ns.value == 260);
  CHECK(far.memory_bytes_per_s.value == 47 * kGB);
  CHECK(costs_of(std::array{kThreads, kDisturbed, kThreads}).cache_line_ns.value == 60);
  Costs threads = costs_of(std::array{kThreads, kThreads});
  CHECK(threads.cache_line_ns.value == 26);
  CHECK(threads.memory_bytes_per_s.value == 23 * kGB);
  CHECK(costs_of(std::array{BetweenCores{}, kThreads}).cache_line_ns.value == 26);
}

TEST_CASE("stores that the other core sees at once take the least of times to settle") {
  CHECK(costs_of(std::array{kFar, kFar}).slot_settle_ns == Figure{1, Origin::kProbe});
  BetweenCores unseen = kNear;
  unseen.settle_wait_ns.reset();
  CHECK(costs_of(std::array{unseen, unseen}).slot_settle_ns == Costs().slot_settle_ns);
}

TEST_CASE("a look during which cores moved counts only where they always did") {
  BetweenCores moved = kNear;
  moved.later_cache_line_ns = 250;
  moved.memory_bytes_per_s = 50 * kGB;
  Costs costs = costs_of(std::array{moved, kDisturbed});
  CHECK(costs.cache_line_ns.value == 60);
  CHECK(costs.memory_bytes_per_s.value == 29 * kGB);
  CHECK(costs_of(std::array{moved, moved}).memory_bytes_per_s.value == 50 * kGB);
  CHECK(costs_of(std::array{BetweenCores{}, moved}).cache_line_ns.value == 55);
}

TEST_CASE("what no look has measured keeps its default") {
  const Costs defaults;
  CHECK(costs_of(std::array{BetweenCores{}, BetweenCores{}}) == defaults);
  Costs costs = costs_of(std::array{BetweenCores{.yield_ns = 700, .memory_bytes_per_s = kGB}, BetweenCores{}});
  CHECK(costs.yield_ns == Figure{700, Origin::kProbe});
  CHECK(costs.memory_bytes_per_s == Figure{kGB, Origin::kProbe});
  CHECK(costs.cache_line_ns == defaults.cache_line_ns);
}
