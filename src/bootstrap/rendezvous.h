// The meeting point: a thread that takes the ranks of a job in and tells each of them its neighbours. It sleeps while
// nobody comes, and serves one meeting after another while it lives.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/status.h"
#include "bootstrap/meeting_server.h"
#include "bootstrap/unique_id.h"

namespace tutti::bootstrap {

struct RendezvousOptions {
  std::string interface;  // limits the addresses of the id; "" is all
  bool unix_socket = true;
  bool tcp = true;
  HostIdentity host = HostIdentity::here();
  std::optional<Secret> secret;  // known to the ranks already; none: a new one
};

class Rendezvous {
 public:
  // Opens the sockets, chooses port, job number and secret, and starts. Does not block.
  static Result<std::unique_ptr<Rendezvous>> create(const RendezvousOptions& options);
  // Serves an id whose port, job and secret are already known to all (kinds kRankZero and kLocal).
  static Result<std::unique_ptr<Rendezvous>> serve(const UniqueId& id, const RendezvousOptions& options);
  // Ends the thread; answers that are on their way are delivered first, for one second at most.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;

  const UniqueId& id() const { return id_; }

 private:
  Rendezvous(UniqueId id, std::unique_ptr<MeetingServer> server);
  static Result<std::unique_ptr<Rendezvous>> start(const UniqueId& id, std::vector<Listener> listeners);

  UniqueId id_;
  std::unique_ptr<MeetingServer> server_;
  std::thread thread_;
};

}  // namespace tutti::bootstrap
