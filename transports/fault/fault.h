// A Transport that misbehaves on purpose: wraps any other one, for tests of what stands on top. The same seed gives the
// same faults for the same sequence of calls. Stores into mapped memory pass by it; only puts and signals are harmed.
#pragma once

#include <cstdint>
#include <memory>

#include "transports/transport.h"

namespace tutti {

struct Faults {
  uint64_t seed = 1;

  // Allowed by the interface: everything on top must bear them.
  double hold_chance = 0;     // that a put or signal, and so all after it, stays here for 1..hold_polls further polls
  int hold_polls = 8;
  double full_chance = 0;     // that a put or signal is answered with kFull without need
  int full_storm = 4;         // how many answers in a row then are
  bool takes_back = false;    // a put that is answered with kFull finds the peer's memory, which it was to, no more

  // Not allowed: what is on top must report an error, by its deadline or at once. Counted from 1 on each Link; 0:
  // never.
  uint64_t drop_put = 0;      // neither payload nor line arrive
  uint64_t kill = 0;          // the link breaks at this put or signal: this end reports kAborted, the peer an error

  // Not allowed, and seen by nobody: messages carry no checksum, what a transport says has arrived is taken for it.
  uint64_t truncate_put = 0;  // half the payload arrives, and the line
};

std::unique_ptr<Transport> make_fault_transport(std::unique_ptr<Transport> inner, const Faults& faults);

}  // namespace tutti
