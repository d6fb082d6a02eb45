#include "transports/verbs/link.h"

#include <sys/socket.h>

#include <thread>

#include "transports/common/mapped.h"

namespace tutti {
namespace {

constexpr uint32_t kLookEvery = 64;   // polls: looking at the side channel takes a system call
constexpr size_t kLeastInPlace = 16 * 1024;  // less is copied before a completion could tell that it has left
constexpr int64_t kFinishMs = 1000;   // in which what was sent last arrives
constexpr int kMostSideMessages = 64;  // that one poll() takes from the connection

}  // namespace

VerbsLink::~VerbsLink() {
  if (stage_ == Stage::kDone && state_.ok() && !lost_all_) finish();
}

// The queue pairs take with them what has not arrived.
void VerbsLink::finish() {
  Deadline deadline = Deadline::after_ms(kFinishMs);
  auto ignore = [](const MessageHead&, std::span<const std::byte>) { return Status(); };
  for (VerbsLane* lane : lanes_) {
    if (!lane->is_in_use()) continue;
    while (!lane->sender().all_completed() && !lane->broken() && !deadline.passed()) {
      lane->sender().ask_for_all();  // which needs room for a request
      auto taken = lane->take_completions(ignore);
      if (!taken.ok()) return;
      if (*taken) continue;
      if (!side_->receive().ok()) return;  // the peer has ended its link, and no device answers there any more
      std::this_thread::yield();
    }
  }
  side_->finish(deadline);
}

Status VerbsLink::share(const LocalMemory& memory) {
  TUTTI_TRY(state_.check());
  receiver_.expose(memory);
  TUTTI_TRY(shared_.exports.use(memory.id));
  news_.push_back(shared_.exports.state_of(memory.id));
  bool is_reached = range_of(news_.back()).has_value();
  auto told = tell_news();
  if (!told.ok()) return state_.fail(told.status().code(), told.status().message());
  return is_reached ? Status() : error(Code::kSystem, "not all RDMA devices take the memory");
}

const RemoteMemory* VerbsLink::find(uint32_t id) {
  auto found = remote_.find(id);
  return found == remote_.end() ? nullptr : &found->second;
}

RemoteRange VerbsLink::place_on(const VerbsLane& lane, const SharedRange& range, uint64_t offset) const {
  auto index = static_cast<size_t>(std::find(lanes_.begin(), lanes_.end(), &lane) - lanes_.begin());
  return {range.address + offset, range.keys[index]};
}

const VerbsExports::Source* VerbsLink::source_of(std::span<const std::byte> from) {
  bool may_be_a_gpus = !from.empty() && shared_.exports.has_device_memory();
  if (from.size() < kLeastInPlace && !may_be_a_gpus) return nullptr;
  auto holds = [&] {
    return source_ && from.data() >= source_->bytes.data() &&
           from.data() + from.size() <= source_->bytes.data() + source_->bytes.size();
  };
  // Of a GPU's it may be so no more.
  if (!holds() || source_->device != nullptr) source_ = shared_.exports.source_of(from);
  return source_ ? &*source_ : nullptr;
}

// Without a registration it is copied, since the memory has none, or since it is small; only the device copies nothing
// of a GPU's.
PutSource VerbsLink::payload_on(const VerbsLane& lane, std::span<const std::byte> from) {
  PutSource payload{.bytes = from, .registration = nullptr};
  const VerbsExports::Source* source = source_of(from);
  if (source == nullptr) return payload;
  payload.device = source->device;
  bool is_small = from.size() < kLeastInPlace && payload.device == nullptr;
  bool is_registered = source->registrations != nullptr && lane.rail() < source->registrations->size();
  if (is_registered && !is_small) payload.registration = (*source->registrations)[lane.rail()];
  return payload;
}

std::optional<SharedRange> VerbsLink::range_of(const VerbsExports::Change& change) const {
  if (change.registrations == nullptr) return std::nullopt;
  SharedRange range{.address = reinterpret_cast<uint64_t>(change.bytes.data())};
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i]->is_in_use()) continue;
    size_t rail = lanes_[i]->rail();
    const VerbsExports::Registrations& made = *change.registrations;
    if (rail >= made.size() || made[rail] == nullptr) return std::nullopt;
    range.keys[i] = made[rail]->remote_key();
  }
  return range;
}

