#include "bootstrap/dialer.h"

#include <algorithm>

#include "bootstrap/messages.h"
#include "bootstrap/sockets.h"

namespace tutti::bootstrap {
namespace {

constexpr int64_t kFirstAttemptMs = 1'000;
constexpr int64_t kLongestAttemptMs = 5'000;
constexpr int64_t kFirstPauseMs = 5;
constexpr int64_t kLongestPauseMs = 250;

// A wrong secret tells more than a stranger, and a stranger more than nobody.
int weight(const Status& failure) {
  if (failure.ok()) return 0;
  if (failure.code() == Code::kInvalidUsage) return 3;
  return failure.code() == Code::kRemote ? 2 : 1;
}

}  // namespace

bool Dialer::advance() {
  // Every turn of the loop ends one attempt, and a whole round of them ends in a pause.
  while (true) {
    if (!channel_ && !pause_.passed()) return false;
    if (!channel_) start_attempt();
    if (!channel_) continue;
    Result<bool> flushed = channel_->flush();
    if (!flushed.ok()) {
      give_up(flushed.status());
      continue;
    }
    if (*flushed && channel_->authenticated()) {
      attempt_ = Deadline::never();
      return true;
    }
    if (!attempt_.passed()) return false;
    give_up(error(Code::kTimeout, "{} at {} does not answer", peer_, endpoints_[current_].text()));
  }
}

std::optional<Frame> Dialer::answer() {
  if (!channel_) return std::nullopt;
  Result<std::optional<Frame>> frame = channel_->next();
  if (!frame.ok()) {
    give_up(frame.status());
    return std::nullopt;
  }
  return std::move(*frame);
}

Channel Dialer::take() {
  TUTTI_CHECK(channel_.has_value());
  Channel channel = std::move(*channel_);
  channel_.reset();
  channel.set_peer(peer_);
  return channel;
}

void Dialer::start_attempt() {
  if (endpoints_.empty()) return give_up(error(Code::kSystem, "{} has no address", peer_));
  const Endpoint& endpoint = endpoints_[current_];
  Result<Fd> fd = start_connect(endpoint);
  if (!fd.ok()) return give_up(fd.status());
  TUTTI_CHECK(endpoint.is_unix() || tls_ != nullptr);
  auto stream = endpoint.is_unix() ? make_unix_stream(std::move(fd).value())
                                   : tls_->make_stream(std::move(fd).value(), TlsRole::kConnects);
  if (!stream.ok()) return give_up(stream.status());
  channel_.emplace(std::move(stream).value(), fmt::format("{} at {}", peer_, endpoint.text()), kMaxMessage);
  channel_->watch_process();
  channel_->queue(greeting_.type, greeting_.payload);
  attempt_ = Deadline::after_ms(std::min(kFirstAttemptMs << std::min(rounds_, 3), kLongestAttemptMs));
}

void Dialer::give_up(Status why) {
  channel_.reset();
  if (weight(why) >= weight(failure_)) failure_ = std::move(why);
  if (++current_ < endpoints_.size()) return;
  current_ = 0;
  pause_ = Deadline::after_ms(std::min(kFirstPauseMs << std::min(rounds_, 10), kLongestPauseMs));
  ++rounds_;
}

}  // namespace tutti::bootstrap
