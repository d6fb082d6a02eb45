#include "discovery/between_cores.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

namespace tutti {
namespace {

// Figures of one such state differ by less than a quarter, and of two by a factor.
bool are_as_near(std::optional<uint64_t> line_ns, std::optional<uint64_t> other_line_ns) {
  if (!line_ns || !other_line_ns) return line_ns == other_line_ns;
  return 4 * *line_ns <= 5 * *other_line_ns && 4 * *other_line_ns <= 5 * *line_ns;
}

// Of a byte, into a slot and out of it.
double through_slot_ns(const BetweenCores& of) {
  if (!of.slots) return std::numeric_limits<double>::infinity();
  return 1e9 / static_cast<double>(of.slots->store_bytes_per_s) + 1e9 / static_cast<double>(of.slots->load_bytes_per_s);
}

bool is_nearer(const BetweenCores& one, const BetweenCores& other) {
  auto key = [](const BetweenCores& of) {
    bool moved = !are_as_near(of.cache_line_ns, of.later_cache_line_ns);
    return std::tuple(!of.cache_line_ns || !of.slots, of.is_one_core, moved, through_slot_ns(of));
  };
  return key(one) < key(other);
}

// Beside one and a half ways of a line, which predictions count of a message and of its payload's first line.
std::optional<uint64_t> settle_ns(const BetweenCores& of) {
  if (!of.settle_wait_ns || !of.cache_line_ns) return std::nullopt;
  uint64_t ways_ns = *of.cache_line_ns * 3 / 2;
  return std::max(*of.settle_wait_ns, ways_ns + 1) - ways_ns;
}

// Cores may have moved while one of these was measured. Small messages, and the calls that send and receive them, take
// longer also when another program ran there, and have their least times.
void set_tcp(std::span<const BetweenCores> times, Costs& costs) {
  std::vector<TcpCost> measured;
  for (const BetweenCores& time : times) {
    if (time.tcp) measured.push_back(*time.tcp);
  }
  if (measured.empty()) return;
  auto least_by = [&](auto figure) {
    return *std::min_element(measured.begin(), measured.end(),
                             [&](auto& one, auto& other) { return figure(one) < figure(other); });
  };
  set_probed(costs.tcp_ns, least_by([](const TcpCost& of) { return of.ns; }).ns);
  TcpCost quickest = least_by([](const TcpCost& of) { return of.send_ns + of.receive_ns; });
  set_probed(costs.tcp_send_ns, quickest.send_ns);
  set_probed(costs.tcp_receive_ns, quickest.receive_ns);
  TcpCost nearest = least_by([](const TcpCost& of) { return 1.0 / static_cast<double>(of.both_bytes_per_s); });
  set_probed(costs.tcp_bytes_per_s, nearest.bytes_per_s);
  set_probed(costs.tcp_both_bytes_per_s, nearest.both_bytes_per_s);
  set_probed(costs.large_tcp_bytes_per_s, nearest.large_bytes_per_s);
  set_probed(costs.large_tcp_both_bytes_per_s, nearest.large_both_bytes_per_s);
}

}  // namespace

void set_between(std::span<const BetweenCores> times, Costs& costs) {
  const BetweenCores& nearest = *std::min_element(times.begin(), times.end(), is_nearer);
  set_probed(costs.cache_line_ns, nearest.cache_line_ns);
  std::optional<uint64_t> yield_ns, memory_bytes_per_s;
  for (const BetweenCores& time : times) {
    if (time.yield_ns) yield_ns = std::min(*time.yield_ns, yield_ns.value_or(*time.yield_ns));
    bool is_alike = time.is_one_core == nearest.is_one_core && are_as_near(time.cache_line_ns, nearest.cache_line_ns) &&
                    are_as_near(time.cache_line_ns, time.later_cache_line_ns);
    if (is_alike || &time == &nearest) memory_bytes_per_s = std::max(memory_bytes_per_s, time.memory_bytes_per_s);
  }
  set_probed(costs.yield_ns, yield_ns);
  set_probed(costs.memory_bytes_per_s, memory_bytes_per_s);
  if (nearest.slots) {
    set_probed(costs.slot_store_bytes_per_s, nearest.slots->store_bytes_per_s);
    set_probed(costs.slot_load_bytes_per_s, nearest.slots->load_bytes_per_s);
  }
  if (nearest.small_slots) {
    set_probed(costs.small_slot_store_bytes_per_s, nearest.small_slots->store_bytes_per_s);
    set_probed(costs.small_slot_load_bytes_per_s, nearest.small_slots->load_bytes_per_s);
  }
  set_probed(costs.slot_settle_ns, settle_ns(nearest));
  if (nearest.pull) {
    set_probed(costs.pull_ns, nearest.pull->ns);
    set_probed(costs.pull_bytes_per_s, nearest.pull->bytes_per_s);
  }
  set_tcp(times, costs);
}

}  // namespace tutti
