// Whether a call left in its buffers what it should.
#pragma once

#include <string>

#include "local_call.h"

namespace differential {

// "" or the first difference: "element 3 of recv is 0x3c01 (1.00098), MPI says 0x3c00 (1)".
std::string difference(LocalCall& local);

}  // namespace differential
