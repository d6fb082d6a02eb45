#include <sys/socket.h>
#include <sys/un.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transports/shm/link.h"
#include "transports/shm/shm.h"

namespace tutti {
namespace {

constexpr int kNameAttempts = 16;

// Fresh, so that two jobs, or two attempts of one, never meet by name.
std::string make_name(uint64_t job, int rank) {
  std::array<std::byte, 8> random{};
  fill_random(random);
  uint64_t suffix = 0;
  std::memcpy(&suffix, random.data(), sizeof suffix);
  return fmt::format("tutti-{:016x}-{}-{:016x}", job, rank, suffix);
}

// False when the name is taken.
Result<bool> bind_to(int socket, std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
  if (errno == EADDRINUSE) return false;
  return system_error(errno, "cannot bind an abstract unix socket");
}

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const TransportContext& context)
      : context_(context),
        shared_{.identity = {}, .name = {}, .acceptor = nullptr, .exports = {}, .bells = BellRow(context.nranks)} {}

  std::string_view name() const override { return "shm"; }

  // The abstract socket's name lives in the network namespace. To read and write each other's memory needs the same
  // process and user namespaces and no Yama in between; it is tried when connecting, and a kernel that refuses for
  // another reason only costs the trait.
  std::optional<LinkTraits> reach(const Inventory& self, const Inventory& peer, bool) const override {
    const HostIdentity &a = self.identity, &b = peer.identity;
    if (a.boot_id.empty() || a.boot_id != b.boot_id || a.net_namespace != b.net_namespace) return std::nullopt;
    bool pullable = a.pid_namespace == b.pid_namespace && a.user_namespace == b.user_namespace &&
                    self.limits.ptrace_scope == 0 && peer.limits.ptrace_scope == 0;
    return LinkTraits{.mappable = true, .pullable = pullable};
  }

  Status listen() override {
    shared_.identity =
        TUTTI_TRY(make_identity(Wire::kShm, context_.job, context_.rank, context_.nranks, context_.token));
    context_.token = {};  // the caller's bytes are not ours to keep
    Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) return system_error(errno, "cannot make a unix socket");
    for (int attempt = 0;; ++attempt) {
      shared_.name = make_name(context_.job, context_.rank);
      if (TUTTI_TRY(bind_to(listener.get(), shared_.name))) break;
      if (attempt == kNameAttempts) return error(Code::kSystem, "every name for a unix socket is taken");
    }
    if (::listen(listener.get(), SOMAXCONN) != 0) return system_error(errno, "cannot listen on a unix socket");
    std::vector<Fd> listeners;
    listeners.push_back(std::move(listener));
    shared_.acceptor = std::make_unique<Acceptor>(shared_.identity, std::move(listeners), check_same_user);
    return {};
  }

  Blob address() const override { return encode_shm_address(shared_.name); }

  Result<const LocalMemory*> export_memory(std::span<std::byte> memory, int fd,
                                           std::shared_ptr<const void> owner) override {
    if (fd < 0) return error(Code::kInvalidArgument, "the shm transport can only export memory of a memfd");
    return shared_.exports.add(memory, fd, std::move(owner));
  }
  void release(const LocalMemory* memory) override { shared_.exports.remove(memory); }
  std::unique_ptr<Link> open(int peer) override { return std::make_unique<ShmLink>(shared_, peer); }

 private:
  TransportContext context_;
  ShmShared shared_;
};

}  // namespace

std::unique_ptr<Transport> make_shm_transport(const TransportContext& context) {
  return std::make_unique<ShmTransport>(context);
}

}  // namespace tutti
