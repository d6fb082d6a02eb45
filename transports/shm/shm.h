// Processes on one host, over shared memory: each rank's exported memory (a memfd) is mapped by its peers, so a put is
// a memcpy. Nothing is left in /dev/shm or anywhere else when a process dies.
//
// Peers meet on an abstract unix socket (so they must share a network namespace), check that the kernel reports the
// same user at both ends, prove the token, and keep the socket: it carries the descriptors of memory that is shared
// later, and its end is how a dead peer is noticed.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace tutti {

std::unique_ptr<Transport> make_shm_transport(const TransportContext& context);

}  // namespace tutti
