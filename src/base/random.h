// Random bytes of the system, for secrets.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace tutti {

// At most 256. They are there at once: a library would first make a generator of its own of them.
// Errors: the system has none.
Status random_bytes(std::span<std::byte> out);

}  // namespace tutti
