// What stands in the way of RDMA on this host, by what sysfs, device files and the limits say.
#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "discovery/diagnose.h"
#include "discovery/facts.h"

namespace tutti {
namespace {

using Level = Finding::Level;

constexpr std::string_view kDevices = "/sys/class/infiniband";
constexpr uint64_t kLeastLockable = 64 << 20;  // a few ranks' arenas
constexpr uint32_t kLargestPacket = 4096;
constexpr uint32_t kPacketHeads = 96;          // as the kernel reckons for RoCE
constexpr int kLockCapability = 14;            // CAP_IPC_LOCK

std::string first_line(SystemView& system, const std::string& path) {
  std::string text = system.read_file(path).value_or("");
  return text.substr(0, text.find('\n'));
}

struct Port {
  std::string name;       // "mlx5_0 port 1"
  std::string folder;
  std::string state;      // "ACTIVE"
  std::string interface;  // "" for InfiniBand without IP
  bool is_ethernet = false;
  std::vector<std::string> gid_types;
  bool has_address = false;  // a GID that is not link-local
  bool is_up() const { return state == "ACTIVE"; }
};

bool is_zero(std::string_view gid) { return gid.find_first_not_of("0:") == std::string_view::npos; }
bool is_link_local(std::string_view gid) { return gid.starts_with("fe80:"); }

Port look_at(SystemView& system, const std::string& device, const std::string& number) {
  Port port{.name = fmt::format("{} port {}", device, number),
            .folder = fmt::format("{}/{}/ports/{}", kDevices, device, number)};
  std::string state = first_line(system, port.folder + "/state");  // "4: ACTIVE"
  port.state = state.substr(std::min(state.size(), state.find(": ") + 2));
  port.is_ethernet = first_line(system, port.folder + "/link_layer") == "Ethernet";
  for (const std::string& index : system.list_folder(port.folder + "/gids")) {
    std::string gid = first_line(system, port.folder + "/gids/" + index);
    std::string type = first_line(system, port.folder + "/gid_attrs/types/" + index);
    if (gid.empty() || is_zero(gid) || type.empty()) continue;
    port.gid_types.push_back(type);
    port.has_address = port.has_address || (type == "RoCE v2" && !is_link_local(gid));
  }
  for (const std::string& index : system.list_folder(port.folder + "/gid_attrs/ndevs")) {
    if (port.interface.empty()) port.interface = first_line(system, port.folder + "/gid_attrs/ndevs/" + index);
  }
  return port;
}

std::vector<Port> ports_of(SystemView& system, const std::vector<std::string>& devices) {
  std::vector<Port> ports;
  for (const std::string& device : devices) {
    for (const std::string& number : system.list_folder(fmt::format("{}/{}/ports", kDevices, device))) {
      ports.push_back(look_at(system, device, number));
    }
  }
  return ports;
}

// Which module gives an adapter RDMA, by the driver that it has as a network interface, or by vendor where it has none.
struct RdmaModule {
  std::string_view driver;
  std::string_view vendor;
  std::string_view module;
  bool always;  // every such adapter has RDMA; else some have
};
constexpr RdmaModule kModules[] = {{"mlx5_core", "0x15b3", "mlx5_ib", true},
                                   {"mlx4_core", "", "mlx4_ib", true},
                                   {"bnxt_en", "", "bnxt_re", true},
                                   {"ice", "", "irdma", true},
                                   {"i40e", "", "irdma", false},
                                   {"qede", "", "qedr", true},
                                   {"cxgb4", "", "iw_cxgb4", true},
                                   {"hns3", "", "hns-roce-hw-v2", false},
                                   {"ionic", "", "ionic_rdma", true},
                                   {"mana", "", "mana_ib", false}};

const RdmaModule* module_for(SystemView& system, const std::string& folder) {
  std::string driver = system.read_link(folder + "/driver").value_or("");
  driver = driver.substr(driver.rfind('/') + 1);
  std::string vendor = driver.empty() ? first_line(system, folder + "/vendor") : "";
  auto found = std::find_if(std::begin(kModules), std::end(kModules), [&](const RdmaModule& each) {
    return driver.empty() ? each.vendor == vendor && !vendor.empty() : each.driver == driver;
  });
  return found == std::end(kModules) ? nullptr : found;
}

// Adapters that have RDMA, where the driver for it is missing.
void look_for_missing_drivers(SystemView& system, std::vector<Finding>& findings) {
  constexpr std::string_view kFolder = "/sys/bus/pci/devices";
  std::set<std::string_view> missing;
  for (const std::string& address : system.list_folder(std::string(kFolder))) {
    std::string folder = fmt::format("{}/{}", kFolder, address);
    if (!first_line(system, folder + "/class").starts_with("0x02")) continue;
    const RdmaModule* module = module_for(system, folder);
    if (module == nullptr || !missing.insert(module->module).second) continue;
    findings.push_back({module->always ? Level::kProblem : Level::kNote, "kernel modules",
                        fmt::format("the adapter at {} {} RDMA, and the kernel shows no device of it", address,
                                    module->always ? "has" : "may have"),
                        fmt::format("load its driver: modprobe {}", module->module)});
  }
  if (!missing.empty()) return;
  findings.push_back({Level::kNote, "devices", "there is no RDMA device, so ranks of other hosts are reached over TCP",
                      "an Ethernet interface can stand in for tests: rdma link add rxe0 type rxe netdev eth0"});
}

// Programs reach a device by a file, for which udev's rules give everybody the right.
void look_at_permissions(SystemView& system, std::string_view folder, const std::vector<std::string>& entries,
                         std::vector<Finding>& findings) {
  for (const std::string& entry : entries) {
    std::string device = first_line(system, fmt::format("{}/{}/ibdev", folder, entry));
    std::string file = "/dev/infiniband/" + entry;
    if (device.empty() || system.may_open(file)) continue;
    findings.push_back({Level::kProblem, "device files",
                        fmt::format("this process may not open {}, by which {} is reached", file, device),
                        fmt::format("chmod 666 {}, as rdma-core's udev rules do at boot; a container: docker run "
                                    "--device={}", file, file)});
  }
}

void look_at_software(SystemView& system, std::vector<Finding>& findings) {
  if (!system.has_library("libibverbs.so.1")) {
    findings.push_back({Level::kProblem, "library", "libibverbs.so.1 is not installed",
                        "install rdma-core (Debian: libibverbs1 ibverbs-providers; Fedora: libibverbs)"});
  }
  constexpr const char* kFolder = "/sys/class/infiniband_verbs";
  std::vector<std::string> seen = system.list_folder(kFolder);
  bool any = std::any_of(seen.begin(), seen.end(), [&](const std::string& entry) {
    return !first_line(system, fmt::format("{}/{}/ibdev", kFolder, entry)).empty();
  });
  if (!any) {
    findings.push_back({Level::kProblem, "kernel modules", "the module that gives programs access to RDMA is missing",
                        "modprobe ib_uverbs"});
  } else if (system.list_folder("/dev/infiniband").empty() && system.filesystem_bytes("/dev/infiniband") == 0) {
    findings.push_back({Level::kProblem, "device files", "/dev/infiniband is not there, though the kernel has devices",
                        "give the container its devices: docker run --device=/dev/infiniband"});
  } else {
    look_at_permissions(system, kFolder, seen, findings);
  }
}

void look_at_port(const Port& port, std::vector<Finding>& findings) {
  if (!port.is_up()) {
    bool is_starting = port.state == "INIT" || port.state == "ARMED";
    std::string remedy = is_starting && !port.is_ethernet
                             ? "start a subnet manager in its network (opensm, or the switch's own)"
                         : port.interface.empty() ? "check cable and switch, then ibstat"
                                                  : fmt::format("check the cable, then ip link set {} up",
                                                                port.interface);
    findings.push_back({Level::kProblem, "ports", fmt::format("{} is not up ({})", port.name,
                        port.state.empty() ? "unknown" : port.state), std::move(remedy)});
    return;
  }
  if (!port.is_ethernet) return;
  std::string interface = port.interface.empty() ? "its interface" : port.interface;
  if (port.gid_types.empty()) {
    findings.push_back({Level::kProblem, "addresses", fmt::format("{} has no GID, so nothing can reach it", port.name),
                        fmt::format("give {} an IP address: ip addr add ... dev {}", interface, interface)});
  } else if (!port.has_address) {
    bool is_v2 = std::find(port.gid_types.begin(), port.gid_types.end(), "RoCE v2") != port.gid_types.end();
    findings.push_back({Level::kNote, "addresses", fmt::format("{} has {} GIDs only, which no router passes on",
                        port.name, is_v2 ? "link-local" : "RoCE v1"),
                        fmt::format("give {} an IP address, if hosts of other subnets are to be reached", interface)});
  }
}

uint32_t packet_for(uint32_t mtu) {
  for (uint32_t packet = kLargestPacket; packet > 256; packet /= 2) {
    if (mtu >= packet + kPacketHeads) return packet;
  }
  return 256;
}

void look_at_mtus(SystemView& system, const std::vector<Port>& ports, std::vector<Finding>& findings) {
  std::set<std::string> seen;
  std::string first;
  uint32_t first_mtu = 0;
  for (const Port& port : ports) {
    if (!port.is_up() || !port.is_ethernet || port.interface.empty() || !seen.insert(port.interface).second) continue;
    auto mtu = static_cast<uint32_t>(
        std::max<int64_t>(0, read_number(system, fmt::format("/sys/class/net/{}/mtu", port.interface)).value_or(0)));
    if (mtu == 0) continue;
    if (first_mtu != 0 && packet_for(mtu) != packet_for(first_mtu)) {
      findings.push_back({Level::kProblem, "MTU", fmt::format("{} has MTU {} and {} has {}: what goes between the two "
                          "uses the smaller", first, first_mtu, port.interface, mtu),
                          "give both one MTU, as well as the switches between them"});
    }
    if (first_mtu == 0) first = port.interface;
    if (first_mtu == 0) first_mtu = mtu;
    if (packet_for(mtu) == kLargestPacket) continue;
    findings.push_back({Level::kNote, "MTU", fmt::format("packets of RDMA on {} have {} bytes, since its MTU is {}",
                        port.interface, packet_for(mtu), mtu),
                        fmt::format("ip link set {} mtu 9000, on all hosts and switches alike, makes them {}",
                                    port.interface, kLargestPacket)});
  }
}

bool may_lock_any(SystemView& system) {
  std::string status = system.read_file("/proc/self/status").value_or("");
  constexpr std::string_view kName = "CapEff:\t";
  size_t at = status.find(kName);
  if (at == std::string::npos) return false;
  uint64_t capabilities = 0;
  const char* first = status.data() + at + kName.size();
  std::from_chars(first, status.data() + status.size(), capabilities, 16);
  return (capabilities >> kLockCapability & 1) != 0;
}

void look_at_limits(SystemView& system, const ProcessFacts& process, std::vector<Finding>& findings) {
  if (process.memlock_bytes >= kLeastLockable || may_lock_any(system)) return;
  findings.push_back({Level::kProblem, "locked memory", fmt::format("this process may lock {} KiB, and RDMA locks some "
                      "megabytes for each peer", process.memlock_bytes / 1024),
                      "ulimit -l unlimited (limits.conf: memlock; systemd: LimitMEMLOCK=infinity; containers: "
                      "--ulimit memlock=-1)"});
}

bool is_translated(SystemView& system, const std::string& address) {
  return first_line(system, fmt::format("/sys/bus/pci/devices/{}/iommu_group/type", address)).starts_with("DMA");
}

// Access control services of a bridge send what devices write to each other up to the processors. Its extended
// capability is in the part of the configuration that only root reads; unknown counts as off.
bool redirects(SystemView& system, const std::string& address) {
  std::string config = system.read_file(fmt::format("/sys/bus/pci/devices/{}/config", address)).value_or("");
  auto word = [&](size_t at) -> uint32_t {
    uint32_t value = 0;
    for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(at + i < config.size() ? config[at + i] : 0);
    return value;
  };
  constexpr uint32_t kAccessControl = 0x0d, kRedirect = 1 << 2;
  size_t at = 0x100;
  for (int hops = 0; at >= 0x100 && at < config.size() && hops < 64; ++hops) {
    uint32_t head = word(at);
    if ((head & 0xffff) == kAccessControl) return (word(at + 4) >> 16 & kRedirect) != 0;
    at = head >> 20;
  }
  return false;
}

void look_at_pci(SystemView& system, const std::string& device, bool has_gpus, std::vector<Finding>& findings) {
  auto path = pci_path_on(system, system.read_link(fmt::format("{}/{}", kDevices, device)).value_or(""));
  if (path.empty()) return;
  if (is_translated(system, path.front().address)) {
    findings.push_back({Level::kNote, "IOMMU", fmt::format("the IOMMU translates every address that {} uses", device),
                        "iommu=pt on the kernel's command line takes it out of the way"});
  }
  if (!has_gpus) return;
  for (size_t i = 1; i < path.size(); ++i) {
    if (!redirects(system, path[i].address)) continue;
    findings.push_back({Level::kNote, "ACS", fmt::format("the PCIe bridge {} sends what {} and GPUs exchange through "
                        "the processors", path[i].address, device),
                        fmt::format("turn ACS off there: setpci -s {} ECAP_ACS+6.w=0", path[i].address)});
    return;
  }
}

// "5.14.0-427.el9" is not older than {5, 12}. What does not look like a version is not old.
bool is_older(std::string_view version, std::array<int, 2> least) {
  std::array<int, 2> numbers{};
  const char* at = version.data();
  const char* end = at + version.size();
  for (int& number : numbers) {
    auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc()) return false;
    at = parsed.ptr == end ? end : parsed.ptr + 1;
  }
  return numbers < least;
}

// What keeps RDMA devices from memory of GPUs (dmabuf): the GPUs' driver, the kernel, the library or the devices.
void look_at_gpus(SystemView& system, const ProcessFacts& process, const std::vector<std::string>& devices,
                  std::vector<Finding>& findings) {
  constexpr std::string_view kStaged = "so data of GPUs goes to other hosts through the memory of this one";
  auto find = [&](std::string_view why, std::string_view remedy) {
    findings.push_back({Level::kNote, "GPU memory", fmt::format("{}, {}", why, kStaged), std::string(remedy)});
  };
  std::string driver = first_line(system, "/proc/driver/nvidia/version");
  if (!driver.empty() && driver.find("Open Kernel Module") == std::string::npos) {
    find("the kernel modules of NVIDIA's driver are not the open ones, which alone have dmabuf",
         "install the open ones (nvidia-open, version 515 or newer; GPUs since Turing); tutti does not use "
         "nvidia_peermem, which takes their place for other libraries");
  }
  if (is_older(process.kernel, {5, 12})) {
    find(fmt::format("the kernel ({}) is older than 5.12 and has no dmabuf for RDMA", process.kernel),
         "Linux 5.12 or newer");
  }
  constexpr const char* kLibrary = "libibverbs.so.1";
  if (system.has_library(kLibrary) && !system.has_library(kLibrary, "ibv_reg_dmabuf_mr")) {
    find("libibverbs.so.1 has no ibv_reg_dmabuf_mr", "install rdma-core 34 or newer");
  }
  bool are_software = std::all_of(devices.begin(), devices.end(), [&](const std::string& device) {
    return system.read_link(fmt::format("{}/{}", kDevices, device)).value_or("").find("/virtual/") != std::string::npos;
  });
  if (are_software) {
    find("software devices of RDMA reach the memory of the host alone", "none; an adapter is needed");
  }
}

}  // namespace

std::vector<Finding> diagnose_rdma(SystemView& system, const ProcessFacts& process) {
  std::vector<Finding> findings;
  std::vector<std::string> devices = system.list_folder(std::string(kDevices));
  if (devices.empty()) {
    look_for_missing_drivers(system, findings);
    return findings;
  }
  look_at_software(system, findings);
  look_at_limits(system, process, findings);
  std::vector<Port> ports = ports_of(system, devices);
  for (const Port& port : ports) look_at_port(port, findings);
  look_at_mtus(system, ports, findings);
  bool has_gpus = !discover_gpus(system).empty();
  for (const std::string& device : devices) look_at_pci(system, device, has_gpus, findings);
  if (has_gpus) look_at_gpus(system, process, devices, findings);
  return findings;
}

}  // namespace tutti
