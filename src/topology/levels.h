// Which ranks of a topology are near each other, in groups within groups: those of a GPU, of a host, of a fabric.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace tutti {

enum class LevelKind : uint8_t { kGpu, kHost, kFabric };
std::string_view name_of(LevelKind kind);  // "GPU", "host", "fabric"

// Groups of one kind, of `ranks` consecutive ranks each.
struct Level {
  LevelKind kind = LevelKind::kGpu;
  int ranks = 0;
  friend bool operator==(const Level&, const Level&) = default;
};

struct Levels {
  // Innermost first; the ranks of each divide those of the next, and the last all ranks. Where groups of two kinds are
  // the same, the larger kind stands for both; groups of one rank, and one of all, tell nothing and are left out.
  std::vector<Level> levels;
  // The kinds that are left out since their groups have different numbers of ranks, or ranks that are not consecutive.
  std::vector<LevelKind> uneven;
};

Levels levels_of(const Topology& topology);

// All ranks, fabric by fabric, host by host and GPU by GPU: what a ring goes along. Empty: that is the order of their
// numbers.
std::vector<int> near_order(const Topology& topology);

// "4 ranks on each GPU, 8 GPUs on each host, 4 hosts", of those levels whose ranks are among `groups` (ascending).
std::string levels_text(const Topology& topology, const std::vector<int>& groups);

}  // namespace tutti
