#include <map>
#include <mutex>

#include "base/log.h"
#include "transports/verbs/link.h"
#include "transports/verbs/verbs.h"

namespace tutti {
namespace {

class VerbsTransport final : public Transport {
 public:
  VerbsTransport(const TransportContext& context, const VerbsOptions& options)
      : shared_{.options = options,
                .meeting = TcpMeeting(Wire::kVerbs, context),
                .rails = {},
                .exports = VerbsExports({.regions = options.regions,
                                         .bytes = options.region_bytes > 0 ? options.region_bytes
                                                                           : default_region_bytes()}),
                .bells = BellRow(context.nranks)} {}

  std::string_view name() const override { return "verbs"; }

  // The ends meet over TCP. Whether devices reach each other too only the pre-flight check can tell.
  std::optional<LinkTraits> reach(const Inventory& self, const Inventory& peer, bool) const override {
    return can_meet(self, peer) ? std::optional(LinkTraits{.places = true}) : std::nullopt;
  }

  Status listen() override {
    const VerbsOptions& options = shared_.options;
    std::vector<Status> left_out;
    for (const PortFacts& port : TUTTI_TRY(VerbsDevice::find(options))) {
      VerbsRail rail{.port = port, .device = nullptr};
      // The others are opened when a Link tries them.
      Status opened = shared_.rails.empty() ? open(rail) : Status();
      if (opened.ok()) shared_.rails.push_back(std::move(rail));
      else left_out.push_back(std::move(opened));
    }
    if (shared_.rails.empty()) return left_out.front();
    for (const Status& why : left_out) log_warn("an RDMA port is left out: {}", why.message());
    return shared_.meeting.listen();
  }
  Blob address() const override { return shared_.meeting.address(); }
  int lanes() const override { return static_cast<int>(shared_.fast_ports()); }
  void place(const HostPlace& own) override {
    std::vector<PortFacts> ports;
    for (const VerbsRail& rail : shared_.rails) ports.push_back(rail.port);
    std::deque<VerbsRail> ordered;
    for (size_t i : order_ports(ports, own)) ordered.push_back(std::move(shared_.rails[i]));
    shared_.rails = std::move(ordered);
  }

  Result<const LocalMemory*> export_memory(std::span<std::byte> memory, int fd,
                                           std::shared_ptr<const void> owner) override {
    std::lock_guard lock(mutex_);
    return add({.id = ++last_id_, .bytes = memory, .fd = fd, .owner = std::move(owner)});
  }
  bool takes_device_memory() const override { return shared_.options.takes_device_memory; }
  const LocalMemory* export_device_memory(const DeviceMemory& memory) override {
    std::lock_guard lock(mutex_);
    return add({.id = kFirstDeviceId + device_ids_++, .bytes = memory.bytes(), .device = &memory});
  }
  void release(const LocalMemory* memory) override {
    std::lock_guard lock(mutex_);
    uint32_t id = memory->id;
    shared_.exports.remove(id);
    exported_.erase(id);
  }
  Status use(const LocalMemory* memory) override { return shared_.exports.use(memory->id); }
  void hold(const LocalMemory* memory) override { shared_.exports.hold(memory->id); }
  void let_go(const LocalMemory* memory) override { shared_.exports.let_go(memory->id); }
  std::unique_ptr<Link> open(int peer) override { return std::make_unique<VerbsLink>(shared_, peer); }

 private:
  Status open(VerbsRail& rail) const {
    rail.device = TUTTI_TRY(VerbsDevice::open(shared_.options, rail.port));
    return rail.device->address().status();
  }

  // With mutex_.
  const LocalMemory* add(const LocalMemory& memory) {
    auto added = std::make_unique<LocalMemory>(memory);
    shared_.exports.add(*added);
    return exported_.emplace(memory.id, std::move(added)).first->second.get();
  }

  VerbsShared shared_;
  std::mutex mutex_;
  uint32_t last_id_ = 0;
  uint32_t device_ids_ = 0;
  std::map<uint32_t, std::unique_ptr<LocalMemory>> exported_;  // with mutex_
};

}  // namespace

std::unique_ptr<Transport> make_verbs_transport(const TransportContext& context, const VerbsOptions& options) {
  return std::make_unique<VerbsTransport>(context, options);
}

}  // namespace tutti
