#include "topology/nccl_xml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "topology/cpu_list.h"
#include "topology/pci.h"
#include "topology/wires.h"
#include "topology/xml_element.h"

namespace tutti {
namespace {

constexpr std::string_view kVersion = "1";

template <typename... Args>
Status refused(const XmlElement& element, fmt::format_string<Args...> text, Args&&... args) {
  return error(Code::kInvalidArgument, "line {}: <{}> {}", element.line, element.name,
               fmt::format(text, std::forward<Args>(args)...));
}

// As it is repeated in an error.
std::string quoted(std::string_view text) {
  constexpr size_t kLongest = 40;
  return fmt::format("\"{}\"", text.size() <= kLongest ? text : text.substr(0, kLongest));
}

// "0x1234" or "1234".
template <typename T>
std::optional<T> parsed_number(std::string_view text) {
  bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  T number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number, is_hex ? 16 : 10);
  bool is_whole = failure == std::errc() && end == text.data() + text.size() && !text.empty();
  return is_whole ? std::optional(number) : std::nullopt;
}

Result<int> number(const XmlElement& element, std::string_view key, int least, int most) {
  const std::string* text = element.attribute(key);
  if (text == nullptr) return refused(element, "needs the attribute {}", key);
  auto parsed = parsed_number<int>(*text);
  if (parsed && *parsed >= least && *parsed <= most) return *parsed;
  return refused(element, "{} must be a whole number from {} to {}, but is {}", key, least, most, quoted(*text));
}

Result<int> number_or(const XmlElement& element, std::string_view key, int least, int most, int otherwise) {
  if (element.attribute(key) == nullptr) return otherwise;
  return number(element, key, least, most);
}

Result<std::string> pci_address(const XmlElement& element, std::string_view key) {
  const std::string* text = element.attribute(key);
  if (text == nullptr) return refused(element, "needs the attribute {}", key);
  std::string address = *text;
  for (char& c : address) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  if (is_pci_address(address)) return address;
  return refused(element, "{} must be a PCI address such as \"0000:18:00.0\", but is {}", key, quoted(*text));
}

// The kernel's notation of a mask: groups of 32 bits, the highest first. nullopt: it is none.
std::optional<std::vector<int>> parse_cpu_mask(std::string_view mask) {
  constexpr int kGroupBits = 32;
  std::vector<int> cpus;
  for (int base = 0; base < kMaxCpus; base += kGroupBits) {
    size_t comma = mask.rfind(',');
    std::string_view group = comma == std::string_view::npos ? mask : mask.substr(comma + 1);
    uint32_t bits = 0;
    auto [end, failure] = std::from_chars(group.data(), group.data() + group.size(), bits, 16);
    if (failure != std::errc() || end != group.data() + group.size()) return std::nullopt;
    for (int bit = 0; bit < kGroupBits; ++bit) {
      if ((bits >> bit & 1) != 0 && base + bit < kMaxCpus) cpus.push_back(base + bit);
    }
    if (comma == std::string_view::npos) return cpus;
    mask = mask.substr(0, comma);
  }
  return std::nullopt;
}

struct NumberedGpu {
  int device = 0;
  Gpu gpu;
};

class Reader {
 public:
  Status read_system(const XmlElement& system);
  Inventory take();

 private:
  // Where in the tree a device is.
  struct Place {
    int numa_node = -1;
    std::vector<PciHop> path;  // from the innermost <pci> up; empty: right below a <cpu>
  };

  Status read_cpu(const XmlElement& cpu);
  Status read_pci(const XmlElement& pci, const Place& above);
  Status read_gpu(const XmlElement& gpu, const XmlElement& pci, const Place& place);
  Status read_nvlink(const XmlElement& nvlink, Gpu& gpu);
  Status read_nic(const XmlElement& nic, const Place& place);
  Status read_net(const XmlElement& net, const Place& place);

