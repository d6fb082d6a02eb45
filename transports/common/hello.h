// The first message on every data connection, and the proof that its sender knows the
// communicator's token. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace tutti {

inline constexpr size_t kTokenBytes = 32;
inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kHelloBytes = 64;
inline constexpr size_t kProofBytes = 32;
inline constexpr size_t kHelloHeadBytes = 8;  // magic, version and transport: enough to turn a stranger away
inline constexpr uint16_t kHelloVersion = 1;

using Token = std::array<std::byte, kTokenBytes>;
using Nonce = std::array<std::byte, kNonceBytes>;
using HelloBytes = std::array<std::byte, kHelloBytes>;
using Proof = std::array<std::byte, kProofBytes>;

enum class Wire : uint16_t { kLoopback = 0, kShm = 1, kTcp = 2, kVerbs = 3 };

// Who a rank is on its data connections.
struct LinkIdentity {
  Wire wire = Wire::kShm;
  uint64_t job = 0;
  int rank = 0;
  int nranks = 0;
  Token token{};
};

// Takes the caller's 32 token bytes; anything else is an error.
Result<LinkIdentity> make_identity(Wire wire, uint64_t job, int rank, int nranks, std::span<const std::byte> token);

struct LinkHello {
  Wire wire = Wire::kShm;
  uint64_t job = 0;
  uint32_t rank = 0;     // of the sender
  uint32_t peer = 0;     // whom the sender means to talk to
  uint32_t nranks = 0;
  Nonce nonce{};         // fresh random bytes
  friend bool operator==(const LinkHello&, const LinkHello&) = default;
};

HelloBytes encode(const LinkHello& hello);
// Whether the first kHelloHeadBytes are those of our protocol and version.
Status check_hello_head(std::span<const std::byte> head, Wire wire);
Result<LinkHello> parse_hello(std::span<const std::byte> bytes, Wire wire);
// Whether `hello` belongs to our job and means us. `peer`: the rank that must have sent it, -1: any other.
Status check_hello(const LinkHello& hello, const LinkIdentity& self, int peer);

// HMAC-SHA256 under the token over both hellos, so that it is bound to both ranks, both nonces and the direction. The
// token itself never travels, and a proof is worth nothing on another connection.
Proof prove(const Token& token, bool by_initiator, const HelloBytes& initiator, const HelloBytes& responder);
// In constant time.
bool equal(const Proof& a, const Proof& b);

void fill_random(std::span<std::byte> bytes);

}  // namespace tutti
