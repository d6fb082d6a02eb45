// OpenSSL 3's own way to a digest loads its configuration and providers: 2 MiB and some milliseconds in each rank, most
// of which never need TLS. The functions of its older interface, which it keeps, take nothing.
#define OPENSSL_API_COMPAT 10101
#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

namespace tutti {

Digest sha256(std::initializer_list<std::span<const std::byte>> parts) {
  SHA256_CTX state;
  SHA256_Init(&state);
  for (auto part : parts) SHA256_Update(&state, part.data(), part.size());
  Digest digest;
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &state);
  OPENSSL_cleanse(&state, sizeof state);
  return digest;
}

Digest hmac_sha256(const Digest& key, std::span<const std::byte> message) {
  std::array<std::byte, SHA256_CBLOCK> inner{}, outer{};
  std::ranges::copy(key, inner.begin());
  outer = inner;
  for (std::byte& each : inner) each ^= std::byte{0x36};
  for (std::byte& each : outer) each ^= std::byte{0x5c};
  Digest digest = sha256({outer, sha256({inner, message})});
  OPENSSL_cleanse(inner.data(), inner.size());
  OPENSSL_cleanse(outer.data(), outer.size());
  return digest;
}

}  // namespace tutti
