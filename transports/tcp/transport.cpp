#include "transports/tcp/link.h"
#include "transports/tcp/tcp.h"

namespace tutti {
namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TransportContext& context)
      : shared_{.meeting = TcpMeeting(Wire::kTcp, context), .exports = {}, .bells = BellRow(context.nranks)} {}

  std::string_view name() const override { return "tcp"; }

  std::optional<LinkTraits> reach(const Inventory& self, const Inventory& peer, bool) const override {
    return can_meet(self, peer) ? std::optional(kTcpTraits) : std::nullopt;
  }

  Status listen() override { return shared_.meeting.listen(); }
  Blob address() const override { return shared_.meeting.address(); }

  Result<const LocalMemory*> export_memory(std::span<std::byte> memory, int fd,
                                           std::shared_ptr<const void> owner) override {
    return shared_.exports.add(memory, fd, std::move(owner));
  }
  void release(const LocalMemory* memory) override { shared_.exports.remove(memory); }
  std::unique_ptr<Link> open(int peer) override { return std::make_unique<TcpLink>(shared_, peer); }

 private:
  TcpShared shared_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(const TransportContext& context) {
  return std::make_unique<TcpTransport>(context);
}

}  // namespace tutti
