#include "transports/common/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace tutti {
namespace {

constexpr std::array<std::byte, 8> kChosenMessage = {std::byte{'c'}, std::byte{'h'}, std::byte{'o'}, std::byte{'s'},
                                                     std::byte{'e'}, std::byte{'n'}, std::byte{'.'}, std::byte{'\n'}};

}  // namespace

Result<Handshake::Reached> Handshake::advance() {
  while (true) {
    switch (stage_) {
      case Stage::kStart:
        if (initiates()) TUTTI_TRY(send_hello());
        stage_ = Stage::kHello;
        break;
      case Stage::kHello:
        if (!TUTTI_TRY(fill(kHelloBytes))) return Reached::kWaiting;
        TUTTI_TRY(take_hello());
        stage_ = Stage::kProof;
        break;
      case Stage::kProof:
        if (!TUTTI_TRY(fill(kProofBytes))) return Reached::kWaiting;
        TUTTI_TRY(take_proof());
        stage_ = initiates() ? Stage::kProven : Stage::kChosen;
        break;
      case Stage::kChosen:
        if (!TUTTI_TRY(fill(kChosenMessage.size()))) return Reached::kWaiting;
        if (!std::equal(kChosenMessage.begin(), kChosenMessage.end(), in_.begin())) {
          return error(Code::kRemote, "the peer broke the protocol");
        }
        stage_ = Stage::kDone;
        break;
      case Stage::kProven: return Reached::kProven;
      case Stage::kDone: return Reached::kDone;
    }
  }
}

Status Handshake::choose() {
  TUTTI_CHECK(stage_ == Stage::kProven);
  // Before a message into a connection that the peer has given up meanwhile, which would get lost without an error.
  if (TUTTI_TRY(fill(1))) return error(Code::kRemote, "the peer broke the protocol");
  stage_ = Stage::kDone;
  return send(kChosenMessage);
}

Result<bool> Handshake::fill(size_t size) {
  while (filled_ < size) {
    ssize_t received = ::recv(fd_, in_.data() + filled_, size - filled_, MSG_DONTWAIT);
    if (received > 0) {
      bool had_head = filled_ >= kHelloHeadBytes;
      filled_ += static_cast<size_t>(received);
      if (stage_ == Stage::kHello && !had_head && filled_ >= kHelloHeadBytes) {
        TUTTI_TRY(check_hello_head(in_, self_.wire));
      }
      continue;
    }
    if (received == 0 || errno == ECONNRESET || errno == EPIPE) return end();
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return system_error(errno, "cannot read from the connection");
  }
  filled_ = 0;
  return true;
}

Status Handshake::send(std::span<const std::byte> message) {
  ssize_t sent;
  do {
    sent = ::send(fd_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  // The whole handshake is smaller than any socket buffer, so a partial write is as strange as a failing one.
  if (sent == static_cast<ssize_t>(message.size())) return {};
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return end();
  return system_error(sent < 0 ? errno : EMSGSIZE, "cannot write to the connection");
}

Status Handshake::end() {
  ended_ = true;
  return error(Code::kRemote, "the peer closed the connection during the handshake");
}

Status Handshake::send_hello() {
  LinkHello hello{.wire = self_.wire,
                  .job = self_.job,
                  .rank = static_cast<uint32_t>(self_.rank),
                  .peer = static_cast<uint32_t>(peer_),
                  .nranks = static_cast<uint32_t>(self_.nranks),
                  .nonce = {}};
  fill_random(hello.nonce);
  mine_ = encode(hello);
  return send(mine_);
}

Status Handshake::take_hello() {
  theirs_ = in_;
  LinkHello hello = TUTTI_TRY(parse_hello(theirs_, self_.wire));
  Status checked = check_hello(hello, self_, peer_);
  if (initiates()) return checked.ok() ? send(proof_of(true)) : checked;
  peer_ = static_cast<int>(hello.rank);
  // Who has found another rank, or another job's, is told whom: if the connection only ended, it would come again.
  Status told = send_hello();
  return checked.ok() ? told : checked;
}

Status Handshake::take_proof() {
  Proof proof;
  std::copy_n(in_.begin(), proof.size(), proof.begin());
  if (!equal(proof, proof_of(!initiates()))) {
    if (!initiates()) (void)send(Proof{});  // nobody's proof: an initiator that only saw an end would come again
    return error(Code::kRemote, "wrong token: the peer could not prove that it belongs to this job");
  }
  return initiates() ? Status() : send(proof_of(false));
}

Proof Handshake::proof_of(bool initiator) const {
  return initiates() ? prove(self_.token, initiator, mine_, theirs_) : prove(self_.token, initiator, theirs_, mine_);
}

}  // namespace tutti
