// SHA-256 and HMAC-SHA256 (RFC 2104), both OpenSSL's.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace tutti {

using Digest = std::array<std::byte, 32>;

// Of the parts one after another.
Digest sha256(std::initializer_list<std::span<const std::byte>> parts);
Digest hmac_sha256(const Digest& key, std::span<const std::byte> message);

}  // namespace tutti
