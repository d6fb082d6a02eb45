// How often this process is the child of a fork, counted from when it was first asked. What was made before a fork, its
// threads and connections, belongs to the parent.
#pragma once

#include <cstdint>

namespace tutti {

// Cheap. Any thread.
uint64_t forks();

}  // namespace tutti
