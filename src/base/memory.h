// What is said when memory is short.
#pragma once

#include <new>
#include <string_view>

#include "base/status.h"

namespace tutti {

inline constexpr std::string_view kMemoryRemedy =
    "free memory, raise the limit (ulimit -v), or set TUTTI_SLOT_BYTES smaller on all ranks";

// A system call that makes or maps memory failed: system_error() with the remedy, if there is one.
Status memory_error(int errno_value, std::string_view what);

// Not even an error can be made: says so on standard error and ends the process.
[[noreturn]] void end_without_memory() noexcept;

// std::bad_alloc as a Status.
inline Status out_of_memory() noexcept {
  try {
    return error(Code::kSystem, "out of memory; {}", kMemoryRemedy);
  } catch (const std::bad_alloc&) {
    end_without_memory();
  }
}

// Where nobody waits for a Status: the whole body of a thread of ours, and what reports a failure.
template <typename Body>
void or_end_without_memory(Body&& body) noexcept {
  try {
    body();
  } catch (const std::bad_alloc&) {
    end_without_memory();
  }
}

}  // namespace tutti
