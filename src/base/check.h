// Invariants. A failed check is a defect in tutti: it prints the place and ends the process, because going on could
// corrupt the caller's data.
#pragma once

namespace tutti {
[[noreturn]] void check_failed(const char* file, int line, const char* condition) noexcept;
}  // namespace tutti

#define TUTTI_CHECK(condition) \
  (__builtin_expect(!!(condition), 1) ? static_cast<void>(0) : ::tutti::check_failed(__FILE__, __LINE__, #condition))
