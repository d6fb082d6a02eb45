#include "discovery/machine.h"

#include <algorithm>
#include <sstream>

#include "discovery/diagnose.h"
#include "discovery/discover.h"
#include "discovery/hwloc_load.h"

namespace tutti {
namespace {

std::string with(const std::string& library, const std::string& function) {
  return function.empty() ? library : library + ":" + function;
}

// Passes every question on and writes the answer down.
class Recorder final : public SystemView {
 public:
  Recorder(SystemView& system, Machine& machine) : system_(system), machine_(machine) {}

  std::optional<std::string> read_file(const std::string& path) override {
    if (path.ends_with("/config")) return system_.read_file(path);  // of a PCI function: no text
    return kept(machine_.files, path, system_.read_file(path));
  }
  std::optional<std::string> read_link(const std::string& path) override {
    return kept(machine_.links, path, system_.read_link(path));
  }
  // A recorded folder holds what was read in it.
  std::vector<std::string> list_folder(const std::string& path) override { return system_.list_folder(path); }
  std::vector<std::string> cgroup_mounts() override { return machine_.cgroup_mounts = system_.cgroup_mounts(); }
  Result<HwlocTopology> hwloc() override {
    HwlocTopology topology = TUTTI_TRY(system_.hwloc());
    std::istringstream lines(TUTTI_TRY(hwloc_xml(topology.get())));
    for (std::string line; std::getline(lines, line);) machine_.hwloc_xml.push_back(line);
    return topology;
  }
  Result<std::vector<Interface>> interfaces() override { return machine_.interfaces = TUTTI_TRY(system_.interfaces()); }
  Result<ProcessFacts> process() override { return machine_.process = TUTTI_TRY(system_.process()); }
  uint64_t filesystem_bytes(const std::string& path) override {
    return machine_.filesystems[path] = system_.filesystem_bytes(path);
  }
  std::vector<ManagedGpu> managed_gpus() override { return machine_.gpus = system_.managed_gpus(); }
  bool has_library(const std::string& name, const std::string& function) override {
    bool present = system_.has_library(name, function);
    if (present) machine_.libraries.push_back(with(name, function));
    return present;
  }
  bool may_open(const std::string& path) override {
    bool may = system_.may_open(path);
    if (!may) machine_.forbidden.push_back(path);
    return may;
  }

 private:
  static std::optional<std::string> kept(TextMap& answers, const std::string& path, std::optional<std::string> answer) {
    if (answer) answers[path] = *answer;
    return answer;
  }

  SystemView& system_;
  Machine& machine_;
};

class RecordedSystem final : public SystemView {
 public:
  explicit RecordedSystem(const Machine& machine) : machine_(machine) {}

  std::optional<std::string> read_file(const std::string& path) override { return found(machine_.files, path); }
  std::optional<std::string> read_link(const std::string& path) override { return found(machine_.links, path); }
  std::vector<std::string> list_folder(const std::string& path) override {
    std::string below = path + "/";
    std::vector<std::string> names;
    for (auto file = machine_.files.lower_bound(below); file != machine_.files.end(); ++file) {
      if (!file->first.starts_with(below)) break;
      std::string name = file->first.substr(below.size(), file->first.find('/', below.size()) - below.size());
      if (names.empty() || names.back() != name) names.push_back(std::move(name));
    }
    return names;
  }
  std::vector<std::string> cgroup_mounts() override { return machine_.cgroup_mounts; }
  Result<HwlocTopology> hwloc() override {
    if (machine_.hwloc_xml.empty()) return load_hwloc_synthetic(machine_.hwloc_synthetic);
    return load_hwloc_xml(fmt::format("{}\n", fmt::join(machine_.hwloc_xml, "\n")));
  }
  Result<std::vector<Interface>> interfaces() override { return machine_.interfaces; }
  Result<ProcessFacts> process() override { return machine_.process; }
  uint64_t filesystem_bytes(const std::string& path) override {
    auto found = machine_.filesystems.find(path);
    return found == machine_.filesystems.end() ? 0 : found->second;
  }
  std::vector<ManagedGpu> managed_gpus() override { return machine_.gpus; }
  bool has_library(const std::string& name, const std::string& function) override {
    const auto& known = machine_.libraries;
    return std::find(known.begin(), known.end(), with(name, function)) != known.end();
  }
  bool may_open(const std::string& path) override {
    return std::find(machine_.forbidden.begin(), machine_.forbidden.end(), path) == machine_.forbidden.end();
  }

 private:
  static std::optional<std::string> found(const TextMap& answers, const std::string& path) {
    auto answer = answers.find(path);
    return answer == answers.end() ? std::nullopt : std::optional(answer->second);
  }

  const Machine& machine_;
};

}  // namespace

Result<Machine> record(SystemView& system, const Costs& costs) {
  Machine machine;
  machine.costs = costs;
  Recorder recorder(system, machine);
  TUTTI_TRY(discover(recorder));
  TUTTI_TRY(diagnose(recorder));
  return machine;
}

Result<Diagnosis> diagnose(const Machine& machine) {
  RecordedSystem system(machine);
  return diagnose(system);
}

Result<Inventory> discover(const Machine& machine) {
  RecordedSystem system(machine);
  Inventory inventory = TUTTI_TRY(discover(system));
  inventory.costs = machine.costs;
  return inventory;
}

}  // namespace tutti
