#include "bootstrap/rendezvous.h"

#include <system_error>

#include "base/memory.h"
#include "base/random.h"

namespace tutti::bootstrap {
namespace {

Result<std::vector<Listener>> open_listeners(const UniqueId& id, uint16_t port, const RendezvousOptions& options) {
  std::vector<Listener> listeners;
  if (options.unix_socket) listeners.push_back(TUTTI_TRY(listen_unix(id.unix_endpoint().name)));
  if (options.tcp && id.kind != UniqueId::Kind::kLocal)
    listeners.push_back(TUTTI_TRY(listen_tcp(port, "TUTTI_ADDRESS")));
  return listeners;
}

}  // namespace

Rendezvous::Rendezvous(UniqueId id, std::unique_ptr<MeetingServer> server)
    : id_(std::move(id)), server_(std::move(server)) {}

Result<std::unique_ptr<Rendezvous>> Rendezvous::start(const UniqueId& id, std::vector<Listener> listeners) {
  auto server = TUTTI_TRY(MeetingServer::create(id, std::move(listeners)));
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous(id, std::move(server)));
  try {
    rendezvous->thread_ = std::thread(
        [server = rendezvous->server_.get()] { or_end_without_memory([&] { server->run(); }); });
  } catch (const std::system_error& problem) {
    return error(Code::kSystem,
                 "cannot start the meeting point's thread ({}): raise the limits on threads and memory (ulimit -u, -v)",
                 problem.what());
  }
  return rendezvous;
}

Rendezvous::~Rendezvous() {
  server_->stop();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::create(const RendezvousOptions& options) {
  UniqueId id;
  if (options.secret) {
    id.secret = *options.secret;
  } else {
    TUTTI_TRY(random_bytes(id.secret));
  }
  TUTTI_TRY(random_bytes(std::as_writable_bytes(std::span(&id.job, 1))));
  id.host = options.unix_socket ? options.host.hash() : 0;
  std::vector<Listener> listeners = TUTTI_TRY(open_listeners(id, 0, options));
  for (const Listener& listener : listeners) {
    if (!listener.endpoint.is_unix())
      id.addresses = TUTTI_TRY(local_addresses(options.interface, listener.endpoint.port));
  }
  return start(id, std::move(listeners));
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::serve(const UniqueId& id, const RendezvousOptions& options) {
  uint16_t port = id.addresses.empty() ? 0 : id.addresses.front().port;
  return start(id, TUTTI_TRY(open_listeners(id, port, options)));
}

}  // namespace tutti::bootstrap
