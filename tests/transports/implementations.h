// The transports that the conformance suite runs on.
#pragma once

#include <tuple>

#include "transports/fabric.h"

namespace tutti::test {
#if defined(TUTTI_TEST_ONLY_VERBS)
using Implementations = std::tuple<Verbs>;
using BetweenProcesses = std::tuple<Verbs>;
#elif defined(TUTTI_TEST_VERBS_LIBRARY)
using Implementations = std::tuple<Loopback, Shm, Tcp, Verbs, Hostile>;
#else
using Implementations = std::tuple<Loopback, Shm, Tcp, Hostile>;
#endif
#if !defined(TUTTI_TEST_ONLY_VERBS)
using BetweenProcesses = std::tuple<Shm, Tcp>;
#endif
// Those where the receiver stores what comes.
#if defined(TUTTI_TEST_ONLY_VERBS)
using Networks = std::tuple<Verbs>;
#elif defined(TUTTI_TEST_VERBS_LIBRARY)
using Networks = std::tuple<Tcp, Verbs>;
#else
using Networks = std::tuple<Tcp>;
#endif
}
