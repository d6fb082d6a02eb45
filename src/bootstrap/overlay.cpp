#include "bootstrap/overlay.h"

#include <poll.h>

#include <algorithm>

#include "base/log.h"
#include "bootstrap/routing.h"

namespace tutti::bootstrap {
namespace {

constexpr size_t kMaxUnsent = 64u << 20;  // a neighbour that leaves this much unread counts as hung
constexpr int kBeatsPerSilence = 4;

}  // namespace

Overlay::Overlay(int rank, int nranks, std::map<int, NewLink> links, int64_t silence_ms)
    : rank_(rank), nranks_(nranks), silence_ms_(silence_ms) {
  for (auto& [peer, link] : links)
    links_.emplace(peer, Link{std::move(link.channel), link.over_network, std::move(link.who)});
}

Clock::time_point Overlay::next_deadline() const {
  auto next = beat_at_;
  for (const auto& [peer, link] : links_) {
    if (link.beats) next = std::min(next, link.heard_at + std::chrono::milliseconds(silence_ms_));
  }
  for (const auto& [rank, suspect] : suspects_) next = std::min(next, suspect.deadline.at());
  return next;
}

void Overlay::turn(int timeout_ms, int wake_fd) {
  for (auto& [peer, link] : links_) {
    if (link.channel.unsent() == 0) continue;
    if (Result<bool> flushed = link.channel.flush(); !flushed.ok()) broken_.emplace_back(peer, flushed.status());
  }
  std::vector<pollfd> fds{{wake_fd, POLLIN, 0}};
  std::vector<int> peers;
  for (const auto& [peer, link] : links_) {
    fds.push_back({link.channel.fd(), link.channel.events(), 0});
    fds.push_back({link.channel.process_fd(), POLLIN, 0});
    peers.push_back(peer);
    if (link.fresh) timeout_ms = 0;
  }
  auto next = next_deadline();
  if (mender_) mender_->watch(fds, next);
  if (!broken_.empty()) timeout_ms = 0;
  if (next != Clock::time_point::max()) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    int until_next = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
    timeout_ms = timeout_ms < 0 ? until_next : std::min(timeout_ms, until_next);
  }
  ::poll(fds.data(), fds.size(), timeout_ms);
  for (size_t i = 0; i < peers.size(); ++i) {
    auto link = links_.find(peers[i]);
    bool has_news = fds[2 * i + 1].revents != 0 || fds[2 * i + 2].revents != 0;
    if (link == links_.end() || (!has_news && !link->second.fresh)) continue;
    link->second.fresh = false;
    serve(peers[i], link->second);
  }
  check_beats();
  give_up_broken();
  mend();
}

// Giving a link up floods the news, which may break further links.
void Overlay::give_up_broken() {
  while (!broken_.empty()) {
    auto [peer, why] = std::move(broken_.back());
    broken_.pop_back();
    auto link = links_.find(peer);
    if (link == links_.end()) continue;
    std::string who = link->second.who;
    if (left_.contains(peer)) {
      links_.erase(link);
      continue;
    }
    lose(peer, error(Code::kRemote, "rank {} ({}) has died or left without a goodbye: {}", peer, who, why.message()),
         -1);
  }
}

void Overlay::serve(int peer, Link& link) {
  for (;;) {
    Result<std::optional<Frame>> frame = link.channel.next();
    if (!frame.ok()) {
      broken_.emplace_back(peer, frame.status());
      return;
    }
    if (!frame->has_value()) break;
    link.heard_at = Clock::now();
    handle(peer, link, std::move(**frame));
    if (!links_.contains(peer)) return;
  }
  if (Result<bool> flushed = link.channel.flush(); !flushed.ok()) broken_.emplace_back(peer, flushed.status());
}

