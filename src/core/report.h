// The calling thread's last error that belongs to no communicator: what tutti_last_error(NULL) gives.
#pragma once

#include "base/status.h"

namespace tutti {

// Keeps the sentence and returns the code for the C caller.
tutti_status_t report(Status status);
const char* reported();

}  // namespace tutti
