// What becomes of calls on GPUs after they were made: a thread that puts on a stream of its own what is decided later,
// finds out who is late, and opens the gates when the communicator has failed.
#include <algorithm>
#include <thread>

#include "base/guard.h"
#include "core/communicator.h"

namespace tutti {
namespace {

constexpr uint32_t kFarAhead = 1U << 30;  // of all numbers that streams wait for
constexpr int64_t kNsPerMs = 1'000'000;
// A kernel that waits in vain is the first to say so.
constexpr int64_t kKernelsFirstMs = 500;
// After a failure launches get so long to begin, and to end.
constexpr auto kGrace = std::chrono::milliseconds(kGpuLookMs), kLongest = std::chrono::milliseconds(2000);

}  // namespace

uint32_t GpuCalls::done() const { return read_word(own().gate); }

bool GpuCalls::are_done() {
  drop_launched();
  std::lock_guard lock(pending_mutex_);
  return pending_.empty() && !comes_before(done(), last_put_.load(std::memory_order_seq_cst));
}

// ---- Failures

// Kernels that end for that reason open no gate: others may not have noticed yet.
void GpuCalls::cancel() noexcept {
  communicator_.stream_entry()->lose_gates();
  is_cancelled_.store(true, std::memory_order_release);
  for (int rank = 0; rank < communicator_.nranks(); ++rank) store_word(board_.of(rank).hold, 1);
  store_word(board_.head().cancelled, 1);
  ring(communicator_.rank());
}

Status GpuCalls::status() const {
  TUTTI_TRY(kernel_status());
  if (read_word(board_.head().cancelled) == 0) return {};
  return error(Code::kRemote,
               "another rank on {} has failed, or has left with calls under way; its error says why", where());
}

Status GpuCalls::told_status() const {
  constexpr auto kLongest = std::chrono::milliseconds(500);
  Status known = communicator_.status();
  for (auto end = Clock::now() + kLongest; Clock::now() < end && known.message() == status().message();) {
    if (known.ok()) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    known = communicator_.status();
  }
  return known;
}

Status GpuCalls::kernel_status() const {
  uint32_t late = read_word(own().late);
  if (late == 0) return {};
  // A GPU that waits for another one is not the late one.
  for (int i = 0; i < communicator_.nranks(); ++i) {
    uint32_t its = read_word(board_.of(static_cast<int>(late) - 1).late);
    if (its != 0) late = its;
  }
  return error(Code::kTimeout,
               "rank {}: the GPU of rank {} has sent nothing for {} ms, in a call that all ranks had come to; look at "
               "what else runs there",
               communicator_.rank(), late - 1, timeout_ms_)
      .at({.rank = communicator_.rank(), .peer = static_cast<int>(late) - 1});
}

// Of a communicator that has failed, what this rank's streams wait for: their own gate, or that the others come. Behind
// the gate the caller's memory is his again, so first all ranks' launches that had begun get the time to end, and what
// goes through the host ends. False: not yet.
bool GpuCalls::open_gates() noexcept {
  if (!cancelled_since_) cancelled_since_ = Clock::now();
  auto waited = Clock::now() - *cancelled_since_;
  if (waited < kGrace) return false;
  uint32_t open = last_put_.load(std::memory_order_seq_cst) + kFarAhead;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) store_word(board_.of(rank).reached, open);
  if (!have_ended() && waited < kLongest) return false;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) store_word(board_.of(rank).opened, open);
  store_word(own().gate, open);
  store_word(own().late, 0);
  store_word(own().hold, 0);
  // What is being put on the own stream opens its gate there.
  std::scoped_lock lock(own_stream_mutex_, pending_mutex_);
  for (const Pending& each : pending_) {
    if (each.gate != nullptr) store_word(*each.gate, 1);
  }
  for (uint32_t* gate : lost_gates_) store_word(*gate, 1);
  return true;
}

