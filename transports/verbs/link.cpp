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
  auto range = shared_.exports.range_of(*shared_.device, memory);
  if (!range.ok()) return state_.fail(range.status().code(), range.status().message());
  engine_->receiver.expose(memory.id, memory.bytes);
  Status sent = side_->send(SideShare{.id = memory.id, .size_bytes = memory.bytes.size(), .range = *range});
  return sent.ok() ? Status() : state_.fail(sent.code(), sent.message());
}

const RemoteMemory* VerbsLink::find(uint32_t id) {
  auto found = remote_.find(id);
  return found == remote_.end() ? nullptr : &found->second;
}

RemoteRange VerbsLink::place_of(const RemoteSlice& slice) const {
  const RemoteRange& range = static_cast<const Remote*>(slice.memory)->range;
  return {range.address + slice.offset, range.key};
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
  return taken(engine_->sender.put(from.empty() ? RemoteRange() : place_of(to), from, head, line));
}

Result<PutResult> VerbsLink::signal(RemoteSlice signal, const Line& line) {
  if (!state_.ok()) return state_.check();
  if (auto problem = signal_problem(signal); !problem.empty()) return state_.refuse(Code::kInvalidArgument, problem);
  MessageHead head{.kind = MessageHead::Kind::kSignal,
                   .signal_memory = signal.memory->id,
                   .signal_offset = signal.offset};
  return taken(engine_->sender.signal(head, line));
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
bool VerbsLink::has_pending() const { return engine_ && (engine_->sender.has_unfinished() || side_->has_unsent()); }

Status VerbsLink::poll(uint64_t* puts_completed) {
  TUTTI_TRY(state_.check());
  bool moved = false;
  Status status = ended_.ok() ? send_releases() : ended_;
  if (status.ok()) {
    auto completed = take_completions();
    moved = completed.ok() && *completed;
    if (!completed.ok()) status = completed.status();
  }
  if (status.ok() && !broken_) status = engine_->sender.advance();
  *puts_completed = engine_->sender.puts_completed();
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
  MessageHead head = TUTTI_TRY(engine_->receiver.take(completion.wr_id, completion.byte_len));
  engine_->sender.on_message(head);
  return head.kind == MessageHead::Kind::kProbe ? check_probe() : Status();
}

void VerbsLink::note_broken(const ibv_wc& completion) {
  bool consequence = is_consequence(completion.status);
  if (broken_ && (!broken_->is_consequence || consequence)) return;
  broken_ = {.what = fmt::format("{} (completion status {}, vendor code {}); {}", cause_of(completion.status),
                                 static_cast<int>(completion.status), completion.vendor_err, ends()),
             .is_consequence = consequence,
             .report_at = broken_ ? broken_->report_at : Deadline::after_ms(kGraceMs)};
}

Status VerbsLink::send_releases() {
  const ExportTable& exports = shared_.exports.table();
  if (exports.removals() == removals_seen_) return {};
  auto released = exports.removed_since(removals_seen_);
  removals_seen_ += released.size();
  for (uint32_t id : released) {
    if (engine_->receiver.hide(id)) TUTTI_TRY(side_->send(SideRelease{id}));
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
  if (int socket = published_.load(); socket >= 0) ::shutdown(socket, SHUT_RDWR);
  shared_.bells.ring();
}

}  // namespace tutti
