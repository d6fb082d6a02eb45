#include "bootstrap/doorman.h"

#include <algorithm>

namespace tutti::bootstrap {
namespace {

constexpr int64_t kVisitorTimeoutMs = 5'000;
constexpr size_t kMaxVisitors = 256;

}  // namespace

void Doorman::accept() {
  for (const Listener& listener : listeners_) {
    while (std::optional<Accepted> accepted = accept_one(listener)) {
      auto stream = accepted->is_unix ? make_unix_stream(std::move(accepted->fd))
                                      : tls_->make_stream(std::move(accepted->fd), TlsRole::kAccepts);
      if (!stream.ok()) continue;
      visitors_.push_back({Channel(std::move(stream).value(), accepted->from, kMaxHello), !accepted->is_unix,
                           Deadline::after_ms(kVisitorTimeoutMs)});
      if (visitors_.size() > kMaxVisitors) visitors_.pop_front();
    }
  }
}

void Doorman::advance(const std::function<bool(int rank)>& admit,
                      const std::function<void(int rank, NewLink link)>& enter) {
  accept();
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
    Channel& channel = visitor->channel;
    Result<bool> flushed = channel.flush();
    Result<std::optional<Frame>> frame = flushed.ok() ? channel.next() : Result<std::optional<Frame>>(flushed.status());
    if (frame.ok() && !frame->has_value() && !visitor->deadline.passed()) {
      ++visitor;
      continue;
    }
    // One frame decides.
    if (frame.ok() && frame->has_value() && (*frame)->type == static_cast<uint32_t>(MessageType::kLink)) {
      Result<LinkHello> link = decode_link((*frame)->payload);
      if (link.ok() && link->to == expected_.to && link->job == expected_.job &&
          equal_in_constant_time(link->token, expected_.token) && admit(link->from)) {
        channel.set_max_payload(kMaxMessage);
        channel.watch_process();
        channel.queue(static_cast<uint32_t>(MessageType::kLinkOk), {});
        enter(link->from, NewLink{std::move(channel), visitor->over_network, ""});
      }
    }
    visitor = visitors_.erase(visitor);
  }
}

void Doorman::watch(std::vector<pollfd>& fds, Clock::time_point& next) const {
  for (const Listener& listener : listeners_) fds.push_back({listener.fd.get(), POLLIN, 0});
  for (const Visitor& visitor : visitors_) {
    fds.push_back({visitor.channel.fd(), visitor.channel.events(), 0});
    next = std::min(next, visitor.deadline.at());
  }
}

}  // namespace tutti::bootstrap
