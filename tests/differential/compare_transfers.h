// Whether sends and receives left in their buffers what they should.
#pragma once

#include <string>
#include <vector>

#include "transfer.h"

namespace differential {

// Of each of this rank's transfers, whose receives are in the order of the calls, "" or what is different. Where a
// receive may get messages of several ranks, that is what MPI received as the one that the receive says it got.
std::vector<std::string> differences(const std::vector<Transfer>& transfers, const Exchange& exchange,
                                     const Jobs& jobs);

}  // namespace differential
