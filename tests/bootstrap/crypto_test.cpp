// Keys, against RFC 5869 and OpenSSL's own key derivation.
#include "bootstrap/crypto.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <catch2/catch.hpp>

#include <memory>
#include <vector>

namespace tutti::bootstrap {
namespace {

Secret openssl_hkdf(ByteView secret, std::string_view purpose) {
  std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
  std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()), EVP_KDF_CTX_free);
  char digest[] = "SHA256";
  OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<std::byte*>(secret.data()), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, const_cast<char*>(purpose.data()), purpose.size()),
      OSSL_PARAM_construct_end()};
  Secret key;
  REQUIRE(EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(key.data()), key.size(), params) == 1);
  return key;
}

TEST_CASE("a key is the one of RFC 5869's test case without salt and purpose") {
  constexpr unsigned char kExpected[] = {0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f, 0x71, 0x5f, 0x80,
                                         0x2a, 0x06, 0x3c, 0x5a, 0x31, 0xb8, 0xa1, 0x1f, 0x5c, 0x5e, 0xe1,
                                         0x87, 0x9e, 0xc3, 0x45, 0x4e, 0x5f, 0x3c, 0x73, 0x8d, 0x2d};
  std::vector<std::byte> secret(22, std::byte{0x0b});
  Secret key = derive(secret, "");
  CHECK(std::ranges::equal(key, std::as_bytes(std::span(kExpected))));
}

TEST_CASE("keys of secrets and purposes of any length are OpenSSL's") {
  for (size_t size_bytes : {1, 16, 32, 63, 64, 65, 1000}) {
    std::vector<std::byte> secret(size_bytes);
    for (size_t i = 0; i < size_bytes; ++i) secret[i] = static_cast<std::byte>(i * 7 + size_bytes);
    for (size_t letters : {1, 11, 55, 56, 200}) {
      std::string purpose(letters, 'p');
      CHECK(derive(secret, purpose) == openssl_hkdf(secret, purpose));
    }
  }
}

}  // namespace
}  // namespace tutti::bootstrap
