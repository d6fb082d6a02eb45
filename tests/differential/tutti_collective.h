// A call through the C API, by either of its ways.
#pragma once

#include <tutti/tutti.h>

#include "local_call.h"

namespace differential {

// By the function of the collective's name.
tutti_status_t run_blocking(LocalCall& local, tutti_comm_t* comm);

// By tutti_start().
tutti_status_t start(LocalCall& local, tutti_comm_t* comm, tutti_request_t** request);

}  // namespace differential
