#include "transports/verbs/link.h"

#include <sys/socket.h>

#include <array>
#include <thread>

#include "transports/common/mapped.h"
#include "transports/verbs/causes.h"

namespace tutti {
namespace {

constexpr size_t kTakenAtOnce = 16;
constexpr int kTakesPerPoll = 8;      // so that one busy peer does not keep the others waiting
constexpr uint32_t kLookEvery = 64;   // polls: looking at the side channel takes a system call
constexpr size_t kLeastInPlace = 16 * 1024;  // less is copied before a completion could tell that it has left
constexpr int64_t kGraceMs = 100;     // in which the end of a peer turns out to be the cause of an error
constexpr int64_t kFinishMs = 1000;   // in which what was sent last arrives

}  // namespace

VerbsLink::~VerbsLink() {
  if (stage_ == Stage::kDone && state_.ok() && !broken_) finish();
}

// The queue pair takes with it what has not arrived.
void VerbsLink::finish() {
  Deadline deadline = Deadline::after_ms(kFinishMs);
  std::array<ibv_wc, kTakenAtOnce> completions;
  if (!engine_->sender.ask_for_all().ok()) return;
  while (!engine_->sender.all_completed() && !deadline.passed()) {
    auto count = engine_->queue->take(completions);
    if (!count.ok()) return;
    for (const ibv_wc& each : std::span(completions).first(*count)) {
      if (each.status != IBV_WC_SUCCESS) return;
      if ((each.opcode & IBV_WC_RECV) == 0) engine_->sender.on_completed(each.wr_id);
    }
    if (*count == 0) std::this_thread::yield();
  }
}

Status VerbsLink::share(const LocalMemory& memory) {
  TUTTI_TRY(state_.check());
  engine_->receiver.expose(memory.id, memory.bytes);
  TUTTI_TRY(rail().exports.use(*rail().device, memory.id));
  news_.push_back(rail().exports.state_of(memory.id));
  auto told = tell_news();
  return told.ok() ? Status() : state_.fail(told.status().code(), told.status().message());
}

const RemoteMemory* VerbsLink::find(uint32_t id) {
  auto found = remote_.find(id);
  return found == remote_.end() ? nullptr : &found->second;
}

RemoteRange VerbsLink::place_of(const RemoteSlice& slice) const {
  const RemoteRange& range = static_cast<const Remote*>(slice.memory)->range;
  return {range.address + slice.offset, range.key};
}

// Of the memory that `from` lies in; null where it is copied, since it has none or is small.
const std::shared_ptr<const Registration>& VerbsLink::registration_of(std::span<const std::byte> from) {
  static const std::shared_ptr<const Registration> kNone;
  if (from.size() < kLeastInPlace) return kNone;
  auto holds = [&] {
    return source_ && from.data() >= source_->bytes.data() &&
           from.data() + from.size() <= source_->bytes.data() + source_->bytes.size();
  };
  if (!holds()) source_ = rail().exports.source_of(from);
  return source_ ? source_->registration : kNone;
}

Result<PutResult> VerbsLink::put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal,
                                 const Line& line) {
  if (!state_.ok()) return state_.check();
  auto problem = put_problem(to, from.size());
  if (problem.empty()) problem = signal_problem(signal);
  if (!problem.empty()) return state_.refuse(Code::kInvalidArgument, problem);
  MessageHead head{.kind = MessageHead::Kind::kSignal,
                   .signal_memory = signal.memory->id,
                   .signal_offset = signal.offset,
                   .payload_memory = from.empty() ? 0 : to.memory->id,
                   .payload_offset = to.offset};
  if (auto told = tell_news(); !told.ok() || !*told) return waits_for_news(told);
  return taken(engine_->sender.put(from.empty() ? RemoteRange() : place_of(to), from, registration_of(from), head,
                                   line));
}

Result<PutResult> VerbsLink::signal(RemoteSlice signal, const Line& line) {
  if (!state_.ok()) return state_.check();
  if (auto problem = signal_problem(signal); !problem.empty()) return state_.refuse(Code::kInvalidArgument, problem);
  MessageHead head{.kind = MessageHead::Kind::kSignal,
                   .signal_memory = signal.memory->id,
                   .signal_offset = signal.offset};
  if (auto told = tell_news(); !told.ok() || !*told) return waits_for_news(told);
  return taken(engine_->sender.signal(head, line));
}

Result<PutResult> VerbsLink::waits_for_news(const Result<bool>& told) {
  return told.ok() ? Result<PutResult>(PutResult::kFull) : taken(told.status());
}

Result<PutResult> VerbsLink::taken(Result<PutResult> result) {
  if (!result.ok()) return state_.fail(result.status().code(), result.status().message());
  return result;
}

Status VerbsLink::pull(std::span<std::byte>, uint64_t) {
  TUTTI_TRY(state_.check());
  return state_.refuse(Code::kInvalidUsage, "memory cannot be pulled over verbs");
}

// What the device has goes without us; a payload that waits for a block does not.
bool VerbsLink::has_pending() const {
  return engine_ && (engine_->sender.has_unfinished() || side_->has_unsent() || !news_.empty());
}