Result<PutResult> VerbsLink::put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal,
                                 const Line& line, int channel) {
  if (!state_.ok()) return state_.check();
  auto problem = put_problem(to, from.size());
  if (problem.empty()) problem = signal_problem(signal);
  if (!problem.empty()) return state_.refuse(Code::kInvalidArgument, problem);
  if (auto clear = is_clear(); !clear.ok()) return taken(clear.status());
  else if (!*clear) return PutResult::kFull;
  MessageHead head{.kind = MessageHead::Kind::kSignal,
                   .signal_memory = signal.memory->id,
                   .signal_offset = signal.offset,
                   .payload_memory = from.empty() ? 0 : to.memory->id,
                   .payload_offset = to.offset,
                   .number = number_ + 1};
  auto sent = PutResult::kFull;
  if (is_over_tcp_) {
    auto beside = taken(send_beside(head, line, from, puts_ + 1));
    if (!beside.ok()) return beside;
    sent = *beside;
  } else if (VerbsLane* lane = lane_for(from, channel)) {
    RemoteRange place;
    if (!from.empty()) place = place_on(*lane, static_cast<const Remote*>(to.memory)->range, to.offset);
    sent = lane->sender().put(place, payload_on(*lane, from), head, line, puts_ + 1);
  }
  if (sent == PutResult::kDone) {
    ++number_;
    ++puts_;
  }
  return sent;
}

Result<PutResult> VerbsLink::signal(RemoteSlice signal, const Line& line) {
  if (!state_.ok()) return state_.check();
  if (auto problem = signal_problem(signal); !problem.empty()) return state_.refuse(Code::kInvalidArgument, problem);
  if (auto clear = is_clear(); !clear.ok()) return taken(clear.status());
  else if (!*clear) return PutResult::kFull;
  MessageHead head{.kind = MessageHead::Kind::kSignal,
                   .signal_memory = signal.memory->id,
                   .signal_offset = signal.offset,
                   .number = number_ + 1};
  auto sent = taken(send_alone(head, line));
  if (sent.ok() && *sent == PutResult::kDone) ++number_;
  return sent;
}

void VerbsLink::begin_batch() {
  for (VerbsLane* lane : lanes_) lane->sender().begin_batch();
}

void VerbsLink::end_batch() {
  for (VerbsLane* lane : lanes_) lane->sender().end_batch();
}

Result<PutResult> VerbsLink::taken(Result<PutResult> result) {
  if (!result.ok()) return state_.fail(result.status().code(), result.status().message());
  return result;
}

Status VerbsLink::pull(std::span<std::byte>, uint64_t) {
  TUTTI_TRY(state_.check());
  return state_.refuse(Code::kInvalidUsage, "memory cannot be pulled over verbs");
}

Status VerbsLink::push(std::span<const std::byte>, uint64_t) {
  TUTTI_TRY(state_.check());
  return state_.refuse(Code::kInvalidUsage, "memory cannot be pushed over verbs");
}

// What a device has goes without us; a payload that waits for a block does not, nor what a failed lane had.
bool VerbsLink::has_pending() const {
  if (!side_) return false;
  bool lanes_have = std::any_of(lanes_.begin(), lanes_.end(), [](const VerbsLane* lane) {
    bool is_failing = lane->is_in_use() ? !lane->sender().refused().ok() : lane->state() != VerbsLane::State::kOver;
    return is_failing || lane->sender().has_unfinished();
  });
  return lanes_have || !owed_.empty() || !untold_.empty() || side_->has_unsent() || !news_.empty();
}

