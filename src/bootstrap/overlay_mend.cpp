// How the overlay stays whole: see mender.h.
#include "bootstrap/overlay.h"

namespace tutti::bootstrap {
namespace {

// For the ranks that know of a goodbye to say so; the answer takes a few hops.
constexpr int64_t kSuspicionMs = 150;

}  // namespace

void Overlay::mend() {
  if (!mender_) return;
  Mender::News news = mender_->advance([this](int rank) { return links_.contains(rank) || is_gone(rank); });
  for (auto& [rank, link] : news.links) welcome(rank, std::move(link));
  for (auto& [rank, why] : news.silent) suspect(rank, std::move(why));
  std::vector<std::pair<int, Status>> dead;
  for (const auto& [rank, suspect] : suspects_) {
    if (suspect.deadline.passed()) dead.emplace_back(rank, suspect.why);
  }
  for (auto& [rank, why] : dead) lose(rank, std::move(why), -1);
  give_up_broken();
  knock_at_the_next();
}

// The next rank that may be alive must be linked: then the survivors form a ring, and all the dead lie in its gaps.
void Overlay::knock_at_the_next() {
  if (lost_.empty() && suspects_.empty()) return;
  for (int step = 1; step < nranks_; ++step) {
    int next = (rank_ + step) % nranks_;
    if (is_gone(next) || suspects_.contains(next)) continue;
    if (!links_.contains(next)) mender_->knock(next);
    return;
  }
}

// A rank that left in good order does not answer either.
void Overlay::suspect(int rank, Status why) {
  if (is_gone(rank) || links_.contains(rank)) return;
  suspected_.insert(rank);
  flood(MessageType::kSuspect, encode(Notice{rank, why.code(), std::string(why.message())}), -1);
  suspects_.emplace(rank, Suspect{std::move(why), Deadline::after_ms(kSuspicionMs)});
}

// The two sides of a new link may know of different deaths.
void Overlay::welcome(int rank, NewLink link) {
  suspects_.erase(rank);
  Channel& channel = link.channel;
  auto tell = [&](MessageType type, const std::map<int, Status>& news) {
    for (const auto& [about, why] : news) {
      channel.queue(static_cast<uint32_t>(type), encode(Notice{about, why.code(), std::string(why.message())}));
    }
  };
  tell(MessageType::kLost, lost_);
  tell(MessageType::kAbort, aborted_);
  if (leaving_) channel.queue(static_cast<uint32_t>(MessageType::kGoodbye), {});
  if (Result<bool> flushed = channel.flush(); !flushed.ok()) broken_.emplace_back(rank, flushed.status());
  if (beating_ && link.over_network) beat_at_ = Clock::now();
  links_.emplace(rank, Link{std::move(link.channel), link.over_network, std::move(link.who)});
}

}  // namespace tutti::bootstrap
