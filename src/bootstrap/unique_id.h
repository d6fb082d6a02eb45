// What the 128 bytes of a tutti_unique_id_t mean.
#pragma once

#include <vector>

#include "bootstrap/crypto.h"
#include "bootstrap/endpoint.h"
#include "tutti/tutti.h"

namespace tutti::bootstrap {

struct UniqueId {
  enum class Kind : uint8_t {
    kServed = 1,    // the process that made the id already listens
    kRankZero = 2,  // rank 0 will listen on the port of the addresses
    kLocal = 3,     // one host only: rank 0 will listen on the unix socket; there is no secret
  };

  Kind kind = Kind::kServed;
  uint64_t job = 0;                 // names the unix socket; public
  uint64_t host = 0;                // HostIdentity::hash() of the meeting point, 0 unknown
  Secret secret{};                  // all zero for kLocal
  std::vector<Endpoint> addresses;  // IPv4 and IPv6, one port for all; those that do not fit are left out when encoded

  // "tutti-<user>-<job in hex>": the abstract unix socket of the meeting point.
  Endpoint unix_endpoint() const;
  // Proves knowledge of the secret without telling it.
  std::array<std::byte, 16> secret_check() const;
  // The key of the TLS connections to the meeting point.
  Secret tls_key() const { return derive(secret, "tutti join"); }

  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};

tutti_unique_id_t encode(const UniqueId& id);
// Errors: kInvalidArgument for bytes that no tutti of this version made.
Result<UniqueId> decode_unique_id(const tutti_unique_id_t& bytes);

}  // namespace tutti::bootstrap