// What was copied once may have to be sent once more, from the copy.
uint64_t VerbsLink::puts_completed_now() const {
  uint64_t oldest = puts_ + 1;
  for (const VerbsLane* lane : lanes_) oldest = std::min(oldest, lane->sender().oldest_put());
  for (const Owed& owed : owed_) oldest = owed.put != 0 ? std::min(oldest, owed.put) : oldest;
  if (is_over_tcp_) oldest = std::min(oldest, side_->oldest_put());
  return oldest - 1;
}

Status VerbsLink::poll(uint64_t* puts_completed) {
  TUTTI_TRY(state_.check());
  bool moved = false;
  Status status = ended_;
  if (status.ok() && !lost_all_) status = is_clear().status();
  if (status.ok()) {
    auto completed = take_completions();
    moved = completed.ok() && *completed;
    if (!completed.ok()) status = completed.status();
  }
  for (VerbsLane* lane : lanes_) {
    if (lane->is_in_use()) lane->sender().advance();
    if (status.ok()) status = lane->sender().unreadable();
  }
  *puts_completed = completed_ = std::max(completed_, puts_completed_now());
  // This is what has ended the sleep, or come before it; what else has, ends the next one too.
  if (moved) armed_ = look_aside_ = slept_in_vain_ = false;
  if (status.ok() && (++polls_ % kLookEvery == 0 || look_aside_ || has_lost_all() || side_->has_unsent())) {
    status = look_for_the_end(moved);
  }
  return status.ok() ? Status() : state_.fail(status.code(), status.message());
}

// What the peer says beside the data, and whether this is the end of the link.
Status VerbsLink::look_for_the_end(bool moved) {
  look_aside_ = false;
  if (side_->has_unsent()) TUTTI_TRY(side_->flush());
  bool said = false;
  if (Status status = take_side(&said); !status.ok()) {
    // What came before the end is first looked at by the caller; the end stays the end.
    if (!moved) moved = TUTTI_TRY(take_completions());
    ended_ = std::move(status);
    bool is_silent = ended_.code() == Code::kSystem && has_lost_all();
    if (is_silent) ended_ = error(Code::kRemote, "{}, and {}", last_lost_->broken()->what, ended_.message());
    return moved || said ? Status() : ended_;
  }
  if (!lost_all_) return said ? is_clear().status() : Status();
  return lost_all_->passed() ? error(Code::kRemote, "{}", last_lost_->broken()->what) : Status();
}

Status VerbsLink::take_side(bool* moved) {
  gather_news();  // as in take_completions()
  for (int i = 0; i < kMostSideMessages; ++i) {
    TUTTI_TRY(Status(ended_));
    if (!arriving_) {
      auto message = TUTTI_TRY(side_->receive());
      if (!message) return {};
      *moved = true;
      TUTTI_TRY(handle(*message));
      if (both_have_spoken()) return {};  // what comes now is of the next lane
    }
    if (!arriving_) continue;
    if (!TUTTI_TRY(receive_arriving())) return {};
    *moved = true;
    TUTTI_TRY(receiver_.take(arriving_->head, std::as_bytes(std::span(arriving_->line.words))));
    arriving_.reset();
    TUTTI_TRY(take_news());
  }
  return {};
}

Result<bool> VerbsLink::is_clear() {
  bool all_whole = std::all_of(lanes_.begin(), lanes_.end(), [](const VerbsLane* lane) {
    return lane->is_in_use() || lane->state() == VerbsLane::State::kOver;
  });
  bool is_whole = all_whole && owed_.empty() && untold_.empty();
  if (!is_whole && !lost_all_) [[unlikely]] {
    TUTTI_TRY(advance_losses());
    if (!owed_.empty()) return false;
  }
  return tell_news();
}

void VerbsLink::gather_news() {
  uint64_t version = shared_.exports.version();
  if (version == version_seen_) return;
  for (const VerbsExports::Change& change : shared_.exports.changes_since(version_seen_)) {
    bool is_known = change.is_gone ? receiver_.hide(change.id) : receiver_.exposes(change.id);
    if (change.is_gone && arriving_ && arriving_->head.payload_memory == change.id) {
      ended_ = error(Code::kRemote, "the peer's payload is on its way into memory {}, which is released", change.id);
    }
    if (is_known) news_.push_back(change);
  }
  version_seen_ = version;
  source_.reset();  // which would keep it registered
}

