#include "bootstrap/meeting_server.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "base/log.h"
#include "base/random.h"

namespace tutti::bootstrap {
namespace {

constexpr int64_t kHelloTimeoutMs = 5'000;  // from connecting to a whole hello
constexpr int64_t kFarewellMs = 1'000;      // for a last answer to be delivered
constexpr size_t kMaxStrangers = 256;       // connections that have not said hello yet
constexpr int64_t kOverlayTimeoutMs = 30'000;

}  // namespace

void MeetingServer::Guest::dismiss() {
  leaving = true;
  deadline = Deadline::after_ms(kFarewellMs);
}

Result<std::unique_ptr<MeetingServer>> MeetingServer::create(const UniqueId& id, std::vector<Listener> listeners) {
  auto server = std::make_unique<MeetingServer>();
  server->serves_once_ = id.kind != UniqueId::Kind::kServed;
  server->secret_check_ = id.secret_check();
  server->listeners_ = std::move(listeners);
  server->wake_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!server->wake_) return system_error(errno, "cannot make an eventfd");
  server->tls_ = TlsContext::create(id.tls_key());
  return server;
}

void MeetingServer::run() {
  while (!stopping_ || !guests_.empty()) {
    wait();
    accept_guests();
    for (Guest& guest : guests_) serve(guest);
    bound_strangers();
    check_deadlines();
  }
}

void MeetingServer::stop() {
  stop_requested_ = true;
  uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void MeetingServer::wait() {
  std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}};
  for (const Listener& listener : listeners_) fds.push_back({listener.fd.get(), POLLIN, 0});
  auto next = std::min(meeting_.deadline(), overlay_deadline_.at());
  for (const Guest& guest : guests_) {
    fds.push_back({guest.channel.fd(), guest.channel.events(), 0});
    next = std::min(next, guest.deadline.at());
  }
  int timeout_ms = -1;
  if (next != Clock::time_point::max()) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }
  ::poll(fds.data(), fds.size(), timeout_ms);
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof(count));
  if (stop_requested_ && !stopping_) begin_to_stop();
}

void MeetingServer::begin_to_stop() {
  stopping_ = true;
  listeners_.clear();
  if (!meeting_.empty()) {
    fail(error(Code::kRemote, "the process with the meeting point ended before all ranks had joined"));
  }
  for (Guest& guest : guests_) guest.dismiss();
}

void MeetingServer::accept_guests() {
  for (const Listener& listener : listeners_) {
    while (std::optional<Accepted> accepted = accept_one(listener)) {
      if (Status works = accepted->is_unix ? Status() : tls_->prepare(); !works.ok()) return fail(works);
      auto stream = accepted->is_unix ? make_unix_stream(std::move(accepted->fd))
                                      : tls_->make_stream(std::move(accepted->fd), TlsRole::kAccepts);
      if (!stream.ok()) {
        log_warn("refused a connection to the meeting point: {}", stream.status().message());
        continue;
      }
      guests_.push_back(
          {Channel(std::move(stream).value(), accepted->from, kMaxHello), Deadline::after_ms(kHelloTimeoutMs)});
    }
  }
}

// Strangers beyond the bound go, oldest first: a port scanner must not use up the descriptors. Not before they were
// served: hundreds of ranks may have come at once and said hello since.
void MeetingServer::bound_strangers() {
  size_t strangers = 0;
  for (const Guest& guest : guests_) strangers += guest.rank < 0 && !guest.leaving;
  for (auto guest = guests_.begin(); guest != guests_.end() && strangers > kMaxStrangers;) {
    bool stranger = guest->rank < 0 && !guest->leaving;
    guest = stranger ? guests_.erase(guest) : std::next(guest);
    strangers -= stranger;
  }
}

void MeetingServer::serve(Guest& guest) {
  if (Result<bool> flushed = guest.channel.flush(); !flushed.ok()) return drop(guest, flushed.status());
  for (;;) {
    Result<std::optional<Frame>> frame = guest.channel.next();
    if (!frame.ok()) return drop(guest, frame.status());
    if (!frame->has_value()) break;
    if (!guest.leaving) handle(guest, **frame);
  }
  if (Result<bool> flushed = guest.channel.flush(); !flushed.ok()) drop(guest, flushed.status());
}

void MeetingServer::handle(Guest& guest, const Frame& frame) {
  auto type = static_cast<MessageType>(frame.type);
  if (guest.rank < 0 && type == MessageType::kHello) {
    Result<Hello> hello = decode_hello(frame.payload);
    if (hello.ok()) return welcome(guest, *hello);
    if (hello.status().code() != Code::kInvalidUsage) return drop(guest, hello.status());
    guest.rank = kMaxRanks;  // a tutti of another version: it hears the sentence like everyone else
    return fail(hello.status());
  }
  if (guest.rank >= 0 && type == MessageType::kReady && meeting_.complete()) {
    guest.ready = true;
    return go_if_ready();
  }
  if (guest.rank >= 0 && type == MessageType::kFailed) {
    Result<Notice> notice = decode_notice(frame.payload);
    if (notice.ok()) return fail(notice->status());
  }
  drop(guest, error(Code::kRemote, "{} sent a message that does not belong here", guest.channel.peer()));
}

