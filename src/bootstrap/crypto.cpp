#include "bootstrap/crypto.h"

#include <openssl/crypto.h>

#include "base/sha256.h"

namespace tutti::bootstrap {

#ifdef TUTTI_OWN_OPENSSL
// What the system's OpenSSL is told to load, this one could not.
constexpr uint64_t kConfiguration = OPENSSL_INIT_NO_LOAD_CONFIG;
#else
constexpr uint64_t kConfiguration = 0;
#endif

void keep_crypto_until_the_end() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | kConfiguration, nullptr); }

// One block of output is all anyone asks for, so the expand step is a single HMAC with counter 1.
Secret derive(ByteView secret, std::string_view purpose) {
  const Secret no_salt{};
  Secret extracted = hmac_sha256(no_salt, secret);
  Writer info;
  info.bytes(as_bytes(purpose));
  info.u8(1);
  Secret key = hmac_sha256(extracted, info.view());
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
