// Prepared calls: the Plan and this rank's Programs for one class of calls, made once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "executor/program.h"
#include "executor/stream_layout.h"
#include "planner/planner.h"

namespace tutti {

struct Prepared {
  Plan plan;
  std::string algorithm;
  uint64_t plan_digest = 0;
  uint64_t predicted_ns = 0;
  std::string candidates;          // all algorithms that could run it, separated by blanks
  std::vector<Program> programs;   // this rank's, by channel
  std::vector<int32_t> peers;      // ascending
  std::vector<int32_t> senders;    // those of them that send this rank something, ascending
  bool connected = false;          // all peers have links
  int wish = kNoWish;              // of those who receive in it, for calls that are tried
};

// By collective, type, op, root and size class; never by count.
class PlanCache {
 public:
  // `topology` and `layout` outlive the cache.
  PlanCache(const Topology& topology, int rank, Tuning tuning, const StreamLayout& layout);

  // Runs `plan`, which the user gave, for every call of its collective. Errors: it is for another number of ranks, or
  // asks for more channels or larger slices than the streams have, or for more slots than are in use on any host. All
  // ranks refuse alike.
  Status use(Plan plan);

  // Plans and lowers on first use. Does not block on other ranks. The result lives as long as the cache. Errors: the
  // plan that the user gave has no room for partial results of the type, or not the order that the operation needs.
  Result<Prepared*> get(const Request& request);

 private:
  using Key = std::tuple<Collective, Datatype, ReduceOp, int, uint64_t>;
  Result<std::unique_ptr<Prepared>> make(const Request& request) const;
  // Of the plan that the user gave, whose partial results are so many times as large as slices.
  Status check_payloads(const PlanShape& shape, uint64_t growth) const;

  const Topology& topology_;
  const int rank_;
  const StreamLayout& layout_;
  Tuning tuning_;
  std::optional<Plan> fixed_;
  uint64_t most_payload_bytes_ = UINT64_MAX;  // of that plan: larger ones have two slots on a host, and it needs more
  std::map<Key, std::unique_ptr<Prepared>> prepared_;
  Key last_key_{};
  Prepared* last_ = nullptr;
};

// Reads a Plan file and proves it for streams of `slots` slots. Errors: file, line and reason; what is wrong with it.
Result<Plan> read_plan_file(const std::string& path, int slots);

}  // namespace tutti
