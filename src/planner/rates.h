// Times and rates of the cost model, in integers, which every rank computes alike. Rates are bytes per second, and none
// is 0. What is too much for 64 bits stays at a limit from which sums do not overflow.
#pragma once

#include <algorithm>
#include <cstdint>

#include "planner/footprint.h"
#include "topology/topology.h"

namespace tutti {

uint64_t ns_for(uint64_t bytes, uint64_t bytes_per_s);
// Here for the compiler to see: each pair of ranks that exchange something takes some twenty of them.
inline uint64_t saturating_add(uint64_t a, uint64_t b) {
  return std::min(a, UINT64_MAX / 4) + std::min(b, UINT64_MAX / 4);
}
inline uint64_t saturating_mul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  bool is_too_much = __builtin_mul_overflow(a, b, &product);
  return is_too_much ? UINT64_MAX / 16 : std::min(product, UINT64_MAX / 16);
}

// `whole` * `part` / `of`, at least 1.
uint64_t share_of(uint64_t whole, uint64_t part, uint64_t of);

// Of what is left when something at `whole` per second has a part that goes at `part` per second.
uint64_t rate_without(uint64_t whole, uint64_t part);

// Of what takes the time of both.
uint64_t rate_with(uint64_t one, uint64_t other);

// Of blocks of so many bytes through a socket, by what was measured of the two sizes. A byte's time lies between
// theirs: one of the rates may be that of what costs nothing.
uint64_t rate_between(uint64_t usual, uint64_t large, uint64_t block_bytes);

// How much of what a call touches lies where, in parts of kWhole.
struct Residence {
  static constexpr uint64_t kWhole = uint64_t{1} << 32;
  uint64_t l2 = 0;
  uint64_t last_level = 0;
  uint64_t memory = 0;

  // Payload per second, of what a core reaches in each of them.
  uint64_t rate(uint64_t l2_rate, uint64_t last_level_rate, uint64_t memory_rate) const;
};

// The callers' buffers, over and over, and slots in flight: half as much again, and in the last level, where few places
// do for several payloads, a quarter, unless ranks take turns. A core's own cache loses what was used least recently,
// which is what comes next: it has nothing left of twice its size. The last level has nothing of three times its own,
// as measured.
Residence residence_of(const TopologyHost& host, const Footprint& footprint);

}  // namespace tutti
