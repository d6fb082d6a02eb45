// How two ends of a verbs link join: they meet over TCP, tell each other their queue pairs, each writes a pattern into
// the other one's memory and says so over the queue pair, and only when both have seen data cross both ways they are
// connected. Where it fails, both know, and what stood in the way: they begin again with other ports, as far as they
// have some.
#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "transports/verbs/link.h"

namespace tutti {
namespace {

constexpr size_t kMostTries = 4;  // of pairs of ports; each takes seconds where nothing crosses

// What `rank` writes for the pre-flight check: known to whoever knows the job's token, different for each end.
std::vector<std::byte> pattern_of(const LinkIdentity& identity, int rank) {
  HelloBytes text{};
  text[0] = static_cast<std::byte>(rank);
  text[1] = static_cast<std::byte>(rank >> 8);
  text[2] = static_cast<std::byte>(rank >> 16);
  Nonce seed = prove(identity.token, true, text, HelloBytes{});
  std::vector<std::byte> pattern(kProbeBytes);
  for (size_t i = 0; i < pattern.size(); ++i) {
    pattern[i] = seed[i % seed.size()] ^ static_cast<std::byte>(i / seed.size());
  }
  return pattern;
}

}  // namespace

Result<Progress> VerbsLink::connect(std::span<const std::byte> peer_address) {
  TUTTI_TRY(state_.check());
  auto stepped = step(peer_address);
  TUTTI_TRY(state_.check());
  if (!stepped.ok()) return state_.fail(stepped.status().code(), stepped.status().message());
  return stepped;
}

Result<Progress> VerbsLink::step(std::span<const std::byte> peer_address) {
  switch (stage_) {
    case Stage::kStart:
      connector_ = TUTTI_TRY(shared_.meeting.connector_to(peer(), peer_address));
      bell_ = TUTTI_TRY(Doorbell::create());
      shared_.bells.set(peer(), bell_);
      stage_ = Stage::kMeet;
      return Progress::kMoved;
    case Stage::kMeet: {
      Progress progress = TUTTI_TRY(connector_->advance());
      if (progress != Progress::kDone) return progress;
      TUTTI_TRY(meet(connector_->take()));
      return Progress::kMoved;
    }
    case Stage::kDone: return Progress::kDone;
    default: return negotiate();
  }
}

Status VerbsLink::meet(Fd socket) {
  connector_.reset();
  tune_connection(socket.get());
  side_ = std::make_unique<VerbsSideChannel>(std::move(socket));
  published_.store(side_->fd());
  return say_hello();
}

Status VerbsLink::say_hello() {
  stage_ = Stage::kHello;
  rail_ = port_at(tries_, state_.dials() ? peer_ports_ : shared_.rails.size(),
                  state_.dials() ? shared_.rails.size() : peer_ports_, !state_.dials());
  if (Status opened = open_engine(); !opened.ok()) return give_up(opened);
  auto address = rail().device->address();
  if (!address.ok()) return give_up(address.status());
  return side_->send(SideHello{.queue = engine_->queue->address(),
                               .port = std::move(*address),
                               .receives = kReceives,
                               .probe = engine_->memory.probe_range(),
                               .name = rail().port.name()});
}

Status VerbsLink::open_engine() {
  if (!rail().device) rail().device = TUTTI_TRY(VerbsDevice::open(shared_.options, rail().port));
  const VerbsDevice& device = *rail().device;
  TUTTI_TRY(rail().exports.register_first(device));
  LinkMemory memory = TUTTI_TRY(LinkMemory::create(device));
  auto queue = TUTTI_TRY(
      QueuePair::create(device, {.sends = kSends, .receives = kReceives, .inline_bytes = kMessageBytes}));
  if (engine_) past_.push_back(std::move(engine_));  // which abort() may be about to use
  engine_ = std::make_unique<Engine>(std::move(memory), std::move(queue));
  published_queue_.store(engine_->queue.get());
  return engine_->receiver.post_all();
}

// One step: what the peer has said, and what has come over the queue pair.
Result<Progress> VerbsLink::negotiate() {
  bool moved = false;
  TUTTI_TRY(take_side(&moved));
  if (stage_ == Stage::kProbe || stage_ == Stage::kReady) moved = TUTTI_TRY(look_at_queue()) || moved;
  if (side_->has_unsent()) TUTTI_TRY(side_->flush());
  // Until the peer has spoken too: a connection that is closed before may take this end's verdict with it.
  if (stage_ == Stage::kGaveUp && peer_proven_) {
    if (++tries_ < ports_to_try()) {
      TUTTI_TRY(try_next_ports());
      return Progress::kMoved;
    }
    both_gave_up_ = true;
    return gave_up_;
  }
  if (stage_ == Stage::kVerdict && peer_proven_) {
    stage_ = Stage::kDone;
    log_debug("rank {} is connected over verbs: {}", peer(), ends());
    return Progress::kDone;
  }
  return moved ? Progress::kMoved : Progress::kBlocked;
}

// The same at both ends.
size_t VerbsLink::ports_to_try() const { return std::min(kMostTries, shared_.rails.size() * peer_ports_); }

Status VerbsLink::try_next_ports() {
  log_warn("rank {} is not reached over {}, so other ports are tried: {}", peer(), rail().port.name(),
           last_reason_.message());
  if (engine_) engine_->queue->shut();
  heard_probe_ = false;
  peer_proven_.reset();
  broken_.reset();
  peer_name_.clear();
  route_ = {};
  return say_hello();
}

Result<bool> VerbsLink::look_at_queue() {
  auto completed = take_completions();
  if (completed.ok() && broken_) {
    std::string hint = fmt::format("packets of {} bytes are lost (MTU of the switches, TUTTI_IB_MTU), or all: ",
                                   route_.mtu_bytes);
    completed = error(Code::kRemote, "{}{}", broken_->is_silence ? hint : "", broken_->what);
  }
  if (!completed.ok()) {
    TUTTI_TRY(give_up(std::move(completed).status()));
    return true;
  }
  if (stage_ != Stage::kProbe || !heard_probe_ || !engine_->sender.all_completed()) return *completed;
  TUTTI_TRY(side_->send(SideVerdict{.proven = true, .ports = own_ports(), .reason = {}}));
  stage_ = Stage::kVerdict;
  return true;
}

Status VerbsLink::join_queues(const SideHello& hello) {
  const VerbsDevice& device = *rail().device;
  peer_name_ = fmt::format("{}, queue pair {}", hello.name, hello.queue.number);
  route_ = TUTTI_TRY(choose_route(TUTTI_TRY(device.address()), hello.port));
  TUTTI_TRY(engine_->queue->connect(hello.queue, route_));
  engine_->sender.begin(hello.receives, hello.probe);
  return side_->send(SideReady{});
}

Status VerbsLink::handle(const SideMessage& message) {
  if (auto* verdict = std::get_if<SideVerdict>(&message); verdict != nullptr && !peer_proven_) {
    return take_verdict(*verdict);
  }
  if (stage_ == Stage::kGaveUp) return {};  // the peer does not know yet
  if (auto* hello = std::get_if<SideHello>(&message); hello != nullptr && stage_ == Stage::kHello) {
    if (Status joined = join_queues(*hello); !joined.ok()) return give_up(joined);
    stage_ = Stage::kReady;
  } else if (std::holds_alternative<SideReady>(message) && stage_ == Stage::kReady) {
    auto pattern = pattern_of(shared_.meeting.identity(), state_.rank());
    if (Status sent = engine_->sender.probe(pattern); !sent.ok()) return give_up(sent);
    stage_ = Stage::kProbe;
  } else {
    return error(Code::kRemote, "the peer broke the protocol");
  }
  return {};
}

Status VerbsLink::take_verdict(const SideVerdict& verdict) {
  peer_proven_ = verdict.proven;
  peer_ports_ = verdict.ports;
  if (verdict.proven || stage_ == Stage::kGaveUp) return {};
  return give_up(
      error(Code::kRemote, "rank {} found that RDMA does not work between the two: {}", peer(), verdict.reason));
}

// Each end says one verdict. If it was that all is well, the peer's is what it is.
Status VerbsLink::give_up(Status why) {
  bool has_spoken = stage_ == Stage::kVerdict;
  stage_ = Stage::kGaveUp;
  if (gave_up_.ok()) gave_up_ = why;
  last_reason_ = std::move(why);
  if (has_spoken) return {};
  return side_->send(
      SideVerdict{.proven = false, .ports = own_ports(), .reason = std::string(last_reason_.message())});
}

std::string VerbsLink::connect_report() const {
  switch (stage_) {
    case Stage::kMeet: return connector_->report();
    case Stage::kReady: return "it does not get its queue pair ready";
    case Stage::kProbe: return fmt::format("nothing crosses so far, {}", ends());
    default: return {};
  }
}

std::string VerbsLink::ends() const {
  auto gid = [](const Gid& each) { return fmt::format(" ({} {})", name_of(each.type), to_text(each)); };
  std::string from = fmt::format("from {}, queue pair {}", rail().port.name(),
                                 engine_ ? engine_->queue->address().number : 0);
  std::string to = fmt::format("to {}", peer_name_);
  if (route_.by_gid) return fmt::format("{}{} {}{}", from, gid(route_.from), to, gid(route_.to));
  return fmt::format("{} {} (LID {})", from, to, route_.lid);
}

// A probe has come: what lies there must be what the peer has written.
Status VerbsLink::check_probe() {
  auto expected = pattern_of(shared_.meeting.identity(), peer());
  auto found = engine_->memory.probe();
  if (!std::equal(found.begin(), found.end(), expected.begin())) {
    return error(Code::kRemote, "what the peer wrote has arrived wrong, {}", ends());
  }
  heard_probe_ = true;
  return {};
}

}  // namespace tutti