void GpuCalls::await_open_gates() const {
  auto limit = Clock::now() + kLongest + kGrace;
  while (!are_open_.load(std::memory_order_acquire) && Clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool GpuCalls::have_ended() const {
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    const GpuBoard::OfRank& of_rank = board_.of(rank);
    if (comes_before(read_word(of_rank.ended), of_rank.launched.load(std::memory_order_acquire))) return false;
  }
  return !comes_before(done(), last_staged_.load(std::memory_order_acquire));
}

// A stream that stands at its gate for too long: somebody has not come.
Status GpuCalls::look_at_delay() {
  TUTTI_TRY(kernel_status());
  uint32_t gate = done();
  bool stands = comes_before(gate, read_word(own().reached)) && !is_cancelled_.load(std::memory_order_acquire);
  if (!stands || gate != gate_seen_) stands_since_.reset();
  gate_seen_ = gate;
  if (!stands) return {};
  if (!stands_since_) stands_since_ = Clock::now();
  int64_t longest_ms = timeout_ms_ + (programs_ ? kKernelsFirstMs : 0);
  if (Clock::now() - *stands_since_ < std::chrono::milliseconds(longest_ms)) return {};
  return late_error(read_word(own().reached));
}

Status GpuCalls::late_error(uint32_t number) const {
  return error(Code::kTimeout, "rank {}: after {} ms {}", communicator_.rank(), timeout_ms_, who_is_late(number))
      .at({.rank = communicator_.rank()});
}

std::string_view GpuCalls::where() const { return programs_ ? "the GPUs" : "this GPU"; }

// Who keeps call `number` from being done.
std::string GpuCalls::who_is_late(uint32_t number) const {
  std::string_view name =
      name_of(static_cast<Collective>(board_.offer(number, communicator_.rank()).shape.collective));
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    if (comes_before(board_.of(rank).called.load(std::memory_order_acquire), number)) {
      return fmt::format("rank {} has not called {} (call {} on {})", rank, name, number, where());
    }
  }
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    if (!comes_before(read_word(board_.of(rank).reached), number)) continue;
    return fmt::format("the stream of rank {} has not come to {} (call {} on {}); look at what it waits for", rank,
                       name, number, where());
  }
  return fmt::format("the GPU has not done {} (call {} there); look at what else runs on it", name, number);
}

// ---- The thread

void GpuCalls::run() {
  for (;;) {
    uint32_t heard = own().bell.load(std::memory_order_acquire);
    carry_out_decided();
    bool is_cancelled = is_cancelled_.load(std::memory_order_acquire);
    sleeps_.store(true, std::memory_order_seq_cst);
    bool is_busy = is_cancelled || !are_done();
    if (is_busy) sleeps_.store(false, std::memory_order_relaxed);
    Status late = guarded([&]() -> Status {
      if (is_cancelled) return {};
      if (is_busy) TUTTI_TRY(communicator_.stream_entry()->look_at_device());
      TUTTI_TRY(look_at_delay());
      return is_busy ? told_status() : Status();  // a rank that leaves tells nobody else
    });
    if (!late.ok()) communicator_.break_down(late);
    // Again and again, since a stream that was on its way may have closed them.
    bool is_open = is_cancelled && open_gates();
    if (is_open) are_open_.store(true, std::memory_order_release);
    if (ends_.load(std::memory_order_acquire) && is_open == is_cancelled) return;
    sleep_on(own().bell, heard, is_busy ? kGpuLookMs : -1);
  }
}

// With pending_mutex_: tells the others up to where this rank has no use for offers any more.
void GpuCalls::settle() {
  own().settled.store(pending_.empty() ? last_known_ : pending_.front().number - 1, std::memory_order_release);
}

// Where another rank's launch has done all parts of a call, there is nothing left to do for it.
void GpuCalls::drop_launched() {
  std::lock_guard lock(pending_mutex_);
  drop_launched(board_.head().decided.load(std::memory_order_acquire));
}

