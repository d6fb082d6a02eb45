// Ranks that are threads of one process. Memory is shared as it is, so a put is a memcpy and a pull is one too.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace tutti {

class LoopbackHub;

// Where the ranks of one process meet, whatever communicators they belong to.
std::shared_ptr<LoopbackHub> make_loopback_hub();

// `hub` is shared by all ranks' transports and their Links.
std::unique_ptr<Transport> make_loopback_transport(const TransportContext& context, std::shared_ptr<LoopbackHub> hub);

}  // namespace tutti
