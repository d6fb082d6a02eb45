// Hosts for the tests, as small as they can be and still have every kind of fact.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace tutti::samples {

inline Inventory host(const std::string& name) {
  Inventory inventory;
  inventory.hostname = name;
  inventory.kernel = "6.1.0";
  inventory.identity = {"boot-of-" + name, 11, 12, 13, 14};
  inventory.cpu = {"x86_64", "Example 9000", 2, 8, 16, {0, 1, 2, 3}};
  inventory.numa_nodes = {{0, {0, 1, 2, 3, 4, 5, 6, 7}, 64ull << 30}, {1, {8, 9, 10, 11, 12, 13, 14, 15}, 64ull << 30}};
  inventory.caches = {{1, 32768, 8, 2}, {2, 1 << 20, 8, 2}, {3, 32 << 20, 2, 8}};
  inventory.nics = {{"lo", "", {"127.0.0.1", "::1"}, 0, 65536, -1, true, true},
                    {"eth0", "0000:01:00.0", {"10.0.0.1"}, 100'000, 9000, 1, true, false}};
  inventory.gpus = {{"GPU-1", "Example GPU", "0000:02:00.0", 1, 80ull << 30}};
  inventory.limits = {128ull << 30, 100ull << 30, UINT64_MAX, 1024, 64ull << 30, 0};
  inventory.costs.copy_bytes_per_s = {12'000'000'000, Origin::kProbe};
  return inventory;
}

inline RankFacts rank(const Inventory& inventory, int64_t pid) { return {inventory, pid}; }

// Ranks 0 and 1 on "a", 2 on "b".
inline std::vector<RankFacts> two_hosts() { return {rank(host("a"), 100), rank(host("a"), 101), rank(host("b"), 100)}; }

}  // namespace tutti::samples