void Overlay::handle(int peer, Link& link, Frame frame) {
  Status bad;
  switch (static_cast<MessageType>(frame.type)) {
    case MessageType::kBlock:
      if (Result<Block> block = decode_block(frame.payload); block.ok() && is_expected(*block)) {
        blocks_[block->sequence].emplace(block->origin, std::move(block->bytes));
        return;
      }
      break;
    case MessageType::kHere:
      if (Result<Block> here = decode_block(frame.payload); here.ok() && is_expected(*here)) {
        if (here_.emplace(here->sequence, here->origin).second) flood(MessageType::kHere, frame.payload, peer);
        return;
      }
      break;
    case MessageType::kLost:
      if (Result<Notice> notice = decode_notice(frame.payload); notice.ok()) return hear_lost(*notice, peer);
      break;
    case MessageType::kAbort:
      if (Result<Notice> notice = decode_notice(frame.payload); notice.ok()) {
        if (!aborted_.emplace(notice->rank, notice->status()).second) return;
        events_.push_back({Event::Kind::kAbort, notice->rank, notice->status(), 0, {}});
        return flood(MessageType::kAbort, frame.payload, peer);
      }
      break;
    case MessageType::kUser:
      if (Result<Parcel> parcel = decode_parcel(frame.payload);
          parcel.ok() && is_rank(parcel->from) && is_rank(parcel->to)) {
        return route(std::move(parcel).value());
      }
      break;
    case MessageType::kSuspect:
      if (Result<Notice> notice = decode_notice(frame.payload); notice.ok()) {
        if (left_.contains(notice->rank)) return flood(MessageType::kLeft, frame.payload, -1);
        if (suspected_.insert(notice->rank).second) flood(MessageType::kSuspect, frame.payload, peer);
        return;
      }
      break;
    case MessageType::kLeft:
      if (Result<Notice> notice = decode_notice(frame.payload); notice.ok()) {
        suspects_.erase(notice->rank);
        if (notice->rank != rank_ && note_left(notice->rank)) flood(MessageType::kLeft, frame.payload, peer);
        return;
      }
      break;
    case MessageType::kGoodbye:
      note_left(peer);
      link.channel.queue(static_cast<uint32_t>(MessageType::kGoodbyeHeard), {});
      return;
    case MessageType::kGoodbyeHeard: link.goodbye_heard = true; return;
    case MessageType::kBeat: link.beats = true; return;
    default: break;
  }
  broken_.emplace_back(peer, error(Code::kRemote, "it broke the protocol with a message of type {}", frame.type));
}

// Its own news reaching a rank back means that the others have given it up (they did not hear from it in time): it must
// not go on as if nothing had happened.
void Overlay::hear_lost(const Notice& notice, int from) {
  if (!is_rank(notice.rank) || left_.contains(notice.rank)) return;
  if (notice.rank != rank_) return lose(notice.rank, notice.status(), from);
  Status why = error(Code::kRemote, "the other ranks have given this one up: {}", notice.text);
  if (!aborted_.emplace(rank_, why).second) return;
  events_.push_back({Event::Kind::kAbort, from, std::move(why), 0, {}});
}

void Overlay::lose(int rank, Status why, int heard_from) {
  if (!lost_.emplace(rank, why).second) return;
  Bytes notice = encode(Notice{rank, why.code(), std::string(why.message())});
  if (auto link = links_.find(rank); link != links_.end()) {
    // It may be alive and have been cut off: then this is how it learns.
    link->second.channel.queue(static_cast<uint32_t>(MessageType::kLost), notice);
    (void)link->second.channel.flush();
    links_.erase(link);
  }
  suspects_.erase(rank);
  if (mender_) mender_->forget(rank);
  flood(MessageType::kLost, notice, heard_from);
  events_.push_back({Event::Kind::kLost, rank, std::move(why), 0, {}});
}

bool Overlay::note_left(int rank) {
  bool is_news = is_rank(rank) && left_.insert(rank).second;
  if (is_news) events_.push_back({Event::Kind::kLeft, rank, {}, 0, {}});
  return is_news;
}

void Overlay::flood(MessageType type, const Bytes& payload, int except) {
  for (auto& [peer, link] : links_) {
    if (peer == except || left_.contains(peer)) continue;
    link.channel.queue(static_cast<uint32_t>(type), payload);
    if (Result<bool> flushed = link.channel.flush(); !flushed.ok()) broken_.emplace_back(peer, flushed.status());
  }
}

void Overlay::send(int to, uint32_t type, ByteView payload) {
  TUTTI_CHECK(is_rank(to) && payload.size() <= (1u << 20));
  route(Parcel{rank_, to, type, {}, Bytes(payload.begin(), payload.end())});
}

