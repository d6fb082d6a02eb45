#include "bootstrap/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <new>

namespace tutti::bootstrap {
namespace {

const unsigned char* data_of(ByteView bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

Secret hmac(ByteView key, ByteView message) {
  Secret out;
  unsigned int size = 0;
  const unsigned char* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), data_of(message),
                                   message.size(), reinterpret_cast<unsigned char*>(out.data()), &size);
  if (done == nullptr) throw std::bad_alloc();  // HMAC() fails for nothing else
  TUTTI_CHECK(size == out.size());
  return out;
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
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(data_of(bytes), bytes.size(), digest.data());
  return Reader(std::as_bytes(std::span(digest))).u64();
}

bool equal_in_constant_time(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tutti::bootstrap
