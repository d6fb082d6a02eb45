#include "transports/common/hello.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "base/sha256.h"
#include "transports/common/bytes.h"

namespace tutti {
namespace {

constexpr uint32_t kMagic = 0x6b4c7474;  // "ttLk"
constexpr std::string_view kProofLabel = "tutti data connection, proof 1";

}  // namespace

Result<LinkIdentity> make_identity(Wire wire, uint64_t job, int rank, int nranks, std::span<const std::byte> token) {
  if (token.size() != kTokenBytes) {
    return error(Code::kInternal, "a communicator's token has {} bytes, not {}", token.size(), kTokenBytes);
  }
  LinkIdentity identity{.wire = wire, .job = job, .rank = rank, .nranks = nranks, .token = {}};
  std::copy(token.begin(), token.end(), identity.token.begin());
  return identity;
}

HelloBytes encode(const LinkHello& hello) {
  HelloBytes bytes{};
  FixedWriter(bytes)
      .put(kMagic)
      .put(kHelloVersion)
      .put(static_cast<uint16_t>(hello.wire))
      .put(hello.job)
      .put(hello.rank)
      .put(hello.peer)
      .put(hello.nranks)
      .put(uint32_t{0})
      .put(std::span<const std::byte>(hello.nonce));
  return bytes;
}

Status check_hello_head(std::span<const std::byte> head, Wire wire) {
  FixedReader reader(head.first(kHelloHeadBytes));
  if (reader.get<uint32_t>() != kMagic) return error(Code::kRemote, "who answers is not tutti");
  if (auto version = reader.get<uint16_t>(); version != kHelloVersion) {
    return error(Code::kRemote,
                 "the peer speaks version {} of the protocol, this rank {}; use the same tutti everywhere", version,
                 kHelloVersion);
  }
  if (reader.get<uint16_t>() != static_cast<uint16_t>(wire)) {
    return error(Code::kRemote, "the peer speaks for another transport");
  }
  return {};
}

Result<LinkHello> parse_hello(std::span<const std::byte> bytes, Wire wire) {
  if (bytes.size() != kHelloBytes) {
    return error(Code::kRemote, "a hello has {} bytes, not {}", bytes.size(), kHelloBytes);
  }
  TUTTI_TRY(check_hello_head(bytes, wire));
  FixedReader reader(bytes.subspan(kHelloHeadBytes));
  LinkHello hello;
  hello.wire = wire;
  hello.job = reader.get<uint64_t>();
  hello.rank = reader.get<uint32_t>();
  hello.peer = reader.get<uint32_t>();
  hello.nranks = reader.get<uint32_t>();
  if (reader.get<uint32_t>() != 0) return error(Code::kRemote, "a hello has bits that must be zero");
  reader.get(hello.nonce);
  return hello;
}

Status check_hello(const LinkHello& hello, const LinkIdentity& self, int peer) {
  if (hello.job != self.job) return error(Code::kRemote, "the peer belongs to another job");
  if (hello.nranks != static_cast<uint32_t>(self.nranks)) {
    return error(Code::kRemote, "the peer says that the job has {} ranks, here it has {}", hello.nranks, self.nranks);
  }
  if (hello.peer != static_cast<uint32_t>(self.rank)) {
    return error(Code::kRemote, "the peer looks for rank {}", hello.peer);
  }
  bool expected = peer >= 0 ? hello.rank == static_cast<uint32_t>(peer)
                            : hello.rank < hello.nranks && hello.rank != static_cast<uint32_t>(self.rank);
  if (!expected) return error(Code::kRemote, "it is rank {} who answers", hello.rank);
  return {};
}

Proof prove(const Token& token, bool by_initiator, const HelloBytes& initiator, const HelloBytes& responder) {
  std::array<std::byte, kProofLabel.size() + 1 + 2 * kHelloBytes> message;
  FixedWriter(message)
      .put(std::as_bytes(std::span(kProofLabel)))
      .put(static_cast<uint8_t>(by_initiator))
      .put(std::span<const std::byte>(initiator))
      .put(std::span<const std::byte>(responder));
  return hmac_sha256(token, message);
}

bool equal(const Proof& a, const Proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

void fill_random(std::span<std::byte> bytes) {
  TUTTI_CHECK(random_bytes(bytes).ok());  // without random numbers nothing here is safe
}

}  // namespace tutti
