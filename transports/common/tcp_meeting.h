// Where ranks find each other over TCP: what a rank offers to its peers, and the way to each of them. The connections
// are proven before anybody gets to see them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transports/common/acceptor.h"
#include "transports/common/connector.h"
#include "transports/common/interfaces.h"
#include "transports/common/tcp_host.h"
#include "transports/transport.h"

namespace tutti {

class TcpMeeting {
 public:
  // `context.interface` forces a network interface by name or address; otherwise every address of every interface that
  // is up is offered, and the peer uses the first, in order of speed, that is proven to lead here.
  TcpMeeting(Wire wire, const TransportContext& context);

  // Once, before everything else. Errors: no such interface, naming those that exist.
  Status listen();
  const LinkIdentity& identity() const { return identity_; }
  Blob address() const { return encode(host_); }
  // A fresh way to `peer`; of two ranks the higher one dials.
  Result<std::unique_ptr<Connector>> connector_to(int peer, std::span<const std::byte> peer_address);

 private:
  Result<std::vector<Fd>> listen_everywhere();
  Result<std::vector<Fd>> listen_on_sources();
  void offer(const LocalAddress& local, uint16_t port);
  std::vector<DialTarget> candidates_for(const TcpHost& peer) const;

  const Wire wire_;
  TransportContext context_;
  LinkIdentity identity_;
  TcpHost host_;                       // what peers are told
  std::vector<LocalAddress> sources_;  // interfaces to connect from
  const bool forced_;                  // only from those
  std::unique_ptr<Acceptor> acceptor_;
};

// What every such connection wants: small messages at once, and a host that vanished noticed within half a minute also
// when nothing is being sent.
void tune_connection(int socket);

// For the log: "10.0.0.1:4711 to 10.0.0.2:4712", this end first.
std::string ends_of(int socket);

// Whether two hosts have addresses by which they can meet.
bool can_meet(const Inventory& self, const Inventory& peer);

}  // namespace tutti
