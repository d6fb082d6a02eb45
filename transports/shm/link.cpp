#include "transports/shm/link.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

DialTarget candidate_of(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  DialTarget candidate;
  candidate.type = SOCK_SEQPACKET;
  candidate.text = fmt::format("unix socket @{}", name);
  std::memcpy(&candidate.address.storage, &address, sizeof address);
  candidate.address.size_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return candidate;
}

}  // namespace

ShmLink::~ShmLink() {
  if (channel_ != nullptr) channel_->say_and_close({.kind = ShmNote::Kind::kLeave, .id = 0, .size_bytes = 0});
}

Result<Progress> ShmLink::connect(std::span<const std::byte> peer_address) {
  TUTTI_TRY(state_.check());
  auto stepped = step(peer_address);
  TUTTI_TRY(state_.check());
  if (!stepped.ok()) return state_.fail(stepped.status().code(), stepped.status().message());
  return stepped;
}

Result<Progress> ShmLink::step(std::span<const std::byte> peer_address) {
  if (channel_ != nullptr) return Progress::kDone;
  if (bell_ == nullptr) {
    TUTTI_TRY(start(peer_address));
    return Progress::kMoved;
  }
  if (meeting_ == nullptr) {
    Progress found = TUTTI_TRY(connector_->advance());
    if (found != Progress::kDone) return found;
    meeting_ = std::make_unique<Meeting>(connector_->take(), *bell_);
    return Progress::kMoved;
  }
  auto met = meeting_->advance();
  if (!met.ok() && connector_->accepts() && met.status().code() == Code::kRemote) {
    // It stems from an earlier attempt that the peer has given up since: the next one counts.
    lost_meeting_ = met.status().message();
    meeting_.reset();
    return Progress::kMoved;
  }
  if (met.ok() && *met == Progress::kDone) become_link();
  return met;
}

Status ShmLink::start(std::span<const std::byte> peer_address) {
  std::unique_ptr<Dialer> dialer;
  if (state_.dials()) {
    const DialTarget candidate = candidate_of(TUTTI_TRY(parse_shm_address(peer_address)));
    dialer = std::make_unique<Dialer>(shared_.identity, peer(), std::vector{candidate}, check_same_user);
  }
  connector_ = std::make_unique<Connector>(peer(), *shared_.acceptor, std::move(dialer));
  bell_ = TUTTI_TRY(ShmBell::create());
  shared_.bells.set(peer(), std::shared_ptr<Doorbell>(bell_, bell_->doorbell.get()));
  return {};
}

void ShmLink::become_link() {
  peer_ = meeting_->take_peer();
  channel_ = meeting_->take_channel();
  meeting_.reset();
  connector_.reset();
  bell_->page_fd.reset();
  writer_.set_bell(peer_.bell());
  access_.connect(bell_->content()->access, peer_.content()->access);
  published_.store(channel_.get());
}

std::string ShmLink::connect_report() const {
  if (connector_ == nullptr) return {};
  std::string report = connector_->report();
  if (lost_meeting_.empty()) return report;
  return fmt::format("{}{}a meeting broke off: {}", report, report.empty() ? "" : "; ", lost_meeting_);
}

Status ShmLink::share(const LocalMemory& memory) {
  TUTTI_TRY(state_.check());
  auto note = encode(ShmNote{.kind = ShmNote::Kind::kShare, .id = memory.id, .size_bytes = memory.bytes.size()});
  if (Status sent = channel_->send(note, std::span(&memory.fd, 1)); !sent.ok()) {
    return state_.fail(sent.code(), sent.message());
  }
  sent_.push_back(memory.id);
  return {};
}

const RemoteMemory* ShmLink::find(uint32_t id) {
  const RemoteMemory* known = remote_.find(id);
  if (known != nullptr || !advance().ok()) return known;
  return remote_.find(id);
}

Status ShmLink::poll(uint64_t* puts_completed) {
  *puts_completed = writer_.puts();
  return advance();
}

Status ShmLink::advance() {
  TUTTI_TRY(state_.check());
  Status released = send_releases();
  if (!released.ok()) return state_.fail(released.code(), released.message());
  while (true) {
    auto read = read_note();
    if (!read.ok()) return state_.fail(read.status().code(), read.status().message());
    if (!*read) return {};
  }
}

Result<bool> ShmLink::read_note() {
  auto received = channel_->receive();
  if (!received.ok()) return std::move(received).status();
  if (!received->has_value()) return false;
  const ShmMessage& message = **received;
  TUTTI_TRY(apply(TUTTI_TRY(parse_shm_note(message.view())), message));
  return true;
}

Status ShmLink::apply(const ShmNote& note, const ShmMessage& message) {
  switch (note.kind) {
    case ShmNote::Kind::kShare: {
      auto mapping = std::make_shared<Mapping>(TUTTI_TRY(map_checked(message.fds[0].get(), note.size_bytes)));
      std::byte* mapped = mapping->bytes().data();
      if (remote_.add(note.id, note.size_bytes, mapped, std::move(mapping))) return {};
      return error(Code::kRemote, "the peer shared memory {} twice", note.id);
    }
    case ShmNote::Kind::kRelease: return remote_.remove(note.id);
    case ShmNote::Kind::kLeave: return error(Code::kRemote, "the peer has closed its end");
    case ShmNote::Kind::kAbort: return error(Code::kRemote, "the peer has aborted");
    case ShmNote::Kind::kMet: break;
  }
  return error(Code::kRemote, "the peer broke the protocol");
}

Status ShmLink::send_releases() {
  if (size_t removals = shared_.exports.removals(); removals != removals_seen_) {
    for (uint32_t id : shared_.exports.removed_since(removals_seen_)) {
      if (std::erase(sent_, id) == 0) continue;
      TUTTI_TRY(channel_->send(encode(ShmNote{.kind = ShmNote::Kind::kRelease, .id = id, .size_bytes = 0})));
    }
    removals_seen_ = removals;
  }
  return channel_->flush();
}

Status ShmLink::pull(std::span<std::byte> to, uint64_t from) {
  TUTTI_TRY(check_pullable());
  return with_place(pull_memory(peer_.pid, to, from));
}

Status ShmLink::push(std::span<const std::byte> from, uint64_t to) {
  TUTTI_TRY(check_pullable());
  return with_place(push_memory(peer_.pid, from, to));
}

Status ShmLink::check_pullable() {
  TUTTI_TRY(state_.check());
  if (peer_.pullable) return {};
  return state_.refuse(Code::kInvalidUsage, "the kernel does not let these processes reach each other's memory");
}

// A peer that has died breaks the link, and what is not its memory does not.
Status ShmLink::with_place(const Status& reached) {
  if (reached.ok()) return {};
  return reached.code() == Code::kRemote ? state_.fail(reached.code(), reached.message())
                                         : state_.refuse(reached.code(), reached.message());
}

void ShmLink::arm(WaitSet& waits) {
  if (bell_ == nullptr) return;
  bell_->doorbell->arm(waits);
  if (channel_ != nullptr) {
    channel_->watch(waits);
  } else if (meeting_ != nullptr) {
    meeting_->watch(waits);
  } else {
    connector_->watch(waits);
  }
}

void ShmLink::disarm() {
  if (bell_ != nullptr) bell_->doorbell->disarm();
}

void ShmLink::abort() noexcept {
  access_.leave();
  if (!state_.abort()) return;
  if (SideChannel* channel = published_.load()) {
    channel->say_and_close({.kind = ShmNote::Kind::kAbort, .id = 0, .size_bytes = 0});
  }
  shared_.bells.ring();
}

}  // namespace tutti