void MeetingServer::welcome(Guest& guest, const Hello& hello) {
  if (!equal_in_constant_time(hello.secret_check, secret_check_)) {
    ++wrong_secrets_;
    log_warn("refused {} as rank {}: its secret is not the job's", hello.who(), hello.rank);
    return refuse(guest,
                  error(Code::kInvalidUsage, "the secret of this process is not the job's: check TUTTI_SECRET_FILE"));
  }
  guest.rank = hello.rank;
  guest.deadline = Deadline::never();
  guest.channel.set_peer(fmt::format("rank {} ({})", hello.rank, hello.who()));
  // Who comes after its meeting has failed hears the same sentence. A rank that has heard it comes for a new meeting.
  if (!failure_.ok() && meeting_.empty() && told_.insert(hello.rank).second) {
    return refuse(guest, failure_);
  }
  failure_ = {};
  Status added = meeting_.add(hello);
  if (!added.ok()) return fail(added);
  if (meeting_.complete()) begin_overlay();
}

void MeetingServer::begin_overlay() {
  Secret token;
  uint64_t job = 0;
  Status random = random_bytes(token);
  if (random.ok()) random = random_bytes(std::as_writable_bytes(std::span(&job, 1)));
  if (!random.ok()) return fail(random);
  for (Guest& guest : guests_) {
    if (guest.rank < 0 || guest.leaving) continue;
    guest.channel.set_max_payload(kMaxMessage);
    guest.queue(MessageType::kNeighbours, encode(meeting_.neighbours_for(guest.rank, job, token)));
    // Tells now, not on the guest's next turn: it has nothing to wait for.
    (void)guest.channel.flush();
  }
  overlay_deadline_ = Deadline::after_ms(kOverlayTimeoutMs);
}

void MeetingServer::go_if_ready() {
  int ready = 0;
  for (const Guest& guest : guests_) ready += guest.ready && !guest.leaving;
  if (ready < meeting_.nranks()) return;
  // Rank 0's meeting point ends with its join. Who comes for the next communicator must not find this one.
  if (serves_once_) listeners_.clear();
  for (Guest& guest : guests_) {
    if (guest.rank < 0 || guest.leaving) continue;
    guest.queue(MessageType::kGo, {});
    (void)guest.channel.flush();
    guest.dismiss();
  }
  begin_anew();
}

void MeetingServer::refuse(Guest& guest, const Status& why) {
  guest.queue(MessageType::kRefused, encode(Notice{-1, why.code(), std::string(why.message())}));
  (void)guest.channel.flush();
  guest.dismiss();
}

// Everyone who is here hears why, and the next meeting may begin.
void MeetingServer::fail(const Status& why) {
  failure_ = why;
  told_.clear();
  for (Guest& guest : guests_) {
    if (guest.rank < 0 || guest.leaving) continue;
    told_.insert(guest.rank);
    refuse(guest, why);
  }
  begin_anew();
}

void MeetingServer::begin_anew() {
  meeting_ = Meeting();
  overlay_deadline_ = Deadline::never();
  wrong_secrets_ = 0;
}

void MeetingServer::drop(Guest& guest, const Status& why) {
  bool member = guest.rank >= 0 && !guest.leaving;
  if (guest.rank < 0 && !guest.leaving && why.code() == Code::kInvalidUsage) {
    ++wrong_secrets_;
    log_warn("refused a connection to the meeting point from {}", why.message());
  }
  guest.leaving = true;
  guest.deadline = Deadline::after_ms(0);
  if (!member) return;
  std::vector<int> absent = meeting_.absent();
  fail(error(Code::kRemote, "{} ended before all ranks had joined{}", guest.channel.peer(),
             absent.empty() ? "" : fmt::format("; it had waited for {}", list_ranks(absent))));
}

void MeetingServer::check_deadlines() {
  if (!meeting_.complete() && Clock::now() >= meeting_.deadline()) {
    Status missing = meeting_.missing();
    if (wrong_secrets_ > 0) {
      missing = error(Code::kTimeout,
                      "{}; {} connection(s) with a wrong secret were refused: check TUTTI_SECRET_FILE of those ranks",
                      missing.message(), wrong_secrets_);
    }
    fail(missing);
  }
  if (overlay_deadline_.passed()) {
    std::vector<int> late;
    for (const Guest& guest : guests_) {
      if (guest.rank >= 0 && !guest.leaving && !guest.ready) late.push_back(guest.rank);
    }
    fail(error(Code::kTimeout, "{} did not connect to the neighbours within {} ms", list_ranks(late),
               kOverlayTimeoutMs));
  }
  guests_.remove_if([this](const Guest& guest) {
    bool told = guest.leaving && guest.channel.unsent() == 0;
    return guest.deadline.passed() || (told && (guest.channel.closed() || stopping_));
  });
}

}  // namespace tutti::bootstrap
