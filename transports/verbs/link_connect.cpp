// How two ends of a verbs link join: they meet over TCP, tell each other their queue pairs, each writes a pattern into
// the other one's memory and says so over the queue pair, and only when both have seen data cross both ways they have a
// lane. Then comes the next one, until there are as many as they want. Where it fails, both know, and what stood in the
// way: they begin again with other ports, as far as they have some.
#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "base/log.h"
#include "transports/verbs/link.h"

namespace tutti {
namespace {

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
  log_debug("rank {} is met over TCP: {}", peer(), ends_of(socket.get()));
  side_ = std::make_unique<VerbsSideChannel>(std::move(socket));
  published_.store(side_->fd());
  return say_hello();
}

Status VerbsLink::say_hello() {
  stage_ = Stage::kHello;
  size_t pair = tries_ % pairs();
  rail_ = port_at(pair, state_.dials() ? peer_ports_ : shared_.rails.size(),
                  state_.dials() ? shared_.rails.size() : peer_ports_, !state_.dials());
  if (Status opened = open_lane(); !opened.ok()) return give_up(opened);
  auto hello = joining_->hello();
  return hello.ok() ? side_->send(std::move(*hello)) : give_up(hello.status());
}

Status VerbsLink::open_lane() {
  VerbsRail& rail = shared_.rails[rail_];
  if (!rail.device) rail.device = TUTTI_TRY(VerbsDevice::open(shared_.options, rail.port));
  TUTTI_TRY(shared_.exports.add_device(rail_, *rail.device));
  tried_.push_back(TUTTI_TRY(VerbsLane::create(*rail.device, rail_)));
  joining_ = tried_.back().get();
  published_queues_[tries_].store(&joining_->queue());
  return {};
}

// One step: what the peer has said, and what has come over the queue pair.
Result<Progress> VerbsLink::negotiate() {
  bool moved = false;
  TUTTI_TRY(take_side(&moved));
  if (stage_ == Stage::kProbe || stage_ == Stage::kReady) moved = TUTTI_TRY(look_at_queue()) || moved;
  if (side_->has_unsent()) TUTTI_TRY(side_->flush());
  // Only when the peer has spoken too: a connection that is closed before may take this end's verdict with it.
  if (both_have_spoken()) return conclude();
  return moved ? Progress::kMoved : Progress::kBlocked;
}

Result<Progress> VerbsLink::conclude() {
  bool is_proven = stage_ == Stage::kVerdict && *peer_proven_;
  if (is_proven) {
    lanes_.push_back(joining_);
    lost_all_.reset();  // those before it
    side_->bound_silence(0);
  }
  if (is_proven) log_debug("rank {} is connected over verbs: {}", peer(), joining_->ends());
  if (!is_proven && joining_ != nullptr) joining_->shut();
  joining_ = nullptr;
  bool goes_on = ++tries_ < most_tries() && lanes_.size() < wanted_lanes();
  if (!is_proven && (goes_on || !lanes_.empty())) {
    log_warn("rank {} is not reached over {}, {}: {}", peer(), shared_.rails[rail_].port.name(),
             goes_on ? "so other ports or addresses are tried" : "and no others are left", last_reason_.message());
  }
  if (goes_on) {
    heard_probe_ = false;
    peer_proven_.reset();
    TUTTI_TRY(say_hello());
    return Progress::kMoved;
  }
  if (lanes_.empty()) {
    both_gave_up_ = true;
    return gave_up_;
  }
  stage_ = Stage::kDone;
  return Progress::kDone;
}

// The same at both ends. Where ports are fewer than lanes, some have several; where no pair of ports works, they are
// tried once more, by other addresses.
size_t VerbsLink::most_tries() const {
  return std::min(kMostTries, std::max(lanes_.empty() ? pairs() * routes_ : pairs(), wanted_lanes()));
}

size_t VerbsShared::lanes() const {
  if (!options.device.empty()) return std::min(kMostLanes, rails.size());
  auto is_as_fast = [this](const VerbsRail& rail) { return rail.port.speed_mbps == rails.front().port.speed_mbps; };
  return std::count_if(rails.begin(), rails.end(), is_as_fast) > 1 ? 2 : 1;
}

size_t VerbsShared::fast_ports() const {
  std::set<std::string> names;
  for (const VerbsRail& rail : rails) {
    if (rail.port.speed_mbps == rails.front().port.speed_mbps) names.insert(rail.port.name());
  }
  return std::min(lanes(), names.size());
}

Result<bool> VerbsLink::look_at_queue() {
  auto completed = take_completions();
  if (completed.ok() && joining_->broken()) {
    std::string hint = fmt::format("packets of {} bytes are lost (MTU of the switches, TUTTI_IB_MTU), or all: ",
                                   joining_->route().mtu_bytes);
    completed = error(Code::kRemote, "{}{}", joining_->broken()->is_silence ? hint : "", joining_->broken()->what);
  }
  if (!completed.ok()) {
    TUTTI_TRY(give_up(std::move(completed).status()));
    return true;
  }
  if (stage_ != Stage::kProbe || !heard_probe_ || !joining_->sender().all_completed()) return *completed;
  TUTTI_TRY(side_->send(verdict(true, {})));
  stage_ = Stage::kVerdict;
  return true;
}

SideVerdict VerbsLink::verdict(bool proven, std::string reason) const {
  return {.proven = proven,
          .ports = static_cast<uint8_t>(std::min<size_t>(shared_.rails.size(), UINT8_MAX)),
          .lanes = static_cast<uint8_t>(shared_.lanes()),
          .reason = std::move(reason)};
}

Status VerbsLink::handle(const SideMessage& message) {
  if (auto* verdict = std::get_if<SideVerdict>(&message); verdict != nullptr && !peer_proven_) {
    return take_verdict(*verdict);
  }
  if (auto* lost = std::get_if<SideLost>(&message); lost != nullptr && stage_ == Stage::kDone) return take_lost(*lost);
  if (auto* data = std::get_if<SideData>(&message); data != nullptr && stage_ == Stage::kDone) {
    return begin_arriving(*data);
  }
  if (stage_ == Stage::kGaveUp) return {};  // the peer does not know yet
  if (auto* hello = std::get_if<SideHello>(&message); hello != nullptr && stage_ == Stage::kHello) {
    if (Status joined = join(*hello); !joined.ok()) return give_up(joined);
    stage_ = Stage::kReady;
    return side_->send(SideReady{});
  }
  if (std::holds_alternative<SideReady>(message) && stage_ == Stage::kReady) {
    auto pattern = pattern_of(shared_.meeting.identity(), state_.rank());
    if (Status sent = joining_->sender().probe(pattern); !sent.ok()) return give_up(sent);
    stage_ = Stage::kProbe;
    return {};
  }
  return error(Code::kRemote, "the peer broke the protocol");
}

// Where a lane is there already, addresses are no matter.
Status VerbsLink::join(const SideHello& hello) {
  PortAddress own = TUTTI_TRY(shared_.rails[rail_].device->address());
  routes_ = std::max(routes_, std::min(kMostRoutes, count_routes(own, hello.port)));
  return joining_->join(hello, lanes_.empty() ? tries_ / pairs() : 0);
}

Status VerbsLink::take_verdict(const SideVerdict& verdict) {
  peer_proven_ = verdict.proven;
  peer_ports_ = verdict.ports;
  peer_lanes_ = verdict.lanes;
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
  return side_->send(verdict(false, std::string(last_reason_.message())));
}

std::string VerbsLink::connect_report() const {
  switch (stage_) {
    case Stage::kMeet: return connector_->report();
    case Stage::kReady: return "it does not get its queue pair ready";
    case Stage::kProbe: return fmt::format("nothing crosses so far, {}", joining_->ends());
    default: return {};
  }
}

// A probe has come: what lies there must be what the peer has written.
Status VerbsLink::check_probe() {
  if (joining_ == nullptr) return error(Code::kRemote, "the peer broke the protocol");
  auto expected = pattern_of(shared_.meeting.identity(), peer());
  auto found = joining_->memory().probe();
  if (!std::equal(found.begin(), found.end(), expected.begin())) {
    return error(Code::kRemote, "what the peer wrote has arrived wrong, {}", joining_->ends());
  }
  heard_probe_ = true;
  return {};
}

}  // namespace tutti
