#include "discovery/between_cores.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

using namespace tutti;

namespace {

// As a virtual machine's two processors were seen, but for TCP: cores of one cache, undisturbed and not, the threads of
// one core, and far cores.
constexpr uint64_t kGB = 1'000'000'000;
const BetweenCores kNear{55, 1000, 26 * kGB, SlotRates{56 * kGB, 46 * kGB}, SlotRates{121 * kGB, 60 * kGB},
                         PullCost{975, 11 * kGB}, TcpCost{3300, 3100, 1900, 10 * kGB, 7 * kGB, 12 * kGB, 8 * kGB}};
const BetweenCores kDisturbed{60, 900, 29 * kGB, SlotRates{38 * kGB, 39 * kGB}, SlotRates{110 * kGB, 58 * kGB},
                              PullCost{990, 9 * kGB}, TcpCost{3200, 3300, 1900, 9 * kGB, 6 * kGB, 11 * kGB, 7 * kGB}};
const BetweenCores kThreads{20, 1100, 23 * kGB, SlotRates{20 * kGB, 54 * kGB}, SlotRates{80 * kGB, 64 * kGB},
                            PullCost{980, 10 * kGB}, TcpCost{3600, 3000, 1800, 8 * kGB, 5 * kGB, 9 * kGB, 6 * kGB}};
const BetweenCores kFar{260, 1000, 47 * kGB, SlotRates{45 * kGB, 32 * kGB}, SlotRates{90 * kGB, 40 * kGB},
                        PullCost{985, 8 * kGB}, TcpCost{4000, 3200, 2000, 7 * kGB, 4 * kGB, 8 * kGB, 5 * kGB}};

Costs costs_of(std::span<const BetweenCores> times) {
  Costs costs;
  set_between(times, costs);
  return costs;
}

}  // namespace

TEST_CASE("of several looks at two cores that of cores of one cache counts, in any order") {
  std::array order{0, 1, 2, 3};
  do {
    std::array<BetweenCores, 4> times;
    const std::array all{kNear, kDisturbed, kThreads, kFar};
    std::transform(order.begin(), order.end(), times.begin(), [&](int which) { return all[which]; });
    Costs costs = costs_of(times);
    CHECK(costs.cache_line_ns == Figure{55, Origin::kProbe});
    CHECK(costs.slot_store_bytes_per_s.value == 56 * kGB);
    CHECK(costs.small_slot_load_bytes_per_s.value == 60 * kGB);
    CHECK(costs.pull_ns.value == 975);
    CHECK(costs.memory_bytes_per_s.value == 29 * kGB);  // the most beside cores as near
    CHECK(costs.yield_ns.value == 900);                 // the least of all
    CHECK(costs.tcp_ns.value == 3200);
    CHECK(costs.tcp_send_ns.value == 3000);  // with the call that receives, of one look
    CHECK(costs.tcp_receive_ns.value == 1800);
    CHECK(costs.tcp_bytes_per_s.value == 10 * kGB);
    CHECK(costs.large_tcp_both_bytes_per_s.value == 8 * kGB);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("where cores are far from each other all looks like that one count, and not those at threads of one core") {
  Costs costs = costs_of(std::array{kFar, kThreads, kFar});
  CHECK(costs.cache_line_ns.value == 260);
  CHECK(costs.memory_bytes_per_s.value == 47 * kGB);
  CHECK(costs_of(std::array{kThreads, kThreads}).cache_line_ns.value == 20);
}

TEST_CASE("what no look has measured keeps its default") {
  const Costs defaults;
  CHECK(costs_of(std::array{BetweenCores{}, BetweenCores{}}) == defaults);
  Costs costs = costs_of(std::array{BetweenCores{.yield_ns = 700, .memory_bytes_per_s = kGB}, BetweenCores{}});
  CHECK(costs.yield_ns == Figure{700, Origin::kProbe});
  CHECK(costs.memory_bytes_per_s == Figure{kGB, Origin::kProbe});
  CHECK(costs.cache_line_ns == defaults.cache_line_ns);
}
