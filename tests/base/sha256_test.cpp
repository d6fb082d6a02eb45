// Against OpenSSL's own digest and HMAC.
#include "base/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <catch2/catch.hpp>

#include <vector>

namespace tutti {
namespace {

std::vector<std::byte> some_bytes(size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  for (size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<std::byte>(i * 31 + size_bytes);
  return bytes;
}

unsigned char* out(Digest& digest) { return reinterpret_cast<unsigned char*>(digest.data()); }

TEST_CASE("digests of parts are OpenSSL's of the whole") {
  for (size_t size_bytes : {0, 1, 55, 56, 63, 64, 65, 128, 1000}) {
    auto bytes = some_bytes(size_bytes);
    Digest expected;
    REQUIRE(EVP_Digest(bytes.data(), bytes.size(), out(expected), nullptr, EVP_sha256(), nullptr) == 1);
    std::span all(bytes);
    CHECK(sha256({all}) == expected);
    CHECK(sha256({all.first(size_bytes / 3), {}, all.subspan(size_bytes / 3)}) == expected);
  }
}

TEST_CASE("authentication codes are OpenSSL's") {
  Digest key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(200 - i);
  for (size_t size_bytes : {0, 1, 63, 64, 65, 200}) {
    auto message = some_bytes(size_bytes);
    Digest expected;
    unsigned int size = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<unsigned char*>(message.data()),
         message.size(), out(expected), &size);
    REQUIRE(size == expected.size());
    CHECK(hmac_sha256(key, message) == expected);
  }
}

}  // namespace
}  // namespace tutti
