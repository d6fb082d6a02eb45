#include "core/gpu_gates.h"

#include <algorithm>
#include <thread>

#include "base/log.h"
#include "base/types.h"

namespace tutti {
namespace {

constexpr uint32_t kFarAhead = 1U << 30;  // of all numbers that streams wait for
// A kernel that waits in vain is the first to say so.
constexpr int64_t kKernelsFirstMs = 500;
// Who waits in the driver says so before other ranks find this one late.
constexpr int64_t kDriverShare = 2;  // of the time that a call may take
// After a failure launches get so long to begin, and to end; and what a rank that leaves has on its stream.
constexpr auto kGrace = std::chrono::milliseconds(kGpuLookMs), kLongest = std::chrono::milliseconds(2000);

}  // namespace

void GpuGates::add_late(uint32_t* gate) {
  std::lock_guard lock(mutex_);
  late_.push_back(gate);
}

void GpuGates::remove_late(uint32_t* gate) {
  std::lock_guard lock(mutex_);
  auto found = std::find(late_.begin(), late_.end(), gate);
  if (found != late_.end()) late_.erase(found);
}

void GpuGates::keep_words_near(uint32_t number) {
  constexpr uint32_t kFar = 1U << 29;
  if (number - last_put() < kFar || !are_done()) return;
  store_word(own().reached, number - 1);
  store_word(own().gate, number - 1);
  has_put(number - 1);
  store_word(own().ended, number - 1);
  own().launched.store(number - 1, std::memory_order_release);
  last_staged_.store(number - 1, std::memory_order_release);
  last_waiting_.store(number - 1, std::memory_order_release);
  store_word(own().passed, number - 1);
}

// ---- Failures

void GpuGates::cancel() noexcept {
  is_cancelled_.store(true, std::memory_order_release);
  for (int rank = 0; rank < basis_.nranks; ++rank) store_word(board().of(rank).hold, 1);
  store_word(board().head().cancelled, 1);
}

Status GpuGates::status() const {
  TUTTI_TRY(kernel_status());
  if (read_word(board().head().cancelled) == 0) return {};
  return error(Code::kRemote,
               "another rank on {} has failed, or has left with calls under way; its error says why", where());
}

Code GpuGates::code() const {
  if (read_word(own().late) != 0) return Code::kTimeout;
  return read_word(board().head().cancelled) != 0 ? Code::kRemote : Code::kOk;
}

Status GpuGates::kernel_status() const {
  uint32_t late = read_word(own().late);
  if (late == 0) return {};
  // A GPU that waits for another one is not the late one.
  for (int i = 0; i < basis_.nranks; ++i) {
    uint32_t its = read_word(board().of(static_cast<int>(late) - 1).late);
    if (its != 0) late = its;
  }
  return error(Code::kTimeout,
               "rank {}: the GPU of rank {} has sent nothing for {} ms, in a call that all ranks had come to; look at "
               "what else runs there",
               basis_.rank, late - 1, basis_.timeout_ms)
      .at({.rank = basis_.rank, .peer = static_cast<int>(late) - 1});
}

void GpuGates::await_open() const {
  auto limit = Clock::now() + kLongest + kGrace;
  while (!are_open_.load(std::memory_order_acquire) && Clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool GpuGates::have_ended() const {
  for (int rank = 0; rank < basis_.nranks; ++rank) {
    const GpuBoard::OfRank& of_rank = board().of(rank);
    if (comes_before(read_word(of_rank.ended), of_rank.launched.load(std::memory_order_acquire))) return false;
  }
  return !comes_before(done(), last_staged_.load(std::memory_order_acquire));
}

// What this rank's streams wait for: their own gate, or that the others come. Behind the gate the caller's memory is
// his again, so first all ranks' launches that had begun get the time to end, and what goes through the host ends.
void GpuGates::open() {
  if (!cancelled_since_) cancelled_since_ = Clock::now();
  auto waited = Clock::now() - *cancelled_since_;
  if (waited < kGrace) return;
  uint32_t open = last_put() + kFarAhead;
  for (int rank = 0; rank < basis_.nranks; ++rank) store_word(board().of(rank).reached, open);
  if (!have_ended() && waited < kLongest) return;
  for (int rank = 0; rank < basis_.nranks; ++rank) store_word(board().of(rank).opened, open);
  store_word(own().gate, open);
  store_word(own().late, 0);
  store_word(own().hold, 0);
  {
    std::lock_guard lock(mutex_);
    for (uint32_t* gate : late_) store_word(*gate, 1);
  }
  are_open_.store(true, std::memory_order_release);
}

// Whether all streams of this rank have gone by what it has put there.
bool GpuGates::have_passed() const {
  return are_open_.load(std::memory_order_acquire) &&
         !comes_before(read_word(own().passed), last_waiting_.load(std::memory_order_acquire)) && is_clear();
}

bool GpuGates::is_clear() const {
  return !comes_before(read_word(own().cleared), last_clearing_.load(std::memory_order_acquire));
}

bool GpuGates::await_clear() const {
  auto limit = Clock::now() + kLongest;
  while (!is_clear() && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (is_clear()) return true;
  log_warn("rank {}: its GPU has not ended what it has done for {} ms; the memory for that stays", basis_.rank,
           kLongest.count());
  return false;
}

// A rank that has stopped all, or a stream that stands at its gate for too long: somebody has not come.
Status GpuGates::look_at_delay() {
  TUTTI_TRY(kernel_status());
  bool is_stopped = read_word(board().head().cancelled) != 0 && !are_done();
  if (!is_stopped) stopped_since_.reset();
  if (is_stopped && !stopped_since_) stopped_since_ = Clock::now();
  if (is_stopped && Clock::now() - *stopped_since_ >= kFailureIsToldIn) return status();
  uint32_t gate = done();
  bool stands = comes_before(gate, read_word(own().reached));
  if (!stands || gate != gate_seen_) stands_since_.reset();
  gate_seen_ = gate;
  if (!stands) return {};
  if (!stands_since_) stands_since_ = Clock::now();
  int64_t longest_ms = basis_.timeout_ms + (basis_.has_programs ? kKernelsFirstMs : 0);
  if (putting_.load(std::memory_order_relaxed) != 0) longest_ms = basis_.timeout_ms / kDriverShare;
  if (Clock::now() - *stands_since_ < std::chrono::milliseconds(longest_ms)) return {};
  return late_error(read_word(own().reached), longest_ms);
}

Status GpuGates::late_error(uint32_t number, int64_t waited_ms) const {
  return error(Code::kTimeout, "rank {}: after {} ms {}", basis_.rank, waited_ms, who_is_late(number))
      .at({.rank = basis_.rank});
}

std::string_view GpuGates::collective_of(uint32_t number, int rank) const {
  std::optional<int32_t> collective = board().collective(number, rank);
  return collective ? name_of(static_cast<Collective>(*collective)) : "a collective";
}

std::string GpuGates::last_call_of(int rank) const {
  uint32_t last = board().of(rank).called.load(std::memory_order_acquire);
  if (last == 0) return "it has made no call there";
  return fmt::format("its last call there is {} (call {})", collective_of(last, rank), last);
}

std::string GpuGates::who_is_late(uint32_t number) const {
  std::string_view name = collective_of(number, basis_.rank);
  for (int rank = 0; rank < basis_.nranks; ++rank) {
    if (comes_before(board().of(rank).called.load(std::memory_order_acquire), number)) {
      return fmt::format("rank {} has not called {} (call {} on {}); {}", rank, name, number, where(),
                         last_call_of(rank));
    }
  }
  if (putting_.load(std::memory_order_relaxed) == number) {
    return fmt::format("rank {} is in a call of the CUDA driver for {} (call {} on {}), which may wait for the streams "
                       "that wait for this; allocate and free no device memory meanwhile, and have all ranks pass "
                       "device memory with handles, so that nothing has to be pinned",
                       basis_.rank, name, number, where());
  }
  for (int rank = 0; rank < basis_.nranks; ++rank) {
    if (!comes_before(read_word(board().of(rank).reached), number)) continue;
    return fmt::format("the stream of rank {} has not come to {} (call {} on {}); look at what it waits for", rank,
                       name, number, where());
  }
  return fmt::format("the GPU has not done {} (call {} there); look at what else runs on it", name, number);
}

// A stream that was on its way when the gates were opened may have stored an older number since, and others wait
// behind that: so they are opened again and again, until all have passed.
bool GpuGates::tend() {
  if (is_cancelled()) {
    if (is_alone() && have_passed()) return false;
    open();
    return true;
  }
  Status late = look_at_delay();
  if (!late.ok() && !is_alone()) basis_.tell_late(late);
  return !are_done() || is_cancelled();
}

}  // namespace tutti
