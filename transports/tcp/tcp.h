// Ranks anywhere, over TCP on IPv4 and IPv6. A put is one frame; the receiver's poll() reads its payload
// straight into the exported memory and then stores the line. Neither encrypted nor compressed; both ends are
// proven before the first frame.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace tutti {

// `context.interface` forces a network interface by name or address; listen() then fails, naming those that exist, if
// there is no such one. Otherwise every address of every interface that is up is offered, and the peer uses the first,
// in order of speed, that is proven to lead here.
std::unique_ptr<Transport> make_tcp_transport(const TransportContext& context);

}  // namespace tutti
