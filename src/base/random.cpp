#include "base/random.h"

#include <unistd.h>

#include "base/check.h"

namespace tutti {

Status random_bytes(std::span<std::byte> out) {
  constexpr size_t kMost = 256;  // that getentropy() gives at once
  TUTTI_CHECK(out.size() <= kMost);
  if (::getentropy(out.data(), out.size()) == 0) return {};
  return error(Code::kSystem, "the system has no random bytes for a secret: check that getrandom(2) works");
}

}  // namespace tutti
