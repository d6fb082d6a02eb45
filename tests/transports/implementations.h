// The transports that the conformance suite runs on.
#pragma once

#include <tuple>

#include "transports/fabric.h"

namespace tutti::test {
using Implementations = std::tuple<Loopback, Shm, Tcp, Hostile>;
}
