// From which sizes on a receiver may read a sender's private memory itself, where the kernel lets it.
#pragma once

#include <cstdint>

namespace tutti {

// Calls and messages of so many bytes and more find out whether that is quicker than to go through slots; less is not
// worth a look at the clock. A pull takes a microsecond or so, whatever its size, and is of so much at least.
inline constexpr uint64_t kLeastTried = 64 * 1024;
inline constexpr uint64_t kLeastPulled = 32 * 1024;

}  // namespace tutti
