// OpenSSL 3's own way to a digest loads its configuration and providers: 2 MiB and some milliseconds in each rank, most
// of which never need TLS. The functions of its older interface, which it keeps, take nothing.
#define OPENSSL_API_COMPAT 10101
#include "bootstrap/crypto.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <initializer_list>

namespace tutti::bootstrap {
namespace {

Secret sha256(std::initializer_list<ByteView> parts) {
  SHA256_CTX state;
  SHA256_Init(&state);
  for (ByteView part : parts) SHA256_Update(&state, part.data(), part.size());
  Secret digest;
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &state);
  OPENSSL_cleanse(&state, sizeof state);
  return digest;
}

// HMAC-SHA256 (RFC 2104), with a key shorter than a block.
Secret hmac(const Secret& key, ByteView message) {
  std::array<std::byte, SHA256_CBLOCK> inner{}, outer{};
  std::ranges::copy(key, inner.begin());
  outer = inner;
  for (std::byte& each : inner) each ^= std::byte{0x36};
  for (std::byte& each : outer) each ^= std::byte{0x5c};
  Secret digest = sha256({outer, sha256({inner, message})});
  OPENSSL_cleanse(inner.data(), inner.size());
  OPENSSL_cleanse(outer.data(), outer.size());
  return digest;
}

}  // namespace

void keep_crypto_until_the_end() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

// One block of output is all anyone asks for, so the expand step is a single HMAC with counter 1.
Secret derive(ByteView secret, std::string_view purpose) {
  const Secret no_salt{};
  Secret extracted = hmac(no_salt, secret);
  Writer info;
  info.bytes(as_bytes(purpose));
  info.u8(1);
  Secret key = hmac(extracted, info.view());
  OPENSSL_cleanse(extracted.data(), extracted.size());
  return key;
}

uint64_t hash64(ByteView bytes) {
  Secret digest = sha256({bytes});
  return Reader(digest).u64();
}

bool equal_in_constant_time(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tutti::bootstrap
