// How a communicator learns that something is wrong, and finds the sentence for it.
#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/memory.h"
#include "core/communicator.h"

namespace tutti {
namespace {

constexpr auto kAskAfter = std::chrono::milliseconds(50);
// A dead rank is seen on its links first; within this time the control plane says who it was.
constexpr auto kVerdictWait = std::chrono::milliseconds(500);
constexpr auto kAnswerWait = std::chrono::milliseconds(500);

}  // namespace

void Communicator::abort() {
  fail(Status(Code::kAborted, fmt::format("rank {} aborted the communicator", rank_)), true);
}

void Communicator::leave() {
  has_left_.store(true, std::memory_order_release);
  fail(Status(Code::kAborted, fmt::format("rank {} has left the communicator", rank_)), false);
}

// Sentences about this rank's own links and means take for granted which rank it is.
Status Communicator::as_told_to_others(const Status& status) const {
  Code code = status.code();
  bool about_this_rank = code == Code::kSystem || code == Code::kInternal || code == Code::kCuda;
  if (!about_this_rank && status.place().link.empty()) return status;
  return Status(status).within(fmt::format("on rank {}", rank_));
}

void Communicator::fail(Status status, bool tell_others) noexcept {
  or_end_without_memory([&] {
    if (!failure_.set(status)) return;
    log_info("the communicator failed: {}", status.message());
    if (tell_others && control_) control_->abort(as_told_to_others(status));
    if (links_) links_->abort();
    if (gpu_calls_) gpu_calls_->cancel();
    context_->engine->ring();
    std::lock_guard lock(answers_mutex_);  // so that nobody is between looking and waiting
    answered_.notify_all();
  });
}

// A link's error is often the echo of something that happened elsewhere: the first cause is the better sentence.
void Communicator::fail_on_link(Status status) {
  int peer = status.place().peer;
  if (status.code() == Code::kInvalidUsage && peer >= 0) {
    auto theirs = ask(peer, {run_.foreign_signature(), records_.read().number});
    auto mine = theirs ? record_of_number(theirs->number) : std::nullopt;
    if (mine && theirs->contradicts(*mine)) status = contradiction(peer, *theirs, *mine);
  } else {
    await_verdict(peer);
    if (Status early = early_leaver(peer); !early.ok()) status = std::move(early);
  }
  fail(std::move(status), true);
}

// Gives whoever knows why the link to `peer` broke the time to say so.
void Communicator::await_verdict(int peer) {
  if (peer >= 0) control_->send(peer, kAskRecord, {});
  std::unique_lock lock(answers_mutex_);
  answered_.wait_for(lock, kVerdictWait, [&] { return failure_.happened(); });
}

void Communicator::look_at_delay() {
  if (active_ == nullptr || failure_.happened()) return;
  auto now = Clock::now();
  if (!slow_since_) {
    slow_since_ = now;
    asked_ = false;
  }
  int peer = awaited_rank();
  waits_for_.store(peer, std::memory_order_relaxed);
  if (asked_) {
    if (Status early = early_leaver(peer); !early.ok()) return fail(std::move(early), true);
  } else if (peer >= 0 && now - *slow_since_ >= kAskAfter) {
    asked_ = true;
    control_->send(peer, kAskRecord, {});  // on_answer() looks at what comes back
  }
  int64_t timeout_ms = active_->arguments.timeout_ms > 0 ? active_->arguments.timeout_ms : config_.timeout_ms;
  if (now - *slow_since_ >= std::chrono::milliseconds(timeout_ms)) {
    fail(lateness(records_.read().text(), timeout_ms, peer), true);
  }
}

std::optional<CallRecord> Communicator::ask(int peer, const Question& question) {
  std::unique_lock lock(answers_mutex_);
  answers_.erase(peer);
  control_->send(peer, kAskRecord, std::as_bytes(std::span(&question, 1)));
  answered_.wait_for(lock, kAnswerWait, [&] { return answers_.contains(peer) || failure_.happened(); });
  auto found = answers_.find(peer);
  return found == answers_.end() ? std::nullopt : std::optional(found->second);
}

Status Communicator::contradiction(int peer, const CallRecord& theirs, const CallRecord& mine) const {
  if (mine.same_call(theirs)) {
    return error(Code::kInvalidUsage,
                 "ranks {} and {} would run {} by different plans ({:016x} and {:016x}); run one version of tutti, "
                 "with the same TUTTI_* options, on all ranks",
                 peer, rank_, mine.text(), theirs.plan_digest, mine.plan_digest);
  }
  return error(Code::kInvalidUsage,
               "rank {} called {}, but rank {} called {}; all ranks must make the same calls in one order", peer,
               theirs.text(), rank_, mine.text());
}

Status Communicator::lateness(const std::string& what, int64_t timeout_ms, int peer) {
  if (peer < 0) return error(Code::kTimeout, "{} did not finish within {} ms", what, timeout_ms);
  // A peer that waits for another one in the same call is not the late one.
  std::string chain = fmt::format("rank {} waits for rank {}{}", rank_, peer, links_->connect_report(peer));
  std::set<int> named = {rank_, peer};
  auto theirs = ask(peer, {});
  while (theirs && theirs->waits_for >= 0 && named.insert(theirs->waits_for).second) {
    chain += fmt::format(", which waits for rank {}", theirs->waits_for);
    theirs = ask(theirs->waits_for, {});
  }
  return error(Code::kTimeout, "{} did not finish within {} ms: {}, whose last call is {}", what, timeout_ms, chain,
               theirs ? theirs->text() : std::string("unknown: it does not answer"));
}

// A peer that data was exchanged with has said how many calls it made, and waits until this rank says the same; one
// without a link has none to come.
Status Communicator::early_leaver(int peer) {
  if (peer < 0) return {};
  CallRecord mine = records_.read();
  if (has_left_early(peer)) {
    return error(Code::kRemote, "rank {} has left the communicator, but rank {} called {}", peer, rank_, mine.text());
  }
  {
    std::lock_guard lock(answers_mutex_);
    auto said = goodbyes_.find(peer);
    bool is_early = said != goodbyes_.end() && said->second.calls < mine.number;
    if (!is_early && (links_->peers()[peer] != nullptr || !departed_.contains(peer))) return {};
  }
  return error(Code::kInvalidUsage,
               "rank {} has finalized and makes no more calls, but rank {} called {}; all ranks must make the same "
               "calls in one order",
               peer, rank_, mine.text());
}

void Communicator::on_left(int rank) {
  {
    std::lock_guard lock(answers_mutex_);
    departed_.insert(rank);
  }
  answered_.notify_all();
  links_->ring();
}

// Its ranks may be several calls apart: a message may have been left by a call that its sender has long finished, or be
// one of a call that its receiver has not come to.
CallRecord Communicator::answer_to(const Question& question) const {
  auto named = records_.of_signature(question.signature);
  CallRecord slow_direct = slow_direct_.read();
  if (!named) return is_point_to_point(slow_direct.collective) ? slow_direct : last_record();
  return record_of_number(std::min(named->number, question.number)).value_or(*named);
}

// What went through the host after all has its plan's digest there.
std::optional<CallRecord> Communicator::record_of_number(uint64_t number) const {
  auto record = records_.of_number(number);
  return record || gpu_calls_ == nullptr ? record : gpu_calls_->told().of_number(number);
}

CallRecord Communicator::last_record() const {
  CallRecord last = records_.read();
  if (gpu_calls_ == nullptr) return last;
  CallRecord of_gpu = gpu_calls_->told().last();
  return of_gpu.number > last.number ? of_gpu : last;
}

void Communicator::on_message(int from, uint32_t type, std::span<const std::byte> payload) {
  bool is_parting = (type == kAskRecord || type == kConnect) && answer_with_goodbye(from);
  if (type == kAskRecord) {
    Question question;
    if (payload.size() == sizeof question) std::memcpy(&question, payload.data(), sizeof question);
    CallRecord mine = answer_to(question);
    mine.waits_for = waits_for_.load(std::memory_order_relaxed);
    control_->send(from, kRecord, mine.encode());
  } else if (type == kGoodbye) {
    Goodbye said;
    if (payload.size() == sizeof said) std::memcpy(&said, payload.data(), sizeof said);
    {
      std::lock_guard lock(answers_mutex_);
      goodbyes_.emplace(from, said);
    }
    links_->ring();
  } else if (type == kConnect) {
    if (!is_parting) on_link_wanted(from);
  } else if (auto record = CallRecord::decode(payload); type == kRecord && record && record->waits_for < nranks_) {
    on_answer(from, *record);
  }
}

void Communicator::on_answer(int from, const CallRecord& theirs) {
  {
    std::lock_guard lock(answers_mutex_);
    answers_[from] = theirs;
  }
  answered_.notify_all();
  auto mine = record_of_number(theirs.number);
  if (mine && theirs.contradicts(*mine)) fail(contradiction(from, theirs, *mine), true);
}

}  // namespace tutti
