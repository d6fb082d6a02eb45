// What a host's caches, and what copies cost there, mean for calls of its ranks. Integers, since ranks plan by them.
#pragma once

#include "topology/topology.h"

namespace tutti {

// The cache next to memory; null: the host's caches are unknown.
const Cache* last_level(const Inventory& host);

// The second-level cache's share of one processor; 0: unknown.
uint64_t cache_bytes_per_cpu(const Inventory& inventory);

// A payload of which a core's second-level cache has room for so many: whole lines, and at least 64 KiB, even where the
// cache is unknown.
uint64_t share_of_cache(const Inventory& inventory, uint64_t pieces);

// Beside far cores payloads from so many bytes on do not come back to lines that the receiver's core still has; smaller
// ones stay in the first-level caches, where few places are best.
inline constexpr uint64_t kLeastSpreadBytes = 8 * 1024;

// Whether all of a host's cores are near each other: they have one last-level cache, and a line was measured to take as
// little time from one to another as there. The host of a virtual machine may tell of one cache and have several.
bool are_near(const Inventory& host);

// Messages from so many bytes on store their results past the caches; UINT64_MAX: none do.
uint64_t streaming_min_bytes(const TopologyHost& host);

// What the last-level cache of the rank that has most gets of so many bytes of that rank, and of all the host's ranks.
uint64_t bytes_in_fullest_cache(const TopologyHost& host, uint64_t all_bytes, uint64_t most_bytes);

// Whether a call stores its results past the caches, since they push each other out of the last level before they are
// used again: of buffers of so many bytes, of all the host's ranks, and of the one that has most. `half_by_one`: one
// core reads and writes at least half of them, and others the rest. Of several last-level caches the fullest counts.
bool stores_past_caches(const TopologyHost& host, uint64_t all_bytes, uint64_t most_bytes, bool half_by_one);

// Whether messages find out if pulls of private memory are quicker than slots: where it was seen what a pull costs.
inline bool messages_try_pulls(const Costs& costs) { return costs.pull_bytes_per_s.origin != Origin::kDefault; }

// Whether collectives find it out, too. They do not where calibration found the way through slots quicker for large
// payloads, even if a rank's copies into them and out of them come one after the other: all ranks are in a trial at
// once, and with more ranks than processors a call that is pulled takes up to ten times as long.
bool collectives_try_pulls(const Costs& costs);

}  // namespace tutti
