// A collective in full, as tutti_start() takes it, made by the blocking function of its name.
#pragma once

#include <tutti/tutti.h>

namespace tutti_torch {

// Its own deadline (`timeout_ms`) is not looked at. Blocks until the call is complete.
tutti_status_t run_blocking(tutti_comm_t* comm, const tutti_call_t& call);

}  // namespace tutti_torch
