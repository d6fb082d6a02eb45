// A call through the C API, by each of its ways.
#pragma once

#include <tutti/tutti.h>

#include "local_call.h"

namespace differential {

// Makes what the call needs before it: its own operation, and where the rank prepares it, the prepared call. Every rank
// calls it for the same calls in the same order.
tutti_status_t set_up(LocalCall& local, tutti_comm_t* comm, bool prepares);

// Destroys both. The call is complete.
tutti_status_t tear_down(LocalCall& local, tutti_comm_t* comm);

// By the function of the collective's name.
tutti_status_t run_blocking(LocalCall& local, tutti_comm_t* comm);

// By tutti_start(), or tutti_start_prepared() where it was prepared.
tutti_status_t start(LocalCall& local, tutti_comm_t* comm, tutti_request_t** request);

}  // namespace differential
