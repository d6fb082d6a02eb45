// How long a call takes.
#pragma once

#include <cstdint>
#include <functional>

#include "communicator.h"
#include "device.h"
#include "options.h"

namespace tutti::bench {

// Microseconds of one call, each figure first taken on every rank and then joined over the ranks
// as Options::average says.
struct Timing {
  int iterations = 0;
  double mean_us = 0;
  double min_us = 0;
  double median_us = 0;
  double max_us = 0;

  // When what was timed is so many of what is to be told.
  void divide(double parts) {
    for (double* time_us : {&mean_us, &min_us, &median_us, &max_us}) *time_us /= parts;
  }
};

// Runs warm-up calls, then timed calls back to back (or with all ranks meeting before each, outside the time, if
// options.blocking), on buffers of `device`. The number of timed calls is the same on all ranks.
Timing measure(Communicator& comm, Device& device, const std::function<void()>& call, const Options& options);

// Bytes per second, per rank, that all ranks reach when they copy `size_bytes` from one buffer of their device to
// another at once.
double measure_copy(Communicator& comm, Device& device, const void* from, void* to, size_t size_bytes);
// What rank 0 alone reaches on its GPU, with buffers of 256 MiB, which no cache holds, or of the largest that fit; how
// large these were: `size_bytes`.
double measure_copy_alone(Communicator& comm, Device& device, size_t* size_bytes);

}  // namespace tutti::bench
