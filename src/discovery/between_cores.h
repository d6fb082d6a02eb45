// What calibration takes from several looks at the same cores.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "discovery/probes.h"
#include "topology/inventory.h"

namespace tutti {

// What two cores cost each other, and processes on one. Those of a virtual machine may be near each other at one time,
// far at another, and at a third the two threads of one core, which have each other's lines at once and half a core.
struct BetweenCores {
  bool is_one_core = false;                     // of which they are the threads
  std::optional<uint64_t> cache_line_ns;        // before all else was measured
  std::optional<uint64_t> later_cache_line_ns;  // and after memory and slots
  std::optional<uint64_t> yield_ns;
  std::optional<uint64_t> memory_bytes_per_s;  // of all: cores near each other share a way to it
  std::optional<SlotRates> slots;
  std::optional<SlotRates> small_slots;
  std::optional<uint64_t> settle_wait_ns;  // the line's way in it
  std::optional<PullCost> pull;
  std::optional<TcpCost> tcp;
};

// Of `times`, at least one, that counts when cores were near each other, stayed so, and had the caches for themselves;
// not one when they were threads of one core, which may be quicker at all of it, unless all are that saw line and
// slots. Of a yield, which is as long beside any core, that counts when no other program ran there, and of the memory,
// which is as quick beside cores as near, and of small messages over TCP, too; of its rates that when they were the
// quickest.
void set_between(std::span<const BetweenCores> times, Costs& costs);

// Nothing where it was not measured.
inline void set_probed(Figure& figure, std::optional<uint64_t> value) {
  if (value) figure = {*value, Origin::kProbe};
}

}  // namespace tutti
