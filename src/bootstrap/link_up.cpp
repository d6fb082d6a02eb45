#include "bootstrap/link_up.h"

#include <poll.h>

#include "bootstrap/dialer.h"
#include "bootstrap/meeting.h"

namespace tutti::bootstrap {
namespace {

class Linking {
 public:
  explicit Linking(const LinkUp& plan);
  Result<std::map<int, NewLink>> run(Deadline deadline);

 private:
  Status prepare_network();
  bool complete() const { return links_.size() == plan_.neighbours.hellos.size(); }
  void open_doors();
  void advance_dialers();
  Result<bool> hear_meeting_point();
  void wait(Deadline deadline);
  Status late() const;

  const LinkUp& plan_;
  std::map<int, std::string> expected_;  // higher neighbours that have not come yet, and who they are
  std::map<int, Dialer> dialers_;        // lower ones that have not answered yet
  std::map<int, std::string> dialed_;    // who these are
  std::map<int, NewLink> links_;
  bool ready_sent_ = false;
};

Linking::Linking(const LinkUp& plan) : plan_(plan) {
  for (const Hello& hello : plan_.neighbours.hellos) {
    if (hello.rank > plan_.rank) {
      expected_.emplace(hello.rank, hello.who());
      continue;
    }
    LinkHello greeting{plan_.rank, hello.rank, plan_.neighbours.job, plan_.neighbours.token};
    dialed_.emplace(hello.rank, hello.who());
    dialers_.emplace(hello.rank, Dialer(hello.reachable_from(plan_.host), &plan_.tls,
                                        fmt::format("rank {} ({})", hello.rank, hello.who()),
                                        Frame{static_cast<uint32_t>(MessageType::kLink), encode(greeting)}));
  }
}

// Where TLS does not work that is said at once, and not by connections that never come about.
Status Linking::prepare_network() {
  for (const Hello& hello : plan_.neighbours.hellos) {
    std::vector<Endpoint> ways = hello.reachable_from(plan_.host);
    if (ways.empty() || !ways.front().is_unix()) return plan_.tls.prepare();
  }
  return {};
}

Result<std::map<int, NewLink>> Linking::run(Deadline deadline) {
  TUTTI_TRY(prepare_network());
  for (;;) {
    open_doors();
    advance_dialers();
    for (auto& [rank, link] : links_) TUTTI_TRY(link.channel.flush());
    if (complete() && !ready_sent_) {
      plan_.meeting_point.queue(static_cast<uint32_t>(MessageType::kReady), {});
      ready_sent_ = true;
    }
    if (TUTTI_TRY(hear_meeting_point())) return std::move(links_);
    if (deadline.passed()) return late();
    wait(deadline);
  }
}

void Linking::open_doors() {
  plan_.doorman.advance([this](int rank) { return expected_.contains(rank); },
                        [this](int rank, NewLink link) {
                          link.who = expected_.at(rank);
                          link.channel.set_peer(fmt::format("rank {} ({})", rank, link.who));
                          expected_.erase(rank);
                          links_.emplace(rank, std::move(link));
                        });
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
    bool over_network = dialer.over_network();
    links_.emplace(rank, NewLink{dialer.take(), over_network, dialed_.at(rank)});
    entry = dialers_.erase(entry);
  }
}

Result<bool> Linking::hear_meeting_point() {
  TUTTI_TRY(plan_.meeting_point.flush());
  std::optional<Frame> frame = TUTTI_TRY(plan_.meeting_point.next());
  if (!frame) return false;
  if (frame->type == static_cast<uint32_t>(MessageType::kGo) && ready_sent_) return true;
  return refusal(*frame);
}

void Linking::wait(Deadline deadline) {
  std::vector<pollfd> fds{{plan_.meeting_point.fd(), plan_.meeting_point.events(), 0}};
  auto next = deadline.at();
  plan_.doorman.watch(fds, next);
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
  for (const auto& [rank, who] : expected_) ranks.push_back(rank);
  if (ranks.empty()) return error(Code::kTimeout, "the other ranks did not finish connecting in time");
  return error(Code::kTimeout,
               "rank {} cannot connect to {}{}: check that the hosts reach each other, or name the right network with "
               "TUTTI_INTERFACE",
               plan_.rank, list_ranks(ranks), reason);
}

}  // namespace

Result<std::map<int, NewLink>> link_up(const LinkUp& plan, Deadline deadline) { return Linking(plan).run(deadline); }

Status refusal(const Frame& frame) {
  if (frame.type != static_cast<uint32_t>(MessageType::kRefused)) {
    return error(Code::kRemote, "the meeting point sent an unexpected message of type {}", frame.type);
  }
  Result<Notice> notice = decode_notice(frame.payload);
  return notice.ok() ? notice->status() : notice.status();
}

}  // namespace tutti::bootstrap
