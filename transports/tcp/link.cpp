#include "transports/tcp/link.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"
#include "transports/common/mapped.h"

namespace tutti {
namespace {

constexpr int kReadsPerPoll = 16;     // so that one busy peer does not keep the others waiting
constexpr int kDrainReads = 64;

// A single part takes the kernel less to look at.
ssize_t receive_into(int socket, std::span<iovec> space) {
  if (space.size() == 1) return ::recv(socket, space[0].iov_base, space[0].iov_len, MSG_DONTWAIT);
  msghdr message{};
  message.msg_iov = space.data();
  message.msg_iovlen = space.size();
  return ::recvmsg(socket, &message, MSG_DONTWAIT);
}

const std::byte* start_of(const Line& line) { return std::as_bytes(std::span(&line, 1)).data(); }

}  // namespace

TcpLink::~TcpLink() {
  if (!socket_) return;
  if (state_.ok()) sender_.leave();
  ::shutdown(socket_.get(), SHUT_WR);
  // Closing with unread bytes would reset the connection and take away from the peer what it has not read yet.
  std::array<std::byte, 4096> scrap;
  for (int i = 0; i < kDrainReads && ::recv(socket_.get(), scrap.data(), scrap.size(), MSG_DONTWAIT) > 0; ++i) {
  }
}

Result<Progress> TcpLink::connect(std::span<const std::byte> peer_address) {
  TUTTI_TRY(state_.check());
  auto stepped = step(peer_address);
  TUTTI_TRY(state_.check());
  if (!stepped.ok()) return state_.fail(stepped.status().code(), stepped.status().message());
  return stepped;
}

Result<Progress> TcpLink::step(std::span<const std::byte> peer_address) {
  if (socket_) return Progress::kDone;
  if (bell_ == nullptr) {
    TUTTI_TRY(start(peer_address));
    return Progress::kMoved;
  }
  Progress progress = TUTTI_TRY(connector_->advance());
  if (progress == Progress::kDone) become_link(connector_->take());
  return progress;
}

Status TcpLink::start(std::span<const std::byte> peer_address) {
  connector_ = TUTTI_TRY(shared_.meeting.connector_to(peer(), peer_address));
  bell_ = TUTTI_TRY(Doorbell::create());
  shared_.bells.set(peer(), bell_);
  return {};
}

// The handshake has already moved fresh random bytes both ways and checked what came back.
void TcpLink::become_link(Fd socket) {
  connector_.reset();
  socket_ = std::move(socket);
  tune_connection(socket_.get());
  sender_.attach(socket_.get());
  (void)remote_.add(kLanding, SIZE_MAX, nullptr);
  published_.store(socket_.get());
}

std::string TcpLink::connect_report() const {
  return connector_ == nullptr ? "" : connector_->report();
}

Status TcpLink::share(const LocalMemory& memory) {
  TUTTI_TRY(state_.check());
  exposed_[memory.id] = memory.bytes;
  Frame frame{.kind = Frame::Kind::kShare, .memory = memory.id, .size_bytes = memory.bytes.size(), .line = {}};
  if (Status sent = sender_.control(frame); !sent.ok()) return state_.fail(sent.code(), sent.message());
  return {};
}

void TcpLink::land_in(uint64_t at, std::span<std::byte> memory) { landings_.push_back({at, memory}); }

void TcpLink::land_no_more(uint64_t at) {
  auto found = std::find_if(landings_.begin(), landings_.end(), [at](const Landing& each) { return each.at == at; });
  if (found == landings_.end()) return;
  if (reader_.is_writing(kLanding, at, found->memory.size())) {
    (void)state_.fail(Code::kInternal, "a payload is on its way into memory of a call that is over");
  }
  landings_.erase(found);
}

void TcpLink::divert(const Line& signal, uint64_t number, std::span<std::byte> place) {
  TUTTI_CHECK(std::none_of(diversions_.begin(), diversions_.end(),
                           [&](const Diversion& each) { return each.signal == start_of(signal); }));
  diversions_.push_back({.signal = start_of(signal), .number = number, .place = place});
}

bool TcpLink::divert_no_more(const Line& signal) {
  auto found = std::find_if(diversions_.begin(), diversions_.end(),
                            [&](const Diversion& each) { return each.signal == start_of(signal); });
  if (found == diversions_.end()) return false;
  Diversion over = *found;
  diversions_.erase(found);
  if (over.is_taken && reader_.is_writing_to(over.place)) {
    (void)state_.fail(Code::kInternal, "a payload is on its way into memory of a call that is over");
  }
  return over.is_taken;
}

Result<PutResult> TcpLink::put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line,
                               int /*channel*/) {
  if (!state_.ok()) return state_.check();
  auto problem = put_problem(to, from.size());
  if (problem.empty()) problem = signal_problem(signal);
  if (!problem.empty()) return state_.refuse(Code::kInvalidArgument, problem);
  Frame frame{.memory = from.empty() ? 0 : to.memory->id,
              .offset = to.offset,
              .size_bytes = from.size(),
              .signal_memory = signal.memory->id,
              .signal_offset = signal.offset,
              .line = line};
  return taken(sender_.put(frame, from));
}

Result<PutResult> TcpLink::signal(RemoteSlice signal, const Line& line) {
  if (!state_.ok()) return state_.check();
  if (auto problem = signal_problem(signal); !problem.empty()) return state_.refuse(Code::kInvalidArgument, problem);
  return taken(sender_.signal({.signal_memory = signal.memory->id, .signal_offset = signal.offset, .line = line}));
}