// With pending_mutex_: of the calls up to `decided`.
void GpuCalls::drop_launched(uint32_t decided) {
  if (programs_) return;
  while (!pending_.empty() && !comes_before(decided, pending_.front().number)) {
    if (board_.verdict(pending_.front().number).load(std::memory_order_relaxed) == GpuBoard::Verdict::kStaged) return;
    pending_.pop_front();
    settle();
  }
}

// The next call that is decided and that this rank has to do something for. It stays in the list until that is on its
// way. What is decided is read once: a call that is decided after that is not to be taken for one that drop_launched()
// has left.
std::optional<GpuCalls::Pending> GpuCalls::next_decided() {
  std::lock_guard lock(pending_mutex_);
  uint32_t decided = board_.head().decided.load(std::memory_order_acquire);
  drop_launched(decided);
  if (pending_.empty() || comes_before(decided, pending_.front().number)) return {};
  return pending_.front();
}

// Puts on the own stream what is decided, call by call.
void GpuCalls::carry_out_decided() {
  std::lock_guard own_stream_lock(own_stream_mutex_);
  while (auto next = next_decided()) {
    Status carried = communicator_.status();
    if (carried.ok()) {
      carried = guarded([&] { return carry_out(*next); });
      if (!carried.ok()) communicator_.break_down(carried);
    }
    std::lock_guard lock(pending_mutex_);
    pending_.pop_front();
    if (!carried.ok() && next->gate != nullptr) lost_gates_.push_back(next->gate);
    settle();
  }
}

Status GpuCalls::carry_out(const Pending& pending) {
  uint32_t number = pending.number;
  bool is_launched = board_.verdict(number).load(std::memory_order_relaxed) == GpuBoard::Verdict::kLaunched;
  if (is_launched) return run_part(pending);
  last_staged_.store(number, std::memory_order_release);
  TUTTI_TRY(pending.stage(*own_stream_, {&own().reached, number}, {&own().gate, number}));
  if (pending.gate == nullptr) return {};
  WordValue opens{pending.gate, 1};
  return own_gpu_->run(*own_stream_, {.stores = {&opens, 1}});
}

// All ranks have called, and each runs its part. A rank that needs nothing of others could be done, and free what they
// are about to open: its gate waits for them.
Status GpuCalls::run_part(const Pending& pending) {
  uint32_t number = pending.number;
  std::vector<Offer> offers;
  std::vector<WordValue> waits, last_waits;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    offers.push_back(board_.offer(number, rank));
    waits.push_back({&board_.of(rank).reached, number});
    last_waits.push_back({&board_.of(rank).opened, number});
  }
  auto limit_ns = static_cast<uint64_t>(timeout_ms_ * kNsPerMs);
  std::optional<GpuPrograms::Part> part;
  Deadline deadline = Deadline::after_ms(timeout_ms_);
  for (;;) {
    part = TUTTI_TRY(programs_->part_of(offers, {.number = number, .done = done(), .limit_ns = limit_ns}));
    if (part) break;
    TUTTI_TRY(communicator_.status());
    if (deadline.passed()) return error(Code::kTimeout, "after {} ms {}", timeout_ms_, who_is_late(done() + 1));
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  std::vector<WordValue> stores = {{&own().gate, number}};
  if (pending.gate != nullptr) stores.push_back({pending.gate, 1});
  own().launched.store(number, std::memory_order_release);
  uint32_t* holds[] = {&own().late, &own().hold};
  TUTTI_TRY(own_gpu_->run(*own_stream_, {.waits = waits,
                                         .copy = part->upload,
                                         .kernel = part->kernel,
                                         .args = &part->args,
                                         .ended = {&own().ended, number},
                                         .holds = holds,
                                         .last_waits = last_waits,
                                         .stores = stores}));
  store_word(own().opened, number);
  return {};
}

}  // namespace tutti
