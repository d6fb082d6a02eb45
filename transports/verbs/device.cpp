#include "transports/verbs/device.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/log.h"

namespace tutti {
namespace {

class DeviceList {
 public:
  explicit DeviceList(const VerbsLibrary& library) : library_(library), list_(library.get_device_list(&count_)) {}
  ~DeviceList() {
    if (list_ != nullptr) library_.free_device_list(list_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  std::span<ibv_device*> all() const {
    return list_ == nullptr ? std::span<ibv_device*>() : std::span(list_, static_cast<size_t>(count_));
  }

 private:
  const VerbsLibrary& library_;
  int count_ = 0;
  ibv_device** list_;
};

struct CloseDevice {
  const VerbsLibrary* library;
  void operator()(ibv_context* context) const { library->close_device(context); }
};
using OpenDevice = std::unique_ptr<ibv_context, CloseDevice>;

bool is_zero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

GidType type_of(const ibv_gid_entry& entry) {
  const uint8_t* raw = entry.gid.raw;
  if (entry.gid_type == IBV_GID_TYPE_IB) return GidType::kInfiniband;
  if (entry.gid_type == IBV_GID_TYPE_ROCE_V1) return GidType::kRoceV1;
  if (is_zero(std::span(raw, 10)) && raw[10] == 0xff && raw[11] == 0xff) return GidType::kRoceV2Ipv4;
  return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? GidType::kRoceV2LinkLocal : GidType::kRoceV2Ipv6;
}

std::vector<Gid> gids_of(const VerbsLibrary& library, ibv_context* context, int port, int table_size) {
  std::vector<Gid> gids;
  for (int i = 0; i < table_size; ++i) {
    ibv_gid_entry entry{};
    if (library.query_gid(context, port, i, &entry, 0, sizeof entry) != 0) continue;
    if (is_zero(std::span(entry.gid.raw + 8, 8)) && is_zero(std::span(entry.gid.raw, 8))) continue;
    Gid gid{.index = i, .type = type_of(entry)};
    std::memcpy(gid.bytes.data(), entry.gid.raw, gid.bytes.size());
    gids.push_back(gid);
  }
  return gids;
}

int numa_node_of(const ibv_device* device) {
  int node = -1;
  std::ifstream(fmt::format("{}/device/numa_node", device->ibdev_path)) >> node;
  return node;
}

std::vector<PortFacts> ports_of(const VerbsLibrary& library, ibv_device* device, ibv_context* context) {
  std::vector<PortFacts> ports;
  ibv_device_attr attributes{};
  if (library.query_device(context, &attributes) != 0) return ports;
  for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
    ibv_port_attr port{};
    if (library.query_port(context, static_cast<uint8_t>(number), &port) != 0) continue;
    ports.push_back({.device = library.get_device_name(device),
                     .port = number,
                     .active = port.state == IBV_PORT_ACTIVE,
                     .infiniband = port.link_layer != IBV_LINK_LAYER_ETHERNET,
                     .lid = port.lid,
                     .mtu_bytes = mtu_bytes_of(port.active_mtu),
                     .speed_mbps = speed_mbps_of(port.active_speed, port.active_width),
                     .numa_node = numa_node_of(device),
                     .gids = gids_of(library, context, number, port.gid_tbl_len)});
  }
  return ports;
}

bool is_of_a_limit(int problem) { return problem == ENOMEM || problem == EAGAIN || problem == ENOSPC; }

// Where the kernel has none, the library would find none either; loading it and what it loads takes time and memory.
bool may_have_devices(const VerbsOptions& options) {
  return options.library != VerbsOptions().library || ::access("/sys/class/infiniband_verbs", F_OK) == 0;
}

Result<std::vector<PortFacts>> all_ports(const VerbsOptions& options) {
  VerbsLibrary library = TUTTI_TRY(VerbsLibrary::open(options.library));
  DeviceList list(library);
  std::vector<PortFacts> ports;
  for (ibv_device* each : list.all()) {
    OpenDevice device(library.open_device(each), CloseDevice{&library});
    if (!device) {
      log_info("cannot open the RDMA device {}: {}", library.get_device_name(each), std::strerror(errno));
      continue;
    }
    for (PortFacts& port : ports_of(library, each, device.get())) ports.push_back(std::move(port));
  }
  return ports;
}

}  // namespace

Result<std::vector<PortFacts>> VerbsDevice::find(const VerbsOptions& options) {
  std::vector<PortFacts> ports;
  if (may_have_devices(options)) ports = TUTTI_TRY(all_ports(options));
  std::vector<PortFacts> chosen;
  for (size_t i : TUTTI_TRY(choose_ports(ports, options.device))) chosen.push_back(ports[i]);
  return chosen;
}

Result<std::unique_ptr<VerbsDevice>> VerbsDevice::open(const VerbsOptions& options, const PortFacts& port) {
  VerbsLibrary library = TUTTI_TRY(VerbsLibrary::open(options.library));
  DeviceList list(library);
  std::unique_ptr<VerbsDevice> result(new VerbsDevice(library, options));
  result->port_ = port;
  for (ibv_device* each : list.all()) {
    if (result->context_ != nullptr || port.device != library.get_device_name(each)) continue;
    result->context_ = library.open_device(each);
    if (result->context_ == nullptr) return system_error(errno, fmt::format("cannot open {}", port.device));
  }
  if (result->context_ == nullptr) return error(Code::kSystem, "the RDMA device {} is gone", port.device);
  result->domain_ = library.alloc_pd(result->context_);
  if (result->domain_ == nullptr) return system_error(errno, "cannot make a protection domain");
  return result;
}

VerbsDevice::~VerbsDevice() {
  if (domain_ != nullptr) library_.dealloc_pd(domain_);
  if (context_ != nullptr) library_.close_device(context_);
}

Result<Registration> Registration::create(const VerbsDevice& device, std::span<std::byte> memory, By by,
                                          bool* is_full) {
  // What a device writes is looked at only after a completion, so the memory controller may order it as it likes;
  // libibverbs leaves that flag out where the kernel does not know it.
  unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  if (by == By::kPeers) access |= IBV_ACCESS_REMOTE_WRITE;
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  Registration result;
  result.device_ = &device;
  result.region_ = device.library().reg_mr(device.domain(), memory.data(), memory.size(), address, access);
  int problem = errno;
  bool is_limit = result.region_ == nullptr && is_of_a_limit(problem);
  if (is_full != nullptr) *is_full = is_limit;
  if (result.region_ != nullptr) return result;
  std::string_view hint = is_limit ? "; is the limit of locked memory (ulimit -l) too low?" : "";
  return system_error(problem, fmt::format("cannot register {} bytes of memory with {}{}", memory.size(),
                                           device.port().device, hint));
}

// What a device writes to another one is not relaxed: that the GPU sees it in time hangs on the order of writes.
Result<Registration> Registration::create(const VerbsDevice& device, const DeviceMemory& memory) {
  const VerbsLibrary& library = device.library();
  if (library.reg_dmabuf_mr == nullptr) {
    return error(Code::kSystem, "{} has no ibv_reg_dmabuf_mr: version 34 of rdma-core or newer is needed",
                 device.options().library);
  }
  auto bytes = memory.bytes();
  const DmaBuf& buffer = memory.dma_buf();
  Registration result;
  result.device_ = &device;
  result.region_ = library.reg_dmabuf_mr(device.domain(), buffer.offset, bytes.size(),
                                         reinterpret_cast<uintptr_t>(bytes.data()), buffer.fd.get(),
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (result.region_ != nullptr) return result;
  return system_error(errno, fmt::format("cannot register GPU memory with {}", device.port().device));
}

Registration& Registration::operator=(Registration&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(region_, other.region_);
  return *this;
}

Registration::~Registration() {
  if (region_ != nullptr) device_->library().dereg_mr(region_);
}

}  // namespace tutti