Result<PutResult> TcpLink::signal_soon(RemoteSlice at, const Line& line) {
  if (!state_.ok()) return state_.check();
  if (auto problem = signal_problem(at); !problem.empty()) return state_.refuse(Code::kInvalidArgument, problem);
  return taken(sender_.signal_soon({.signal_memory = at.memory->id, .signal_offset = at.offset, .line = line}));
}

Result<PutResult> TcpLink::taken(Result<PutResult> result) {
  if (!result.ok()) return state_.fail(result.status().code(), result.status().message());
  return result;
}

Status TcpLink::pull(std::span<std::byte>, uint64_t) {
  TUTTI_TRY(state_.check());
  return state_.refuse(Code::kInvalidUsage, "memory cannot be pulled over TCP");
}

Status TcpLink::push(std::span<const std::byte>, uint64_t) {
  TUTTI_TRY(state_.check());
  return state_.refuse(Code::kInvalidUsage, "memory cannot be pushed over TCP");
}

Status TcpLink::poll(uint64_t* puts_completed) {
  TUTTI_TRY(state_.check());
  Status status = send_releases();
  if (status.ok()) status = receive();
  if (status.ok() && sender_.has_kept()) status = sender_.flush();
  *puts_completed = sender_.puts_completed();
  return status.ok() ? Status() : state_.fail(status.code(), status.message());
}

Status TcpLink::receive() {
  uint64_t applied = reader_.applied();
  for (int i = 0; i < kReadsPerPoll; ++i) {
    auto space = reader_.space();
    size_t room = 0;
    for (const iovec& part : space) room += part.iov_len;
    bool was_large = reader_.in_large_payload();
    ssize_t received = receive_into(socket_.get(), space);
    if (received > 0) {
      TUTTI_TRY(reader_.filled(static_cast<size_t>(received)));
      // That was all there is, or the receiver may say now where the next payload goes.
      if (static_cast<size_t>(received) < room || was_large) return {};
      continue;
    }
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (reader_.applied() != applied) return {};  // the caller first looks at what has come; the end stays the end
    if (received == 0) return error(Code::kRemote, "the peer has died, aborted or closed the connection");
    if (errno == ECONNRESET || errno == EPIPE) return error(Code::kRemote, "the peer has died or reset the connection");
    return system_error(errno, "the connection broke");
  }
  return {};
}

std::byte* TcpLink::writable(uint32_t id, uint64_t offset, uint64_t size_bytes) {
  if (id == kLanding) return in_landing(offset, size_bytes);
  auto found = exposed_.find(id);
  if (found == exposed_.end() || !in_bounds(found->second.size(), offset, size_bytes)) return nullptr;
  return found->second.data() + offset;
}

std::byte* TcpLink::in_landing(uint64_t offset, uint64_t size_bytes) {
  for (const Landing& each : landings_) {
    if (offset < each.at || !in_bounds(each.memory.size(), offset - each.at, size_bytes)) continue;
    return each.memory.data() + (offset - each.at);
  }
  return nullptr;
}

std::byte* TcpLink::place_of(const Frame& frame, std::byte* there, const std::byte* line) {
  for (Diversion& each : diversions_) {
    bool is_meant = each.signal == line && each.number == frame.line.words[0] && each.place.size() == frame.size_bytes;
    if (!is_meant || each.is_taken) continue;
    each.is_taken = true;
    return each.place.data();
  }
  return there;
}

Status TcpLink::control(const Frame& frame) {
  switch (frame.kind) {
    case Frame::Kind::kShare:
      if (remote_.add(frame.memory, frame.size_bytes, nullptr)) return {};
      return error(Code::kRemote, "the peer shared memory {} twice", frame.memory);
    case Frame::Kind::kRelease: return remote_.remove(frame.memory);
    case Frame::Kind::kLeave: return {};  // the end of the stream follows
    case Frame::Kind::kPut: break;
  }
  return error(Code::kInternal, "a put is not a control frame");
}

Status TcpLink::send_releases() {
  size_t removals = shared_.exports.removals();
  if (removals == removals_seen_) return {};
  auto released = shared_.exports.removed_since(removals_seen_);
  removals_seen_ += released.size();
  for (uint32_t id : released) {
    auto exposed = exposed_.find(id);
    if (exposed == exposed_.end()) continue;
    if (reader_.is_writing(id, 0, exposed->second.size())) {
      return error(Code::kRemote, "the peer's payload is on its way into memory {}, which is released", id);
    }
    exposed_.erase(exposed);
    TUTTI_TRY(sender_.control({.kind = Frame::Kind::kRelease, .memory = id, .line = {}}));
  }
  return {};
}

void TcpLink::arm(WaitSet& waits) {
  if (bell_ == nullptr) return;
  bell_->arm(waits);
  if (socket_) {
    waits.add(socket_.get(), static_cast<short>(sender_.has_kept() ? POLLIN | POLLOUT : POLLIN));
  } else {
    connector_->watch(waits);
  }
}

void TcpLink::disarm() {
  if (bell_ != nullptr) bell_->disarm();
}

void TcpLink::abort() noexcept {
  if (!state_.abort()) return;
  if (int socket = published_.load(); socket >= 0) ::shutdown(socket, SHUT_RDWR);
  shared_.bells.ring();
}

}  // namespace tutti
