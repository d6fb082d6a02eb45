// The PCIe paths of discovery against hwloc's, on machines whose /sys is written for the test.
#include <hwloc.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "discovery/facts.h"
#include "discovery/hwloc_load.h"
#include "tests/discovery/scratch.h"

using namespace tutti;

namespace {

// A PCI function as sysfs shows it. `bus`: of a bridge, the bus below it and the last one below that.
struct Function {
  std::string address;
  std::string above;  // its parent's path below /sys/devices
  unsigned device_class = 0;
  int bus = -1, last_bus = -1;
  std::string speed;
  int lanes = 0;
  std::string path() const { return above + "/" + address; }
};

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

// The first 64 bytes that hwloc looks at, of type 0 (device) or 1 (bridge).
std::string config_space(const Function& function) {
  std::string bytes(256, '\0');
  bytes[0x00] = '\xde', bytes[0x01] = '\x10', bytes[0x02] = 1;
  bytes[0x0a] = static_cast<char>(function.device_class & 0xff);
  bytes[0x0b] = static_cast<char>(function.device_class >> 8);
  if (function.bus < 0) return bytes;
  bytes[0x0e] = 1;
  bytes[0x18] = static_cast<char>(std::stoi(function.address.substr(5, 2), nullptr, 16));
  bytes[0x19] = static_cast<char>(function.bus);
  bytes[0x1a] = static_cast<char>(function.last_bus);
  return bytes;
}

// Two GPUs behind one switch, one behind a switch behind a switch, one at a root port of another root complex.
const std::vector<Function> kFunctions = {
    {"0000:16:01.0", "pci0000:16", 0x0604, 0x17, 0x1f, "32.0 GT/s PCIe", 16},
    {"0000:17:00.0", "pci0000:16/0000:16:01.0", 0x0604, 0x18, 0x1f, "32.0 GT/s PCIe", 16},
    {"0000:18:00.0", "pci0000:16/0000:16:01.0/0000:17:00.0", 0x0604, 0x19, 0x19, "32.0 GT/s PCIe", 16},
    {"0000:19:00.0", "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0", 0x0302, -1, -1, "32.0 GT/s PCIe", 16},
    {"0000:18:01.0", "pci0000:16/0000:16:01.0/0000:17:00.0", 0x0604, 0x1a, 0x1a, "16.0 GT/s PCIe", 8},
    {"0000:1a:00.0", "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0", 0x0302, -1, -1, "32.0 GT/s PCIe", 8},
    {"0000:18:02.0", "pci0000:16/0000:16:01.0/0000:17:00.0", 0x0604, 0x1b, 0x1e, "16.0 GT/s PCIe", 16},
    {"0000:1b:00.0", "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:02.0", 0x0604, 0x1c, 0x1e, "16.0 GT/s PCIe", 16},
    {"0000:1c:04.0", "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:02.0/0000:1b:00.0", 0x0604, 0x1d, 0x1d,
     "8.0 GT/s PCIe", 4},
    {"0000:1d:00.0", "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:02.0/0000:1b:00.0/0000:1c:04.0", 0x0302, -1, -1,
     "8.0 GT/s PCIe", 4},
    {"0000:80:03.0", "pci0000:80", 0x0604, 0x81, 0x81, "16.0 GT/s PCIe", 16},
    {"0000:81:00.0", "pci0000:80/0000:80:03.0", 0x0302, -1, -1, "16.0 GT/s PCIe", 16},
};

// Answers from the folder that hwloc reads too.
class SystemBelow final : public SystemView {
 public:
  explicit SystemBelow(std::string root) : root_(std::move(root)) {}
  std::optional<std::string> read_file(const std::string& path) override {
    std::ifstream stream(root_ + path, std::ios::binary);
    if (!stream) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  std::optional<std::string> read_link(const std::string& path) override {
    std::error_code failure;
    std::string target = std::filesystem::read_symlink(root_ + path, failure).string();
    return failure ? std::nullopt : std::optional(target);
  }
  std::vector<std::string> list_folder(const std::string&) override { return {}; }
  std::vector<std::string> cgroup_mounts() override { return {}; }
  Result<HwlocTopology> hwloc() override { return Status(Code::kSystem, "none"); }
  Result<std::vector<Interface>> interfaces() override { return std::vector<Interface>(); }
  Result<ProcessFacts> process() override { return ProcessFacts(); }
  uint64_t filesystem_bytes(const std::string&) override { return 0; }
  std::vector<ManagedGpu> managed_gpus() override { return {}; }
  bool has_library(const std::string&, const std::string&) override { return false; }
  bool may_open(const std::string&) override { return true; }

 private:
  std::string root_;
};

void write_system(const std::string& root) {
  for (const Function& function : kFunctions) {
    std::filesystem::path folder = root + "/sys/devices/" + function.path();
    write(folder / "class", fmt::format("0x{:04x}00\n", function.device_class));
    write(folder / "vendor", "0x10de\n");
    write(folder / "device", "0x0001\n");
    write(folder / "config", config_space(function));
    write(folder / "local_cpus", "1\n");
    write(folder / "numa_node", "0\n");
    write(folder / "current_link_speed", function.speed + "\n");
    write(folder / "current_link_width", fmt::format("{}\n", function.lanes));
    std::filesystem::create_directories(root + "/sys/bus/pci/devices");
    std::filesystem::create_directory_symlink("../../../devices/" + function.path(),
                                              root + "/sys/bus/pci/devices/" + function.address);
  }
  write(root + "/proc/cpuinfo", "processor\t: 0\n");
  write(root + "/sys/devices/system/cpu/online", "0\n");
  write(root + "/sys/devices/system/cpu/possible", "0\n");
  write(root + "/sys/devices/system/cpu/cpu0/topology/core_cpus", "1\n");
  write(root + "/sys/devices/system/cpu/cpu0/topology/package_cpus", "1\n");
  write(root + "/sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n");
  write(root + "/sys/devices/system/cpu/cpu0/topology/core_id", "0\n");
}

// What hwloc makes of such a /sys, with all of its bridges.
HwlocTopology hwloc_below(const std::string& root) {
  ::setenv("HWLOC_FSROOT", root.c_str(), 1);
  ::setenv("HWLOC_COMPONENTS", "linux,stop", 1);
  ::setenv("HWLOC_THISSYSTEM", "0", 1);
  hwloc_topology_t raw = nullptr;
  REQUIRE(hwloc_topology_init(&raw) == 0);
  HwlocTopology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  int failed = hwloc_topology_load(raw);
  for (const char* name : {"HWLOC_FSROOT", "HWLOC_COMPONENTS", "HWLOC_THISSYSTEM"}) ::unsetenv(name);
  REQUIRE(failed == 0);
  return topology;
}

std::string address_of(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

}  // namespace

TEST_CASE("PCIe paths are those that hwloc finds in the same /sys") {
  Scratch scratch;
  std::string root = scratch.path("root");
  write_system(root);
  SystemBelow system(root);
  HwlocTopology topology = hwloc_below(root);
  int compared = 0;
  for (const Function& function : kFunctions) {
    if (function.bus >= 0) continue;
    CAPTURE(function.address);
    auto path = pci_path_on(system, system.read_link("/sys/bus/pci/devices/" + function.address).value_or(""));
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology.get(), function.address.c_str());
    REQUIRE(device != nullptr);
    std::vector<std::string> ours, theirs = {address_of(device->attr->pcidev)};
    for (const PciHop& hop : path) ours.push_back(hop.address);
    for (hwloc_obj_t up = device->parent; up != nullptr && up->type == HWLOC_OBJ_BRIDGE; up = up->parent) {
      if (up->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI) break;
      theirs.push_back(address_of(up->attr->bridge.upstream.pci));
    }
    CHECK(ours == theirs);
    ++compared;
  }
  CHECK(compared == 4);
}

TEST_CASE("a link runs at what the slower of its ports can, and chips have none within") {
  Scratch scratch;
  std::string root = scratch.path("root");
  write_system(root);
  SystemBelow system(root);
  auto path_of = [&](const std::string& address) {
    return pci_path_on(system, system.read_link("/sys/bus/pci/devices/" + address).value_or(""));
  };
  auto path = path_of("0000:1a:00.0");
  REQUIRE(path.size() == 4);
  CHECK(path[0] == PciHop{"0000:1a:00.0", 4, 8, {14'403'516'482, Origin::kSpec}});  // 32 GT/s below a port of 16 GT/s
  CHECK(path[1] == PciHop{"0000:18:01.0"});
  CHECK(path[2] == PciHop{"0000:17:00.0", 5, 16, {57'614'065'933, Origin::kSpec}});
  CHECK(path[3] == PciHop{"0000:16:01.0"});
  CHECK(path_of("0000:1d:00.0").size() == 6);
  CHECK(path_of("0000:99:00.0").empty());
  // A GPU that saves power: the port can do more than it does now.
  write(root + "/sys/devices/pci0000:80/0000:80:03.0/0000:81:00.0/current_link_speed", "2.5 GT/s PCIe\n");
  write(root + "/sys/devices/pci0000:80/0000:80:03.0/0000:81:00.0/max_link_speed", "16.0 GT/s PCIe\n");
  CHECK(path_of("0000:81:00.0").front().generation == 4);
}

TEST_CASE("every PCI device that hwloc sees here has the path that it says") {
  hwloc_topology_t raw = nullptr;
  REQUIRE(hwloc_topology_init(&raw) == 0);
  HwlocTopology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  REQUIRE(hwloc_topology_load(raw) == 0);
  SystemBelow system("");
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_pcidev(raw, device)) != nullptr;) {
    std::string address = address_of(device->attr->pcidev);
    CAPTURE(address);
    auto path = pci_path_on(system, system.read_link("/sys/bus/pci/devices/" + address).value_or(""));
    if (path.empty()) continue;  // hwloc found it elsewhere
    CHECK(path.front().address == address);
    hwloc_obj_t up = device->parent;
    bool is_below_bridge =
        up->type == HWLOC_OBJ_BRIDGE && up->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
    CHECK(is_below_bridge == path.size() > 1);
    if (is_below_bridge) CHECK(path[1].address == address_of(up->attr->bridge.upstream.pci));
  }
}
