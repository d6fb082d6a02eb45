// Which processors a thread may run on.
#pragma once

#include <pthread.h>

#include <span>

namespace tutti {

// From now on `thread` runs on those of `cpus` that this process may use. False: it may use none of them, and nothing
// has changed.
bool run_on(pthread_t thread, std::span<const int> cpus);
// Whether run_on() would come true. Starts a thread for it, so that the caller stays where it is; where there is none
// to be had, the answer is yes.
bool can_run_on(std::span<const int> cpus);

}  // namespace tutti
