#include "discovery/machine.h"
#include "topology/describe.h"
#include "topology/json_document.h"
#include "topology/json_reader.h"

namespace tutti {
namespace {
constexpr std::string_view kFormat = "tutti.machine";
constexpr int kVersion = 1;
}  // namespace

template <typename V, Is<ProcessFacts> T>
void describe(V& v, T& process) {
  v.text("hostname", process.hostname);
  v.text("kernel", process.kernel);
  v.text("architecture", process.architecture);
  v.cpus("allowed_cpus", process.allowed_cpus);
  v.limit("memlock_bytes", process.memlock_bytes);
  v.limit("open_files", process.open_files);
}

template <typename V, Is<Interface> T>
void describe(V& v, T& interface) {
  v.text("name", interface.name);
  v.number("index", interface.index, 0, std::numeric_limits<int>::max());
  v.flag("up", interface.up);
  v.flag("loopback", interface.loopback);
  v.number("mtu", interface.mtu, 0, std::numeric_limits<uint32_t>::max());
  v.texts("addresses", interface.addresses);
}

template <typename V, Is<ManagedLink> T>
void describe(V& v, T& link) {
  v.text("peer", link.peer);
  v.flag("to_switch", link.to_switch);
}

template <typename V, Is<ManagedGpu> T>
void describe(V& v, T& gpu) {
  v.text("pci_address", gpu.pci_address);
  v.number("compute_capability", gpu.compute_capability, 0, 10'000);
  v.number("memory_bytes", gpu.memory_bytes, 0, std::numeric_limits<int64_t>::max());
  v.list("nvlinks", gpu.nvlinks);
}

template <typename V, Is<Machine> T>
void describe(V& v, T& machine) {
  v.object("process", machine.process);
  v.text("hwloc_synthetic", machine.hwloc_synthetic);
  v.texts("hwloc_xml", machine.hwloc_xml);
  v.list("interfaces", machine.interfaces);
  v.text_map("files", machine.files);
  v.text_map("links", machine.links);
  v.texts("cgroup_mounts", machine.cgroup_mounts);
  v.number_map("filesystems", machine.filesystems);
  v.list("gpus", machine.gpus);
  v.texts("libraries", machine.libraries);
  if (may_have<V>(!machine.forbidden.empty())) v.texts("forbidden", machine.forbidden);
  v.object("costs", machine.costs);
}

std::string to_json(const Machine& machine) { return write_document(machine, kFormat, kVersion); }

Result<Machine> parse_machine(std::string_view json) { return read_document<Machine>(json, kFormat, kVersion); }

}  // namespace tutti