  Inventory host_;
  std::vector<NumberedGpu> gpus_;
  std::string host_hash_;
};

// An element that means something in another place, or nothing to this version.
Status check_stranger(const XmlElement& stranger, const XmlElement& parent) {
  struct Rule {
    std::string_view child, parents;
  };
  constexpr std::array<Rule, 7> kRules = {{{"system", "nothing else"},
                                           {"cpu", "<system>"},
                                           {"pci", "<cpu> or <pci>"},
                                           {"gpu", "<pci>"},
                                           {"nvlink", "<gpu>"},
                                           {"nic", "<cpu> or <pci>"},
                                           {"net", "<nic>"}}};
  for (const Rule& rule : kRules) {
    if (stranger.name != rule.child) continue;
    return refused(stranger, "must be in {}, but is in <{}>", rule.parents, parent.name);
  }
  return {};
}

Status Reader::read_system(const XmlElement& system) {
  if (system.name != "system") {
    return refused(system, "is no topology of NCCL, whose outermost element is <system>");
  }
  const std::string* version = system.attribute("version");
  if (version == nullptr || *version != kVersion) {
    return refused(system, "must have version \"{}\", {}", kVersion,
                   version == nullptr ? "but has none" : "but has " + quoted(*version));
  }
  for (const XmlElement& child : system.children) {
    TUTTI_TRY(child.name == "cpu" ? read_cpu(child) : check_stranger(child, system));
  }
  if (gpus_.empty()) return refused(system, "has no <gpu>; have NCCL write it where it sees GPUs");
  return {};
}

Status Reader::read_cpu(const XmlElement& cpu) {
  Place place;
  place.numa_node = TUTTI_TRY(number(cpu, "numaid", -1, kMaxCpus));
  if (const std::string* hash = cpu.attribute("host_hash")) {
    if (!host_hash_.empty() && *hash != host_hash_) {
      return refused(cpu, "is of another host than the one before (host_hash); tutti reads files of one host");
    }
    host_hash_ = *hash;
  }
  NumaNode node{.id = std::max(0, place.numa_node)};
  if (const std::string* mask = cpu.attribute("affinity"); mask != nullptr && !mask->empty()) {
    auto cpus = parse_cpu_mask(*mask);
    if (!cpus) {
      return refused(cpu, "affinity must be a mask of CPUs below {} such as \"ffff,ffffffff\", but is {}", kMaxCpus,
                     quoted(*mask));
    }
    node.cpus = std::move(*cpus);
  }
  auto same = std::find_if(host_.numa_nodes.begin(), host_.numa_nodes.end(),
                           [&](const NumaNode& each) { return each.id == node.id; });
  if (same != host_.numa_nodes.end()) return refused(cpu, "has numaid {}, which another one has too", node.id);
  host_.numa_nodes.push_back(std::move(node));
  const std::string* architecture = cpu.attribute("arch");
  if (architecture != nullptr) host_.cpu.architecture = *architecture == "arm64" ? "aarch64" : *architecture;
  if (const std::string* vendor = cpu.attribute("vendor")) host_.cpu.model = *vendor;
  for (const XmlElement& child : cpu.children) {
    TUTTI_TRY(child.name == "pci"   ? read_pci(child, place)
              : child.name == "nic" ? read_nic(child, place)
                                    : check_stranger(child, cpu));
  }
  return {};
}

Status Reader::read_pci(const XmlElement& pci, const Place& above) {
  PciHop hop;
  hop.address = TUTTI_TRY(pci_address(pci, "busid"));
  if (const std::string* speed = pci.attribute("link_speed")) {
    hop.generation = parse_pcie_generation(*speed);
    if (hop.generation == 0 && !speed->empty() && speed->find("Unknown") == std::string::npos) {
      return refused(pci, "link_speed must be a speed of PCI Express such as \"32.0 GT/s PCIe\", but is {}",
                     quoted(*speed));
    }
  }
  if (const std::string* width = pci.attribute("link_width"); width != nullptr && !width->empty()) {
    int lanes = TUTTI_TRY(number(pci, "link_width", 0, 255));
    hop.lanes = lanes > kMostPcieLanes ? 0 : lanes;  // 255: the port does not tell
  }
  hop.bytes_per_s = pcie_bytes_per_s(hop.generation, hop.lanes);
  Place place{above.numa_node, {std::move(hop)}};
  place.path.insert(place.path.end(), above.path.begin(), above.path.end());
  for (const XmlElement& child : pci.children) {
    TUTTI_TRY(child.name == "pci"   ? read_pci(child, place)
              : child.name == "gpu" ? read_gpu(child, pci, place)
              : child.name == "nic" ? read_nic(child, place)
                                    : check_stranger(child, pci));
  }
  return {};
}

Status Reader::read_gpu(const XmlElement& gpu, const XmlElement& pci, const Place& place) {
  NumberedGpu read;
  read.device = TUTTI_TRY(number(gpu, "dev", 0, INT32_MAX));
  read.gpu.compute_capability = TUTTI_TRY(number(gpu, "sm", 10, 10'000));
  const std::string* device = pci.attribute("device");
  read.gpu.model = device == nullptr ? "GPU" : fmt::format("GPU, PCI device {}", *device);
  read.gpu.pci_address = place.path.front().address;
  read.gpu.numa_node = place.numa_node;
  read.gpu.memory_bytes_per_s = gpu_memory_bytes_per_s(read.gpu.compute_capability);
  read.gpu.pci_path = place.path;
  for (const XmlElement& child : gpu.children) {
    TUTTI_TRY(child.name == "nvlink" ? read_nvlink(child, read.gpu) : check_stranger(child, gpu));
  }
  gpus_.push_back(std::move(read));
  return {};
}

Status Reader::read_nvlink(const XmlElement& nvlink, Gpu& gpu) {
  constexpr int kClassOfGpus = 0x03, kSwitch = 0x068000;
  constexpr Figure kUnknown = {20'000'000'000, Origin::kDefault};
  NvLink link;
  link.peer = TUTTI_TRY(pci_address(nvlink, "target"));
  link.links = TUTTI_TRY(number(nvlink, "count", 1, kMostNvLinks));
  int target_class = TUTTI_TRY(number(nvlink, "tclass", 0, 0xffffff));
  link.to_switch = target_class == kSwitch;
  link.bytes_per_s = nvlink_bytes_per_s(gpu.compute_capability);
  if (link.bytes_per_s.value == 0) link.bytes_per_s = kUnknown;
  // Others lead to processors.
  if (link.to_switch || target_class >> 16 == kClassOfGpus) gpu.nvlinks.push_back(std::move(link));
  return {};
}

Status Reader::read_nic(const XmlElement& nic, const Place& place) {
  for (const XmlElement& child : nic.children) {
    TUTTI_TRY(child.name == "net" ? read_net(child, place) : check_stranger(child, nic));
  }
  return {};
}

Status Reader::read_net(const XmlElement& net, const Place& place) {
  constexpr int kMostMbps = 1'000'000'000;
  const std::string* name = net.attribute("name");
  if (name == nullptr || name->empty()) return refused(net, "needs the attribute name");
  Nic nic;
  nic.name = *name;
  nic.speed_mbps = static_cast<uint64_t>(TUTTI_TRY(number_or(net, "speed", 0, kMostMbps, 0)));
  if (const std::string* guid = net.attribute("guid")) {
    auto parsed = parsed_number<uint64_t>(*guid);
    if (!parsed) return refused(net, "guid must be a number, but is {}", quoted(*guid));
    nic.rdma = *parsed != 0;  // interfaces that are reached by sockets have none
  }
  nic.up = true;
  nic.numa_node = place.numa_node;
  nic.pci_path = place.path;
  if (!place.path.empty()) nic.pci_address = place.path.front().address;
  // One that is on no PCI bus is there below each <cpu>.
  bool is_known = std::any_of(host_.nics.begin(), host_.nics.end(),
                              [&](const Nic& each) { return each.name == nic.name && each.pci_path == nic.pci_path; });
  if (!is_known) host_.nics.push_back(std::move(nic));
  return {};
}

Inventory Reader::take() {
  std::stable_sort(gpus_.begin(), gpus_.end(),
                   [](const NumberedGpu& a, const NumberedGpu& b) { return a.device < b.device; });
  for (NumberedGpu& each : gpus_) host_.gpus.push_back(std::move(each.gpu));
  std::vector<int>& all = host_.cpu.allowed_cpus;
  for (const NumaNode& node : host_.numa_nodes) all.insert(all.end(), node.cpus.begin(), node.cpus.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  host_.cpu.logical_cpus = static_cast<int>(all.size());
  return std::move(host_);
}

}  // namespace

bool looks_like_xml(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '<';
}

Result<Inventory> parse_nccl_xml(std::string_view text) {
  XmlElement document = TUTTI_TRY(parse_xml(text));
  Reader reader;
  TUTTI_TRY(reader.read_system(document));
  return reader.take();
}

}  // namespace tutti