// In order with the data: whoever has heard that memory may be used has heard of where it is now.
Result<bool> VerbsLink::tell_news() {
  gather_news();
  for (; !news_.empty(); news_.pop_front()) {
    const VerbsExports::Change& change = news_.front();
    auto range = range_of(change);
    auto kind = range ? MessageHead::Kind::kShare : MessageHead::Kind::kRelease;
    PutResult sent = TUTTI_TRY(send_alone({.kind = kind, .signal_memory = change.id, .number = number_ + 1},
                                          encode(change.bytes.size(), range.value_or(SharedRange()))));
    if (sent == PutResult::kFull) return false;
    ++number_;
  }
  return true;
}

// Memory moves when it is registered anew, and may be told of as gone by who has never told where it is.
Status VerbsLink::take_news() {
  while (auto news = receiver_.next_news()) {
    bool stays = remote_.contains(news->memory) && news->memory == kArena;
    if (news->kind == MessageHead::Kind::kRelease) {
      if (stays) return error(Code::kRemote, "the peer released memory {}, which stays as long as the link", kArena);
      remote_.erase(news->memory);
      continue;
    }
    auto [known, is_new] = remote_.try_emplace(news->memory);
    Remote& remote = known->second;
    remote.id = news->memory;
    if (is_new) remote.size_bytes = news->line.words[0];
    if (remote.size_bytes != news->line.words[0]) {
      return error(Code::kRemote, "the peer shared memory {} with another size than before", news->memory);
    }
    remote.range = range_in(news->line);
  }
  return {};
}

void VerbsLink::arm(WaitSet& waits) {
  if (bell_ == nullptr) return;
  bell_->arm(waits);
  if (!side_) {
    if (connector_) connector_->watch(waits);
    return;
  }
  if (takes_before_sleep(waits)) return;  // which costs no system call
  waits.add(side_->fd(), static_cast<short>(side_->has_unsent() ? POLLIN | POLLOUT : POLLIN));
  armed_ = true;
  visit_live([&](VerbsLane& lane) {
    auto fd = lane.queue().arm(slept_in_vain_);
    if (fd.ok()) waits.add(*fd, POLLIN);
    else lane.note_broken(fd.status());
    // A device that is gone wakes nobody.
    if (lane.is_in_use() ? !fd.ok() : lane.is_drained()) waits.wake_now();
    else if (!lane.is_in_use()) waits.wake_within(lane.drain_left_ms());
  });
  slept_in_vain_ = false;
  // What had completed before the queues were asked wakes nobody.
  if (ended_.ok()) takes_before_sleep(waits);
  else waits.wake_now();
  if (lost_all_) waits.wake_within(lost_all_->left_ms());
}

bool VerbsLink::takes_before_sleep(WaitSet& waits) {
  if (stage_ != Stage::kDone) return false;  // connect() takes it, and knows what to make of a way that does not work
  auto completed = take_completions();
  if (!completed.ok()) ended_ = completed.status();
  bool is_over = !completed.ok() || *completed;
  if (!is_over) return false;
  armed_ = slept_in_vain_ = false;
  waits.wake_now();
  return true;
}

void VerbsLink::disarm() {
  if (bell_ != nullptr) bell_->disarm();
  if (!armed_) return;
  armed_ = false;
  look_aside_ = slept_in_vain_ = true;
}

void VerbsLink::abort() noexcept {
  bool is_first = state_.abort();
  // From now on no device of a peer writes into memory that this rank's caller is about to have back: every thread
  // whose caller goes on sees to that itself.
  for (auto& published : published_queues_) {
    if (QueuePair* queue = published.load()) queue->shut();
  }
  if (!is_first) return;
  if (int socket = published_.load(); socket >= 0) ::shutdown(socket, SHUT_RDWR);
  shared_.bells.ring();
}

}  // namespace tutti
