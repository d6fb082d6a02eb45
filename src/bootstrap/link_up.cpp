#include "bootstrap/link_up.h"

#include <poll.h>

#include <list>

#include "base/log.h"
#include "bootstrap/dialer.h"
#include "bootstrap/meeting.h"

namespace tutti::bootstrap {
namespace {

constexpr int64_t kStrangerTimeoutMs = 5'000;

Frame frame_of(MessageType type, Bytes payload) { return {static_cast<uint32_t>(type), std::move(payload)}; }

class Linking {
 public:
  explicit Linking(const LinkUp& plan) : plan_(plan) {}

  Status open();
  Result<std::map<int, NewLink>> run(Deadline deadline);

 private:
  struct Stranger {
    Channel channel;
    bool over_network;
    Deadline deadline;
  };

  bool complete() const { return links_.size() == plan_.neighbours.hellos.size(); }
  void accept_strangers();
  void advance_dialers();
  void hear_strangers();
  bool admit(Stranger& stranger, const Frame& frame);
  Result<bool> hear_meeting_point();
  void wait(Deadline deadline);
  Status late() const;

  const LinkUp& plan_;
  std::unique_ptr<TlsContext> tls_;
  std::map<int, const Hello*> expected_;  // higher neighbours that have not come yet
  std::map<int, Dialer> dialers_;         // lower ones that have not answered yet
  std::list<Stranger> strangers_;
  std::map<int, NewLink> links_;
  bool ready_sent_ = false;
};

Status Linking::open() {
  tls_ = TUTTI_TRY(TlsContext::create(derive(plan_.neighbours.token, "tutti overlay")));
  for (const Hello& hello : plan_.neighbours.hellos) {
    if (hello.rank > plan_.rank) {
      expected_.emplace(hello.rank, &hello);
      continue;
    }
    LinkHello greeting{plan_.rank, hello.rank, plan_.neighbours.job, plan_.neighbours.token};
    dialers_.emplace(hello.rank, Dialer(hello.reachable_from(plan_.host), tls_.get(), fmt::format("rank {} ({})", hello.rank, hello.who()),
                                        frame_of(MessageType::kLink, encode(greeting))));
  }
  return {};
}

Result<std::map<int, NewLink>> Linking::run(Deadline deadline) {
  for (;;) {
    accept_strangers();
    hear_strangers();
    advance_dialers();
    for (auto& [rank, link] : links_) TUTTI_TRY(link.channel.flush());
    if (complete() && !ready_sent_) {
      plan_.meeting_point->queue(static_cast<uint32_t>(MessageType::kReady), {});
      ready_sent_ = true;
    }
    if (TUTTI_TRY(hear_meeting_point())) return std::move(links_);
    if (deadline.passed()) return late();
    wait(deadline);
  }
}

void Linking::accept_strangers() {
  for (const Listener& listener : *plan_.listeners) {
    while (std::optional<Accepted> accepted = accept_one(listener)) {
      auto stream = accepted->is_unix ? make_unix_stream(std::move(accepted->fd))
                                      : tls_->make_stream(std::move(accepted->fd), TlsRole::kAccepts);
      if (!stream.ok()) continue;
      strangers_.push_back({Channel(std::move(stream).value(), accepted->from, kMaxHello), !accepted->is_unix,
                            Deadline::after_ms(kStrangerTimeoutMs)});
    }
  }
}

void Linking::hear_strangers() {
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    bool keep = !stranger->deadline.passed();
    if (Result<bool> flushed = stranger->channel.flush(); !flushed.ok()) keep = false;
    if (keep) {
      Result<std::optional<Frame>> frame = stranger->channel.next();
      keep = frame.ok() && (!frame->has_value() || !admit(*stranger, **frame)) && !(frame.ok() && frame->has_value());
    }
    stranger = keep ? std::next(stranger) : strangers_.erase(stranger);
  }
}

// True when the frame proves that the stranger is an expected neighbour, which then has a link.
bool Linking::admit(Stranger& stranger, const Frame& frame) {
  Result<LinkHello> link = decode_link(frame.payload);
  if (frame.type != static_cast<uint32_t>(MessageType::kLink) || !link.ok()) return false;
  auto expected = expected_.find(link->from);
  bool known = expected != expected_.end() && link->to == plan_.rank && link->job == plan_.neighbours.job &&
               equal_in_constant_time(link->token, plan_.neighbours.token);
  if (!known) return false;
  std::string who = expected->second->who();
  expected_.erase(expected);
  Channel& channel = stranger.channel;
  channel.set_peer(fmt::format("rank {} ({})", link->from, who));
  channel.set_max_payload(kMaxMessage);
  channel.queue(static_cast<uint32_t>(MessageType::kLinkOk), {});
  links_.emplace(link->from, NewLink{std::move(channel), stranger.over_network, std::move(who)});
  return true;
}

void Linking::advance_dialers() {
  for (auto entry = dialers_.begin(); entry != dialers_.end();) {
    auto& [rank, dialer] = *entry;
    std::optional<Frame> answer;
    if (dialer.advance()) answer = dialer.answer();
    if (!answer || answer->type != static_cast<uint32_t>(MessageType::kLinkOk)) {
      ++entry;
      continue;
    }
    const Hello* hello = nullptr;
    for (const Hello& candidate : plan_.neighbours.hellos) {
      if (candidate.rank == rank) hello = &candidate;
    }
    bool over_network = dialer.over_network();
    links_.emplace(rank, NewLink{dialer.take(), over_network, hello->who()});
    entry = dialers_.erase(entry);
  }
}

Result<bool> Linking::hear_meeting_point() {
  TUTTI_TRY(plan_.meeting_point->flush());
  std::optional<Frame> frame = TUTTI_TRY(plan_.meeting_point->next());
  if (!frame) return false;
  if (frame->type == static_cast<uint32_t>(MessageType::kGo) && ready_sent_) return true;
  return refusal(*frame);
}

void Linking::wait(Deadline deadline) {
  std::vector<pollfd> fds{{plan_.meeting_point->fd(), plan_.meeting_point->events(), 0}};
  auto next = deadline.at();
  for (const Listener& listener : *plan_.listeners) fds.push_back({listener.fd.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) {
    fds.push_back({stranger.channel.fd(), stranger.channel.events(), 0});
    next = std::min(next, stranger.deadline.at());
  }
  for (const auto& [rank, dialer] : dialers_) {
    if (dialer.fd() >= 0) fds.push_back({dialer.fd(), dialer.events(), 0});
    next = std::min(next, dialer.wake_at());
  }
  for (const auto& [rank, link] : links_) {
    if (link.channel.unsent() > 0) fds.push_back({link.channel.fd(), POLLOUT, 0});
  }
  auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp<int64_t>(left, 0, 1'000)));
}

Status Linking::late() const {
  std::vector<int> ranks;
  std::string reason;
  for (const auto& [rank, dialer] : dialers_) {
    ranks.push_back(rank);
    if (reason.empty() && !dialer.failure().ok()) reason = fmt::format(" ({})", dialer.failure().message());
  }
  for (const auto& [rank, hello] : expected_) ranks.push_back(rank);
  if (ranks.empty()) return error(Code::kTimeout, "the other ranks did not finish connecting in time");
  return error(Code::kTimeout, "rank {} cannot connect to {}{}: check that the hosts reach each other, or name the right network with "
               "TUTTI_INTERFACE", plan_.rank, list_ranks(ranks), reason);
}

}  // namespace

Result<std::map<int, NewLink>> link_up(const LinkUp& plan, Deadline deadline) {
  Linking linking(plan);
  TUTTI_TRY(linking.open());
  return linking.run(deadline);
}

Status refusal(const Frame& frame) {
  if (frame.type != static_cast<uint32_t>(MessageType::kRefused)) {
    return error(Code::kRemote, "the meeting point sent an unexpected message of type {}", frame.type);
  }
  Result<Notice> notice = decode_notice(frame.payload);
  return notice.ok() ? notice->status() : notice.status();
}

}  // namespace tutti::bootstrap
