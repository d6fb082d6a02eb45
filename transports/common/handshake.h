// Proves both ends of a fresh connection to each other, without blocking:
//
//   initiator                       responder
//   hello (nonce)        ->
//                        <-         hello (nonce)     also to an initiator that looks for another rank
//   proof                ->
//                        <-         proof        or zeros: the initiator's was wrong
//   chosen               ->                          the initiator may have proven several connections and keeps one
//
// Every message has a fixed size. The responder says nothing before it has read a hello of this protocol.
#pragma once

#include <array>
#include <cstddef>

#include "base/status.h"
#include "transports/common/hello.h"

namespace tutti {

class Handshake {
 public:
  enum class Role : uint8_t { kInitiator, kResponder };
  enum class Reached : uint8_t {
    kWaiting,  // call again when the connection is readable
    kProven,   // initiator: the peer is who it should be; choose() ends the handshake
    kDone,     // responder: the initiator has chosen this connection
  };

  // `fd` and `self` are borrowed. `peer` is -1 for a responder, which learns it from the hello.
  Handshake(const LinkIdentity& self, Role role, int peer, int fd) : self_(self), role_(role), peer_(peer), fd_(fd) {}

  // As far as it gets without blocking. An error ends the connection.
  Result<Reached> advance();
  Status choose();
  // After an error: whether the connection ended and nothing wrong was said. The peer may have had too many at once, or
  // this rank was too slow for it; another connection may get through.
  bool ended() const { return ended_; }
  // A responder's: the initiator has the token.
  bool has_proof() const { return !initiates() && stage_ >= Stage::kChosen; }
  int peer() const { return peer_; }

 private:
  enum class Stage : uint8_t { kStart, kHello, kProof, kProven, kChosen, kDone };

  // True when in_ holds `size` bytes.
  Result<bool> fill(size_t size);
  Status send(std::span<const std::byte> message);
  Status end();
  Status send_hello();
  Status take_hello();
  Status take_proof();
  bool initiates() const { return role_ == Role::kInitiator; }
  Proof proof_of(bool initiator) const;

  const LinkIdentity& self_;
  const Role role_;
  int peer_;
  const int fd_;
  Stage stage_ = Stage::kStart;
  HelloBytes mine_{};
  HelloBytes theirs_{};
  std::array<std::byte, kHelloBytes> in_{};
  size_t filled_ = 0;
  bool ended_ = false;
};

}  // namespace tutti
