#include "bootstrap/mender.h"

#include <algorithm>

namespace tutti::bootstrap {

Mender::Mender(int rank, std::vector<Hello> hellos, uint64_t job, const Secret& token, std::unique_ptr<TlsContext> tls,
               Doorman doorman, int64_t silence_ms)
    : rank_(rank),
      hellos_(std::move(hellos)),
      job_(job),
      token_(token),
      tls_(std::move(tls)),
      silence_ms_(silence_ms),
      doorman_(std::move(doorman)) {}

void Mender::knock(int rank) {
  if (knocking_.contains(rank)) return;
  const Hello& hello = hellos_[static_cast<size_t>(rank)];
  const HostIdentity& here = hellos_[static_cast<size_t>(rank_)].host;
  Frame greeting{static_cast<uint32_t>(MessageType::kLink), encode(LinkHello{rank_, rank, job_, token_})};
  knocking_.emplace(
      rank, Knock{Dialer(hello.reachable_from(here), tls_.get(), fmt::format("rank {}", rank), std::move(greeting)),
                  Deadline::after_ms(silence_ms_)});
}

Mender::News Mender::advance(const std::function<bool(int rank)>& linked) {
  News news;
  int nranks = static_cast<int>(hellos_.size());
  auto admit = [&](int rank) {
    bool possible = rank >= 0 && rank < nranks && rank != rank_ && !linked(rank) && !news.links.contains(rank);
    // When two ranks knock at each other, the lower one's connection is kept.
    return possible && !(knocking_.contains(rank) && rank_ < rank);
  };
  doorman_.advance(admit, [&](int rank, NewLink link) {
    link.who = who(rank);
    news.links.emplace(rank, std::move(link));
  });
  for (auto entry = knocking_.begin(); entry != knocking_.end();) {
    auto& [rank, knock] = *entry;
    Dialer& dialer = knock.dialer;
    std::optional<Frame> answer;
    if (dialer.advance()) answer = dialer.answer();
    bool in = answer && answer->type == static_cast<uint32_t>(MessageType::kLinkOk);
    // Nobody at the door, or a stranger behind it, is proof at once. Mere silence may be a busy process.
    bool gone = dialer.rounds() > 0 && dialer.failure().code() != Code::kTimeout;
    if (linked(rank) || news.links.contains(rank)) {
      // It has knocked here meanwhile.
    } else if (in) {
      bool over_network = dialer.over_network();
      news.links.emplace(rank, NewLink{dialer.take(), over_network, who(rank)});
    } else if (gone || knock.deadline.passed()) {
      news.silent.emplace(rank, error(Code::kRemote, "rank {} ({}) has died: {}", rank, who(rank),
                                      gone ? dialer.failure().message() : "it does not answer"));
    } else {
      ++entry;
      continue;
    }
    entry = knocking_.erase(entry);
  }
  return news;
}

void Mender::watch(std::vector<pollfd>& fds, Clock::time_point& next) const {
  doorman_.watch(fds, next);
  for (const auto& [rank, knock] : knocking_) {
    if (knock.dialer.fd() >= 0) fds.push_back({knock.dialer.fd(), knock.dialer.events(), 0});
    if (knock.dialer.process_fd() >= 0) fds.push_back({knock.dialer.process_fd(), POLLIN, 0});
    next = std::min({next, knock.dialer.wake_at(), knock.deadline.at()});
  }
}

}  // namespace tutti::bootstrap
