// The little cryptography the bootstrap needs besides TLS, all of it OpenSSL's.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "bootstrap/wire.h"

namespace tutti::bootstrap {

// A job secret, a token, or a key derived from one.
using Secret = std::array<std::byte, 32>;

// OpenSSL otherwise takes itself down when main() returns or exit() is called, under the feet of threads that still use
// it. Has an effect only before the process uses OpenSSL for the first time.
void keep_crypto_until_the_end();

// HKDF-SHA256 (RFC 5869) of `secret` without salt: a key for one `purpose`, from which the secret cannot be computed.
Secret derive(ByteView secret, std::string_view purpose);
// The first 64 bits of SHA-256: a name for public things, not a key.
uint64_t hash64(ByteView bytes);
inline uint64_t hash64(std::string_view text) { return hash64(as_bytes(text)); }
// Takes the same time wherever they differ.
bool equal_in_constant_time(ByteView a, ByteView b);

}  // namespace tutti::bootstrap
