// What `tutti bench --tune` measured: up to which size which algorithm is the fastest, and for which ranks that holds.
// A plain value with a JSON form, the tuning file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "topology/topology.h"

namespace tutti {

// A host's hardware, without its name: measurements on one of many alike hold for all.
struct TunedMachine {
  std::string architecture;
  std::string model;
  int logical_cpus = 0;
  friend auto operator<=>(const TunedMachine&, const TunedMachine&) = default;
};

// The ranks that were measured.
struct TunedRanks {
  int nranks = 0;
  int hosts = 0;
  std::string transport;               // "shm", "tcp", "shm+tcp"
  std::vector<TunedMachine> machines;  // of the hosts, each kind once, ascending
  friend bool operator==(const TunedRanks&, const TunedRanks&) = default;
};
TunedRanks tuned_ranks_of(const Topology& topology);
// "2 ranks on 1 host over shm (Example 9000 with 8 CPUs)"
std::string to_text(const TunedRanks& ranks);

struct TunedRange {
  uint64_t up_to_bytes = 0;  // and from where the range before ends
  std::string algorithm;     // kPlannersChoice: the predictions are right there
  friend bool operator==(const TunedRange&, const TunedRange&) = default;
};
inline constexpr std::string_view kPlannersChoice = "default";

struct TunedCollective {
  Collective collective = TUTTI_ALL_REDUCE;  // also serves the form with counts
  std::vector<TunedRange> ranges;            // ascending; beyond the last one nothing is known
  friend bool operator==(const TunedCollective&, const TunedCollective&) = default;
};

struct TuningTable {
  TunedRanks ranks;
  std::vector<TunedCollective> collectives;
  friend bool operator==(const TuningTable&, const TuningTable&) = default;
};

std::string to_json(const TuningTable& table);
// Errors: "line 3: ..." for text that is no such document; a collective that is none, has counts or is there twice; an
// algorithm that its collective does not have; ranges that do not ascend.
Result<TuningTable> parse_tuning(std::string_view json);

// The algorithm to run for calls of a size class of so many bytes, "" where the planner is to choose.
std::string_view measured_algorithm(std::span<const TunedCollective> measured, Collective collective,
                                    uint64_t class_bytes);

}  // namespace tutti
