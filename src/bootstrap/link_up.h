// Connects a rank to its neighbours: it dials those with lower ranks and accepts those with higher ones, all at once.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "bootstrap/doorman.h"
#include "bootstrap/messages.h"
#include "bootstrap/tls.h"

namespace tutti::bootstrap {

struct LinkUp {
  int rank = 0;
  HostIdentity host;
  const Neighbours& neighbours;
  TlsContext& tls;         // with the key of the overlay
  Doorman& doorman;        // of the listeners that the neighbours know
  Channel& meeting_point;  // watched for a refusal
};

// Blocks until every neighbour is connected and the meeting point says that this holds for all ranks. Links whose two
// ends have one host identity are unix sockets, the others TLS.
Result<std::map<int, NewLink>> link_up(const LinkUp& plan, Deadline deadline);

// The sentence of a kRefused or kFailed frame.
Status refusal(const Frame& frame);

}  // namespace tutti::bootstrap
