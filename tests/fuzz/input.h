// What a fuzz target is given, as the views that our readers take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"

namespace tutti::fuzz {

inline std::string_view as_text(const uint8_t* data, size_t size_bytes) {
  return {reinterpret_cast<const char*>(data), size_bytes};
}

inline std::span<const std::byte> as_bytes(const uint8_t* data, size_t size_bytes) {
  return {reinterpret_cast<const std::byte*>(data), size_bytes};
}

}  // namespace tutti::fuzz
