// What becomes of calls on GPUs after they were made: a thread that puts on a stream of its own what is decided later.
// Whatever uses the driver is here, and what may not wait for that is the keeper's (gpu_gates.h).
#include <algorithm>
#include <thread>

#include "base/guard.h"
#include "core/communicator.h"

namespace tutti {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

}  // namespace

bool GpuCalls::are_done() {
  drop_launched();
  std::lock_guard lock(pending_mutex_);
  return pending_.empty() && gates_->are_done();
}

// Streams may hear of it before others do.
void GpuCalls::cancel() noexcept {
  communicator_.stream_entry()->lose_gates();
  gates_->cancel();
  keeper_.rouse();
}

// ---- The thread

void GpuCalls::run() {
  for (;;) {
    uint32_t heard = own().bell.load(std::memory_order_acquire);
    carry_out_decided();
    tell_ended();
    if (ends_.load(std::memory_order_acquire)) return;
    sleep_on(own().bell, heard, told_of_.look_within());
  }
}

// With pending_mutex_: tells the others up to where this rank has no use for offers any more.
void GpuCalls::settle() {
  own().settled.store(pending_.empty() ? last_known_ : pending_.front().number - 1, std::memory_order_release);
}

// Where another rank's launch has done all parts of a call, there is nothing left to do for it, unless a stream waits
// for another gate.
void GpuCalls::drop_launched() {
  std::lock_guard lock(pending_mutex_);
  drop_launched(board().head().decided.load(std::memory_order_acquire));
}

// With pending_mutex_: of the calls up to `decided`.
void GpuCalls::drop_launched(uint32_t decided) {
  if (programs_) return;
  while (!pending_.empty() && !comes_before(decided, pending_.front().number)) {
    const Pending& first = pending_.front();
    bool is_staged = board().verdict(first.number).load(std::memory_order_relaxed) == GpuBoard::Verdict::kStaged;
    if (is_staged || first.gate != nullptr) return;
    pending_.pop_front();
    settle();
  }
}

// The next call that is decided and that this rank has to do something for. It stays in the list until that is on its
// way. What is decided is read once: a call that is decided after that is not to be taken for one that drop_launched()
// has left.
std::optional<GpuCalls::Pending> GpuCalls::next_decided() {
  std::lock_guard lock(pending_mutex_);
  uint32_t decided = board().head().decided.load(std::memory_order_acquire);
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
    if (carried.ok() && next->gate != nullptr) gates_->remove_late(next->gate);
    std::lock_guard lock(pending_mutex_);
    pending_.pop_front();
    settle();
  }
}

Status GpuCalls::carry_out(const Pending& pending) {
  bool is_launched = board().verdict(pending.number).load(std::memory_order_relaxed) == GpuBoard::Verdict::kLaunched;
  WordValue cleared = gates_->will_clear();
  gates_->is_putting(pending.number);
  Status carried = guarded([&]() -> Status {
    if (!is_launched) return stage_part(pending, cleared);
    return programs_ ? run_part(pending, cleared) : launch_late(pending, cleared);
  });
  gates_->is_putting(0);
  if (!carried.ok()) (void)own_gpu_->run(*own_stream_, {.stores = {&cleared, 1}});  // behind what was put there
  return carried;
}

Status GpuCalls::stage_part(const Pending& pending, const WordValue& cleared) {
  uint32_t number = pending.number;
  gates_->will_stage(number);
  TUTTI_TRY(pending.stage(*own_stream_, {.number = pending.whole_number,
                                         .begins_at = {&own().reached, number},
                                         .ends_with = {&own().gate, number}}));
  std::vector<WordValue> stores;
  if (pending.gate != nullptr) stores.push_back({pending.gate, 1});
  stores.push_back(cleared);
  return own_gpu_->run(*own_stream_, {.stores = stores});
}

// On one GPU, of a call that a stream had come to before it was made: all parts where this rank made it last, else that
// stream goes on behind the launch of the one that did.
Status GpuCalls::launch_late(const Pending& pending, const WordValue& cleared) {
  uint32_t number = pending.number;
  std::vector<WordValue> waits, stores;
  if (pending.offers.empty()) {
    waits.push_back({&own().gate, number});
    stores = {{pending.gate, 1}, cleared};
    return own_gpu_->run(*own_stream_, {.waits = waits, .stores = stores});
  }
  auto placed = TUTTI_TRY(open(pending.offers));
  cuda::Launches launches = launches_of(pending.offers.front().shape, placed);
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    waits.push_back({&board().of(rank).reached, number});
    stores.push_back({&board().of(rank).gate, number});
  }
  stores.push_back({pending.gate, 1});
  stores.push_back(cleared);
  own().launched.store(number, std::memory_order_release);
  return own_gpu_->run(*own_stream_, {.waits = waits,
                                      .kernel = launches.kernel(),
                                      .fused = launches.all(),
                                      .ended = {&own().ended, number},
                                      .stores = stores});
}

// All ranks have called, and each runs its part. A rank that needs nothing of others could be done, and free what they
// are about to open: its gate waits for them.
Status GpuCalls::run_part(const Pending& pending, const WordValue& cleared) {
  uint32_t number = pending.number;
  std::vector<Offer> offers;
  std::vector<WordValue> waits, last_waits;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    offers.push_back(board().offer(number, rank));
    waits.push_back({&board().of(rank).reached, number});
    last_waits.push_back({&board().of(rank).opened, number});
  }
  auto limit_ns = static_cast<uint64_t>(timeout_ms_ * kNsPerMs);
  std::optional<GpuPrograms::Part> part;
  Deadline deadline = Deadline::after_ms(timeout_ms_);
  for (;;) {
    part = TUTTI_TRY(programs_->part_of(offers, {.number = number, .done = done(), .limit_ns = limit_ns}));
    if (part) break;
    TUTTI_TRY(communicator_.status());
    if (deadline.passed()) return error(Code::kTimeout, "after {} ms {}", timeout_ms_, gates_->who_is_late(done() + 1));
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  std::vector<WordValue> stores = {{&own().gate, number}};
  if (pending.gate != nullptr) stores.push_back({pending.gate, 1});
  stores.push_back(cleared);
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