void Overlay::route(Parcel parcel) {
  if (parcel.to == rank_) {
    events_.push_back({Event::Kind::kMessage, parcel.from, {}, parcel.type, std::move(parcel.payload)});
    return;
  }
  if (left_.contains(parcel.to) && parcel.from != rank_) {
    // The sender does not know yet, and may be waiting for that rank.
    return flood(MessageType::kLeft, encode(Notice{parcel.to, Code::kRemote, {}}), -1);
  }
  if (is_gone(parcel.to) || parcel.path.size() >= Parcel::kMaxHops) return;
  parcel.path.push_back(rank_);
  std::vector<int> open;
  for (const auto& [peer, link] : links_) {
    if (!left_.contains(peer)) open.push_back(peer);
  }
  int next = next_hop(parcel.to, nranks_, open, parcel.path);
  if (next < 0) return;
  Link& link = links_.at(next);
  link.channel.queue(static_cast<uint32_t>(MessageType::kUser), encode(parcel));
  Result<bool> flushed = link.channel.flush();
  if (!flushed.ok()) broken_.emplace_back(next, flushed.status());
  if (link.channel.unsent() > kMaxUnsent)
    broken_.emplace_back(next, error(Code::kRemote, "it does not read what is sent to it"));
}

void Overlay::abort(const Status& why) {
  Status told = why.ok() ? error(Code::kAborted, "rank {} aborted", rank_) : why;
  if (!aborted_.emplace(rank_, told).second) return;
  flood(MessageType::kAbort, encode(Notice{rank_, told.code(), std::string(told.message())}), -1);
}

void Overlay::send_beats() {
  beating_ = true;
  beat_at_ = Clock::now();
}

void Overlay::check_beats() {
  auto now = Clock::now();
  bool network = false;
  for (auto& [peer, link] : links_) {
    network |= link.over_network;
    if (!link.over_network || !link.beats || left_.contains(peer)) continue;
    if (now - link.heard_at < std::chrono::milliseconds(silence_ms_)) continue;
    broken_.emplace_back(
        peer,
        error(Code::kRemote, "nothing was heard from it for {} ms: its host is stopped or unreachable", silence_ms_));
  }
  if (!network) beat_at_ = Clock::time_point::max();
  if (!beating_ || now < beat_at_) return;
  for (auto& [peer, link] : links_) {
    if (link.over_network && !left_.contains(peer)) link.channel.queue(static_cast<uint32_t>(MessageType::kBeat), {});
  }
  beat_at_ = now + std::chrono::milliseconds(silence_ms_ / kBeatsPerSilence);
}

void Overlay::say_goodbye() {
  leaving_ = true;
  for (auto& [peer, link] : links_) link.channel.queue(static_cast<uint32_t>(MessageType::kGoodbye), {});
}

bool Overlay::goodbye_heard() const {
  return std::all_of(links_.begin(), links_.end(), [](const auto& entry) { return entry.second.goodbye_heard; });
}

uint32_t Overlay::begin_gather() {
  blocks_.erase(gather_);
  std::erase_if(here_, [&](const auto& entry) { return entry.first == gather_; });
  return ++gather_;
}

// A neighbour can be one all_gather ahead of this rank: to be two ahead it would need this rank's block.
bool Overlay::is_expected(const Block& block) const {
  return is_rank(block.origin) && (block.sequence == gather_ || block.sequence == gather_ + 1);
}

void Overlay::send_block(int to, int origin, ByteView bytes) {
  auto link = links_.find(to);
  if (link != links_.end())
    link->second.channel.queue(static_cast<uint32_t>(MessageType::kBlock), encode(gather_, origin, bytes));
}

void Overlay::flood_here() {
  here_.emplace(gather_, rank_);
  flood(MessageType::kHere, encode(gather_, rank_, {}), -1);
}

bool Overlay::is_anyone_here() const {
  return std::any_of(here_.begin(), here_.end(), [this](const auto& entry) { return entry.first == gather_; });
}

std::vector<int> Overlay::not_here() const {
  std::vector<int> missing;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (!here_.contains({gather_, rank})) missing.push_back(rank);
  }
  return missing;
}

bool Overlay::all_sent() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& entry) { return entry.second.channel.unsent() == 0; });
}

}  // namespace tutti::bootstrap
