#include "base/log.h"
#include "transports/verbs/link.h"
#include "transports/verbs/verbs.h"

namespace tutti {
namespace {

class VerbsTransport final : public Transport {
 public:
  VerbsTransport(const TransportContext& context, const VerbsOptions& options)
      : rank_(context.rank),
        options_(options),
        shared_{.meeting = TcpMeeting(Wire::kVerbs, context),
                .device = nullptr,
                .exports = VerbsExports(
                    {.regions = options.regions,
                     .bytes = options.region_bytes > 0 ? options.region_bytes : default_region_bytes()}),
                .bells = BellRow(context.nranks)} {}

  std::string_view name() const override { return "verbs"; }

  // The ends meet over TCP. Whether devices reach each other too only the pre-flight check can tell.
  std::optional<LinkTraits> reach(const Inventory& self, const Inventory& peer, bool) const override {
    return can_meet(self, peer) ? std::optional(LinkTraits{.places = true}) : std::nullopt;
  }

  Status listen() override {
    shared_.device = TUTTI_TRY(VerbsDevice::open(options_, rank_));
    TUTTI_TRY(shared_.device->address());
    return shared_.meeting.listen();
  }
  Blob address() const override { return shared_.meeting.address(); }

  Result<const LocalMemory*> export_memory(std::span<std::byte> memory, int fd) override {
    return shared_.exports.add(memory, fd);
  }
  void release(const LocalMemory* memory) override { shared_.exports.remove(memory); }
  void use(const LocalMemory* memory) override {
    if (Status used = shared_.exports.use(*shared_.device, memory->id); !used.ok()) log_debug("{}", used.message());
  }
  std::unique_ptr<Link> open(int peer) override { return std::make_unique<VerbsLink>(shared_, peer); }

 private:
  const int rank_;
  const VerbsOptions options_;
  VerbsShared shared_;
};

}  // namespace

std::unique_ptr<Transport> make_verbs_transport(const TransportContext& context, const VerbsOptions& options) {
  return std::make_unique<VerbsTransport>(context, options);
}

}  // namespace tutti
