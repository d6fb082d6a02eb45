// lower: the only place where a Plan's steps turn into what a rank does.
//
// It fuses a Copy or Reduce with the Puts of its result (so the result is stored straight into messages), drops temps
// that only travel, lets those share memory that are never alive at once, and frees each arrival's slot where it is
// read for the last time.
#pragma once

#include "executor/program.h"

namespace tutti {

// This rank's part of `plan`, which validate() accepts, on one channel.
Program lower(const Plan& plan, int rank, int channel);

}  // namespace tutti
