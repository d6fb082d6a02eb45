#include "planner/tuning_table.h"

#include <algorithm>
#include <optional>
#include <set>

#include "planner/planner.h"
#include "topology/describe.h"
#include "topology/json_document.h"
#include "topology/json_reader.h"
#include "topology/units.h"

namespace tutti {
namespace {

constexpr std::string_view kFormat = "tutti.tuning";
constexpr int kVersion = 1;
constexpr int kMaxRanks = 1 << 20;

template <typename T>
std::string names_of(const T& machines) {
  std::vector<std::string> names;
  for (const TunedMachine& machine : machines) {
    names.push_back(fmt::format("{} with {} CPUs", machine.model.empty() ? "unknown" : machine.model,
                                machine.logical_cpus));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<Collective> collective_named(std::string_view name) {
  auto parsed = parse_collective(name);
  return parsed && !has_counts(*parsed) ? parsed : std::nullopt;
}

// "" or what is wrong with the ranges.
std::string fault_of(const TunedCollective& tuned) {
  uint64_t before = 0;
  for (const TunedRange& range : tuned.ranges) {
    if (range.up_to_bytes <= before) return "must ascend in up_to_bytes";
    before = range.up_to_bytes;
    if (range.algorithm == kPlannersChoice || find_algorithm(tuned.collective, range.algorithm)) continue;
    std::vector<std::string_view> names;
    for (const Algorithm* each : algorithms()) {
      if (each->collective == tuned.collective) names.push_back(each->name);
    }
    return fmt::format("has \"{}\", which is no algorithm of {}; there are {} and {}", range.algorithm,
                       name_of(tuned.collective), fmt::join(names, ", "), kPlannersChoice);
  }
  return "";
}

}  // namespace

template <typename V, Is<TunedMachine> T>
void describe(V& v, T& machine) {
  v.text("architecture", machine.architecture);
  v.text("model", machine.model);
  v.number("logical_cpus", machine.logical_cpus, 0, kMaxCpus);
}

template <typename V, Is<TunedRange> T>
void describe(V& v, T& range) {
  v.number("up_to_bytes", range.up_to_bytes, 1, kAnyNumber);
  v.text("algorithm", range.algorithm);
}

template <typename V, Is<TunedCollective> T>
void describe(V& v, T& tuned) {
  std::string name(name_of(tuned.collective));
  v.text("collective", name);
  v.list("algorithms", tuned.ranges);
  if constexpr (V::kReads) {
    auto named = collective_named(name);
    if (!named) return v.refuse("collective", fmt::format("must be a collective without counts, but is \"{}\"", name));
    tuned.collective = *named;
    if (std::string fault = fault_of(tuned); !fault.empty()) v.refuse("algorithms", std::move(fault));
  }
}

template <typename V, Is<TuningTable> T>
void describe(V& v, T& table) {
  v.number("ranks", table.ranks.nranks, 0, kMaxRanks);
  v.number("hosts", table.ranks.hosts, 0, kMaxRanks);
  v.text("transport", table.ranks.transport);
  v.list("machines", table.ranks.machines);
  v.list("collectives", table.collectives);
  if constexpr (V::kReads) {
    std::set<Collective> seen;
    for (const TunedCollective& tuned : table.collectives) {
      if (seen.insert(tuned.collective).second) continue;
      v.refuse("collectives", fmt::format("must have {} once only", name_of(tuned.collective)));
    }
  }
}

TunedRanks tuned_ranks_of(const Topology& topology) {
  std::set<std::string_view> transports;
  for (const LinkClass& each : link_classes(topology)) transports.insert(name_of(each.link.kind));
  std::set<TunedMachine> machines;
  for (const TopologyHost& host : topology.hosts) {
    const Cpu& cpu = host.inventory.cpu;
    machines.insert({cpu.architecture, cpu.model, cpu.logical_cpus});
  }
  return {topology.nranks(),
          static_cast<int>(topology.hosts.size()),
          fmt::format("{}", fmt::join(transports, "+")),
          {machines.begin(), machines.end()}};
}

std::string to_text(const TunedRanks& ranks) {
  return fmt::format("{} on {} over {} ({})", count_text(ranks.nranks, "rank"), count_text(ranks.hosts, "host"),
                     ranks.transport, names_of(ranks.machines));
}

std::string to_json(const TuningTable& table) { return write_document(table, kFormat, kVersion); }

Result<TuningTable> parse_tuning(std::string_view json) { return read_document<TuningTable>(json, kFormat, kVersion); }

std::string_view measured_algorithm(std::span<const TunedCollective> measured, Collective collective,
                                    uint64_t class_bytes) {
  auto tuned = std::find_if(measured.begin(), measured.end(), [&](const TunedCollective& each) {
    return each.collective == without_counts(collective);
  });
  if (tuned == measured.end()) return "";
  auto range = std::find_if(tuned->ranges.begin(), tuned->ranges.end(),
                            [&](const TunedRange& each) { return class_bytes <= each.up_to_bytes; });
  bool is_known = range != tuned->ranges.end() && range->algorithm != kPlannersChoice;
  return is_known ? std::string_view(range->algorithm) : "";
}

}  // namespace tutti