Status VerbsLink::poll(uint64_t* puts_completed) {
  TUTTI_TRY(state_.check());
  bool moved = false;
  Status status = ended_;
  if (status.ok() && !broken_) status = tell_news().status();
  if (status.ok()) {
    auto completed = take_completions();
    moved = completed.ok() && *completed;
    if (!completed.ok()) status = completed.status();
  }
  if (status.ok() && !broken_) status = engine_->sender.advance();
  *puts_completed = engine_->sender.puts_completed();
  if (moved) look_aside_ = false;  // this is what has ended the sleep; what else has, ends the next one too
  if (status.ok() && (++polls_ % kLookEvery == 0 || look_aside_ || broken_ || side_->has_unsent())) {
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
    return moved ? Status() : ended_;
  }
  if (!broken_ || !broken_->report_at.passed()) return {};
  return error(Code::kRemote, "{}", broken_->what);
}

Status VerbsLink::take_side(bool* moved) {
  while (auto message = TUTTI_TRY(side_->receive())) {
    *moved = true;
    TUTTI_TRY(handle(*message));
    if (stage_ == Stage::kGaveUp && peer_proven_) break;  // what comes now is of other ports
  }
  return {};
}

Result<bool> VerbsLink::take_completions() {
  std::array<ibv_wc, kTakenAtOnce> completions;
  bool any = false;
  for (int i = 0; i < kTakesPerPoll; ++i) {
    size_t count = TUTTI_TRY(engine_->queue->take(completions));
    for (const ibv_wc& each : std::span(completions).first(count)) TUTTI_TRY(on_completion(each));
    any = any || count > 0;
    if (count < completions.size()) break;
  }
  return any;
}

Status VerbsLink::on_completion(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) {
    note_broken(completion);
    return {};
  }
  if ((completion.opcode & IBV_WC_RECV) == 0) {
    engine_->sender.on_completed(completion.wr_id);
    return {};
  }
  auto message = TUTTI_TRY(engine_->receiver.take(completion.wr_id, completion.byte_len));
  engine_->sender.on_message(message.head);
  take_news(message);
  return message.head.kind == MessageHead::Kind::kProbe ? check_probe() : Status();
}

void VerbsLink::note_broken(const ibv_wc& completion) {
  bool consequence = is_consequence(completion.status);
  if (broken_ && (!broken_->is_consequence || consequence)) return;
  broken_ = {.what = fmt::format("{} (completion status {}, vendor code {}); {}", cause_of(completion.status),
                                 static_cast<int>(completion.status), completion.vendor_err, ends()),
             .is_consequence = consequence,
             .is_silence = completion.status == IBV_WC_RETRY_EXC_ERR,
             .report_at = broken_ ? broken_->report_at : Deadline::after_ms(kGraceMs)};
}

void VerbsLink::gather_news() {
  uint64_t version = rail().exports.version();
  if (version == version_seen_) return;
  for (const VerbsExports::Change& change : rail().exports.changes_since(version_seen_)) {
    bool is_known = change.is_gone ? engine_->receiver.hide(change.id) : engine_->receiver.exposes(change.id);
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
    auto kind = change.range ? MessageHead::Kind::kShare : MessageHead::Kind::kRelease;
    Line line = encode(change.size_bytes, change.range.value_or(RemoteRange()));
    auto sent = TUTTI_TRY(engine_->sender.signal({.kind = kind, .signal_memory = change.id}, line));
    if (sent == PutResult::kFull) return false;
  }
  return true;
}

void VerbsLink::take_news(const VerbsReceiver::Message& message) {
  uint32_t id = message.head.signal_memory;
  if (message.head.kind == MessageHead::Kind::kRelease) remote_.erase(id);
  if (message.head.kind != MessageHead::Kind::kShare) return;
  Remote& remote = remote_[id];
  remote.id = id;
  remote.size_bytes = message.line.words[0];
  remote.range = {.address = message.line.words[1], .key = static_cast<uint32_t>(message.line.words[2])};
}

void VerbsLink::arm(WaitSet& waits) {
  if (bell_ == nullptr) return;
  bell_->arm(waits);
  if (!side_) {
    if (connector_) connector_->watch(waits);
    return;
  }
  waits.add(side_->fd(), static_cast<short>(side_->has_unsent() ? POLLIN | POLLOUT : POLLIN));
  if (!engine_) return;
  armed_ = true;
  auto fd = engine_->queue->arm();
  if (fd.ok()) waits.add(*fd, POLLIN);
  // What had completed before wakes nobody: it is taken now, and the sleep is over before it begins.
  auto completed = fd.ok() ? take_completions() : Result<bool>(fd.status());
  if (!completed.ok()) ended_ = completed.status();
  if (!completed.ok() || *completed) bell_->bell().ring_if_asleep();
  if (broken_) waits.wake_within(broken_->report_at.left_ms());
}

void VerbsLink::disarm() {
  if (bell_ != nullptr) bell_->disarm();
  if (!armed_) return;
  armed_ = false;
  look_aside_ = true;
  engine_->queue->disarm();
}

void VerbsLink::abort() noexcept {
  if (!state_.abort()) return;
  // From now on no device of a peer writes into memory that this rank's caller is about to have back.
  if (QueuePair* queue = published_queue_.load()) queue->shut();
  if (int socket = published_.load(); socket >= 0) ::shutdown(socket, SHUT_RDWR);
  shared_.bells.ring();
}

}  // namespace tutti
