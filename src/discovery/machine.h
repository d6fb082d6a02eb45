// A recorded machine: what a SystemView answered once, as one JSON file. It replays anywhere: the same discovery code
// runs on it. Files may also be written by hand, with a synthetic hwloc topology in place of XML.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "discovery/system_view.h"
#include "topology/inventory.h"

namespace tutti {

using TextMap = std::map<std::string, std::string>;

struct Machine {
  ProcessFacts process;
  std::vector<std::string> hwloc_xml;  // lines
  std::string hwloc_synthetic;         // used when there is no XML
  std::vector<Interface> interfaces;
  TextMap files;  // by path; a path that is absent here was absent there
  TextMap links;
  std::vector<std::string> cgroup_mounts;       // lines of /proc/self/mountinfo
  std::map<std::string, uint64_t> filesystems;  // sizes in bytes by mount point
  std::vector<ManagedGpu> gpus;                 // what their management library said of them
  // Those of the libraries asked for that were there: "libibverbs.so.1", and with a function "libibverbs.so.1:name".
  std::vector<std::string> libraries;
  std::vector<std::string> forbidden;           // device files asked for that the process may not open
  Costs costs;                                  // as calibrated when it was recorded
  friend bool operator==(const Machine&, const Machine&) = default;
};

std::string to_json(const Machine& machine);
Result<Machine> parse_machine(std::string_view json);

// Runs discovery and diagnosis on `system` and records all that they asked for.
Result<Machine> record(SystemView& system, const Costs& costs);

// What discovery finds on the recorded machine, with its costs.
Result<Inventory> discover(const Machine& machine);

}  // namespace tutti
