#include "base/status.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tutti {

Status system_error(int errno_value, std::string_view what) {
  char buffer[128];
  return error(Code::kSystem, "{}: {}", what, strerror_r(errno_value, buffer, sizeof buffer));
}

void check_failed(const char* file, int line, const char* condition) noexcept {
  std::fprintf(stderr, "[tutti] internal error at %s:%d: '%s' does not hold; please report this\n", file, line,
               condition);
  std::abort();
}

}  // namespace tutti
