// TLS 1.3 with a pre-shared key and nothing else: no certificates, no tickets, no other version or cipher. Both ends
// prove that they know the key, or the handshake fails.
#pragma once

#include <memory>

#include "bootstrap/crypto.h"
#include "bootstrap/stream.h"

namespace tutti::bootstrap {

enum class TlsRole { kConnects, kAccepts };

class TlsContext {
 public:
  static std::unique_ptr<TlsContext> create(const Secret& key);
  virtual ~TlsContext() = default;

  // Does at once what the first stream would, which takes milliseconds: whoever will need one finds out whether TLS
  // works here.
  virtual Status prepare() = 0;
  // Takes a non-blocking TCP socket, which may still be connecting. The handshake happens within read() and write();
  // errors: kInvalidUsage when the peer's key differs, kRemote when the peer does not speak as tutti does. One thread
  // at a time.
  virtual Result<std::unique_ptr<Stream>> make_stream(Fd fd, TlsRole role) = 0;
};

}  // namespace tutti::bootstrap
