// What a call does that is offered for GPUs. What becomes of it later: gpu_calls_thread.cpp; how ranks meet there:
// gpu_calls_meet.cpp.
#include "core/gpu_calls.h"

#include <sched.h>

#include <algorithm>

#include "base/guard.h"
#include "base/log.h"
#include "core/communicator.h"

namespace tutti {
namespace {

// The communicator's. What is known only from the board gets the time to be told by the rank that it happened to.
Status told_status(const Communicator& communicator, const GpuCalls& calls) {
  Status known = communicator.status();
  for (auto end = Clock::now() + kFailureIsToldIn; Clock::now() < end && known.message() == calls.status().message();) {
    if (known.ok()) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    known = communicator.status();
  }
  return known;
}

}  // namespace

GpuBoard::OfRank& GpuCalls::own() const { return gates_->own(); }

void GpuCalls::ring(int rank) const {
  std::atomic<uint32_t>& bell = board().of(rank).bell;
  bell.fetch_add(1, std::memory_order_acq_rel);
  wake(bell);
}

Result<std::optional<Offer>> GpuCalls::offer(const tutti_request& request, const DeviceModule::Stream& stream) {
  std::string why_not;
  if (const char* why = why_not_on_gpus(request)) why_not = why;
  if (stream.context != gpu_.context) why_not = "its stream is not of the rank's GPU and context";
  const CallArguments& arguments = request.arguments;
  const Geometry& geometry = request.geometry;
  Offer offer{.shape = shape_of(request), .is_on_gpu = 1, .in_place = geometry.in_place};
  auto look = [&](const std::byte* data, uint64_t size_bytes, uint8_t& has, DeviceBuffer& buffer) -> Status {
    has = size_bytes > 0 ? 1 : 0;
    if (has == 0) return {};
    BufferPlace place = TUTTI_TRY(module_.place_of(data));
    if (place.kind != MemoryKind::kDevice) {
      why_not = "a buffer is managed or pinned memory";
    } else if (place.device != gpu_.device) {
      why_not = "a buffer is another device's";
    }
    if (!why_not.empty()) return {};
    buffer = TUTTI_TRY(module_.share_buffer(data, gpu_));
    if (!buffer.has_handle && !is_by_events_) {
      why_not = "a buffer has no handle for other ranks (cudaMallocAsync, VMM, expandable segments)";
    }
    return {};
  };
  if (why_not.empty()) TUTTI_TRY(look(arguments.input, geometry.input_bytes, offer.has_input, offer.input));
  if (why_not.empty()) TUTTI_TRY(look(arguments.output, geometry.output_bytes, offer.has_output, offer.output));
  if (why_not.empty() && programs_) {
    if (Status admitted = programs_->admit(offer.shape, geometry.in_place); !admitted.ok()) {
      why_not = admitted.message();
    }
  }
  if (why_not.empty()) return std::optional(offer);
  tell_why_not(fmt::format("{}: {}", name_of(arguments.collective), why_not));
  return std::optional<Offer>();
}

void GpuCalls::tell_why_not(const std::string& why) {
  std::lock_guard lock(told_mutex_);
  if (told_.insert(why).second) log_info("not on {}, but through the host: {}", gates_->where(), why);
}

Status GpuCalls::or_break_down(Status status) {
  if (status.ok()) return status;
  communicator_.break_down(status);
  gates_->await_open();
  return status;
}

Result<GpuCalls::Put> GpuCalls::put(const tutti_request& request, const Offer& offer,
                                    const DeviceModule::Stream& stream, StreamOrder& order, Stage stage) {
  std::lock_guard lock(mutex_);
  TUTTI_TRY(await_place(next_number()));
  if (is_by_events_) return put_by_events(request, offer, stream, order);
  uint32_t number = begin_offered(request);
  bool is_last = say(number, offer);
  bool stays = is_last && all_offer(number);
  if (is_last && (!stays || !programs_)) {
    auto placed = stays ? place(number) : std::nullopt;
    if (placed) TUTTI_TRY(or_break_down(launch(number, *placed, stream, order)));
    gates_->has_put(number);
    keeper_.rouse();
    know({.number = number});
    decide(number, placed ? GpuBoard::Verdict::kLaunched : GpuBoard::Verdict::kStaged);
    return Put{.is_done = placed.has_value(), .staged = {.number = called_, .ends_with = {&own().gate, number}}};
  }
  gates_->will_wait(number);
  TUTTI_TRY(or_break_down(module_.put_gate(stream, order,
                                           {.reached = {&own().reached, number},
                                            .waits = {&own().gate, number},
                                            .passed = {&own().passed, number}})));
  know({.number = number, .whole_number = called_, .stage = std::move(stage)});
  gates_->has_put(number);
  if (is_last) decide(number, GpuBoard::Verdict::kLaunched);
  keeper_.rouse();
  // The verdict may have come before the thread could know what it is about.
  if (!comes_before(board().head().decided.load(std::memory_order_acquire), number)) ring(communicator_.rank());
  return Put{.is_done = true};
}

// No rank makes its next call before all have this one on their streams, so each needs one event of a kind.
Result<GpuCalls::Put> GpuCalls::put_by_events(const tutti_request& request, const Offer& offer,
                                              const DeviceModule::Stream& stream, StreamOrder& order) {
  uint32_t number = begin_offered(request);
  WordValue gate{&own().gate, number};
  TUTTI_TRY(or_break_down(own_gpu_->come(stream, order, {&own().reached, number})));
  gates_->has_put(number);
  keeper_.rouse();
  if (say(number, offer)) {
    auto placed = all_offer(number) ? place(number) : std::nullopt;
    if (placed) TUTTI_TRY(or_break_down(launch_behind(number, *placed, stream, order)));
    know({.number = number});
    decide(number, placed ? GpuBoard::Verdict::kLaunched : GpuBoard::Verdict::kStaged);
    return Put{.is_done = placed.has_value(), .staged = {.number = called_, .ends_with = gate}};
  }
  know({.number = number});
  TUTTI_TRY(or_break_down(await_verdict(number)));
  bool is_launched = board().verdict(number).load(std::memory_order_relaxed) == GpuBoard::Verdict::kLaunched;
  int32_t decider = board().decider(number).load(std::memory_order_relaxed);
  if (is_launched) {
    TUTTI_TRY(or_break_down(own_gpu_->go_on_behind(stream, order, board().of(decider).events.done, gate)));
  }
  return Put{.is_done = is_launched, .staged = {.number = called_, .ends_with = gate}};
}

Status GpuCalls::await_verdict(uint32_t number) const {
  constexpr int kLooks = 100;  // before it sleeps
  std::atomic<uint32_t>& decided = board().head().decided;
  auto is_known = [&] { return !comes_before(decided.load(std::memory_order_seq_cst), number); };
  Deadline deadline = Deadline::after_ms(timeout_ms_);
  for (int i = 0; i < kLooks && !is_known(); ++i) ::sched_yield();
  while (!is_known()) {
    TUTTI_TRY(told_status(communicator_, *this));
    if (deadline.passed()) return gates_->late_error(number, timeout_ms_);
    board().head().waiting.fetch_add(1, std::memory_order_seq_cst);
    uint32_t now = decided.load(std::memory_order_seq_cst);
    if (comes_before(now, number)) sleep_on(decided, now, std::min<int64_t>(kGpuLookMs, timeout_ms_));
    board().head().waiting.fetch_sub(1, std::memory_order_acq_rel);
  }
  return {};
}

Status GpuCalls::put_reached(const tutti_request& request, const Offer& offer, uint32_t* gate, Stage stage) {
  std::lock_guard lock(mutex_);
  TUTTI_TRY(communicator_.status());
  TUTTI_TRY(await_place(next_number()));
  uint32_t number = begin_offered(request);
  Offer late = offer;
  late.is_late = 1;
  bool is_last = say(number, late);
  bool stays = is_last && all_offer(number);
  store_word(own().reached, number);
  gates_->add_late(gate);
  std::vector<Offer> offers = stays && !programs_ ? offers_of(number) : std::vector<Offer>();
  know({.number = number,
        .whole_number = called_,
        .stage = std::move(stage),
        .gate = gate,
        .offers = std::move(offers)});
  gates_->has_put(number);
  if (is_last) decide(number, stays ? GpuBoard::Verdict::kLaunched : GpuBoard::Verdict::kStaged);
  keeper_.rouse();
  if (!comes_before(board().head().decided.load(std::memory_order_acquire), number)) ring(communicator_.rank());
  return {};
}

Status GpuCalls::announce(tutti_request& request) {
  std::lock_guard lock(mutex_);
  TUTTI_TRY(await_place(next_number()));
  uint32_t number = begin_call();
  request.number = called_;
  bool is_last = say(number, {.shape = shape_of(request)});
  know({.number = number});
  if (is_last) decide(number, GpuBoard::Verdict::kStaged);
  return {};
}

// The place of a call on the board serves another one kCalls later.
Status GpuCalls::await_place(uint32_t number) {
  std::atomic<uint32_t>& decided = board().head().decided;
  uint32_t needed = number - GpuBoard::kCalls;
  Deadline deadline = Deadline::after_ms(timeout_ms_);
  auto check = [&]() -> Status {
    TUTTI_TRY(communicator_.status());
    if (!deadline.passed()) return {};
    uint32_t next = decided.load(std::memory_order_acquire) + 1;
    return error(Code::kTimeout, "{} calls are under way on {}, and {}", GpuBoard::kCalls, gates_->where(),
                 gates_->who_is_late(next));
  };
  while (comes_before(decided.load(std::memory_order_acquire), needed)) {
    TUTTI_TRY(check());
    board().head().waiting.fetch_add(1, std::memory_order_seq_cst);
    uint32_t now = decided.load(std::memory_order_seq_cst);
    if (comes_before(now, needed)) sleep_on(decided, now, kGpuLookMs);
    board().head().waiting.fetch_sub(1, std::memory_order_acq_rel);
  }
  // What was decided on the call before in this place must have been done. The threads do that: this one may be where
  // the driver cannot be used.
  for (;;) {
    drop_launched();
    if (has_settled(needed)) return {};
    TUTTI_TRY(check());
    ::sched_yield();
  }
}

// Whether nobody looks at offers up to that call any more: those of others only their own GPUs' launches do.
bool GpuCalls::has_settled(uint32_t number) const {
  auto is_behind = [&](int rank) {
    return comes_before(board().of(rank).settled.load(std::memory_order_acquire), number);
  };
  if (!programs_) return !is_behind(communicator_.rank());
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    if (is_behind(rank)) return false;
  }
  return true;
}

uint32_t GpuCalls::begin_call() {
  uint32_t number = next_number();
  ++called_;
  gates_->keep_words_near(number);
  return number;
}

bool GpuCalls::say(uint32_t number, const Offer& offer) {
  board().offer(number, communicator_.rank()) = offer;
  board().say_collective(number, communicator_.rank(), offer.shape.collective);
  own().called.store(number, std::memory_order_release);
  std::atomic<uint32_t>& arrived = board().arrived(number);
  auto nranks = static_cast<uint32_t>(communicator_.nranks());
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < nranks) return false;
  arrived.store(0, std::memory_order_relaxed);  // nobody comes before the verdict is known
  return true;
}

// This rank has said a call, and either has no more to do for it or does it once the verdict is known.
void GpuCalls::know(Pending pending) {
  std::lock_guard lock(pending_mutex_);
  last_known_ = pending.number;
  if (pending.stage) pending_.push_back(std::move(pending));
  settle();
}

bool GpuCalls::all_offer(uint32_t number) {
  const Offer& first = board().offer(number, 0);
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    const Offer& each = board().offer(number, rank);
    if (each.is_on_gpu == 0) {
      auto collective = static_cast<Collective>(each.shape.collective);
      tell_why_not(fmt::format("{}: rank {} makes it elsewhere", name_of(collective), rank));
      return false;
    }
    if (each.shape != first.shape) return false;
  }
  return true;
}

std::vector<Offer> GpuCalls::offers_of(uint32_t number) const {
  std::vector<Offer> offers;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) offers.push_back(board().offer(number, rank));
  return offers;
}

Result<std::vector<PlacedBuffers>> GpuCalls::open(std::span<const Offer> offers) {
  std::lock_guard lock(opening_mutex_);
  std::vector<PlacedBuffers> placed;
  for (const Offer& each : offers) {
    PlacedBuffers buffers;
    Status opened = guarded([&]() -> Status {
      if (each.has_input != 0) buffers.input = TUTTI_TRY(own_gpu_->open(each.input));
      if (each.has_output != 0) buffers.output = TUTTI_TRY(own_gpu_->open(each.output));
      return {};
    });
    if (!opened.ok()) return std::move(opened).within(fmt::format("memory of rank {}", placed.size()));
    placed.push_back(buffers);
  }
  return placed;
}

std::optional<std::vector<PlacedBuffers>> GpuCalls::place(uint32_t number) {
  auto placed = open(offers_of(number));
  if (placed.ok()) return std::move(*placed);
  tell_why_not(std::string(placed.status().message()));
  return {};
}

// Rings those who have something to do now.
void GpuCalls::decide(uint32_t number, GpuBoard::Verdict verdict) {
  std::vector<int> waiting;
  bool is_for_all = verdict == GpuBoard::Verdict::kStaged || programs_ != nullptr;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    const Offer& its = board().offer(number, rank);
    bool has_offered = rank != communicator_.rank() && its.is_on_gpu != 0;
    if (has_offered && (is_for_all || its.is_late != 0)) waiting.push_back(rank);
  }
  board().verdict(number).store(verdict, std::memory_order_relaxed);
  board().decider(number).store(communicator_.rank(), std::memory_order_relaxed);
  board().head().decided.store(number, std::memory_order_seq_cst);
  if (board().head().waiting.load(std::memory_order_seq_cst) > 0) wake(board().head().decided);
  for (int rank : waiting) ring(rank);
}

// The others' streams come to the call, and wait at their gates.
Status GpuCalls::launch(uint32_t number, std::span<const PlacedBuffers> placed, const DeviceModule::Stream& stream,
                        StreamOrder& order) {
  std::vector<WordValue> waits, stores;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    if (rank == communicator_.rank()) continue;
    waits.push_back({&board().of(rank).reached, number});
    stores.push_back({&board().of(rank).gate, number});
  }
  stores.push_back({&own().gate, number});
  stores.push_back({&own().passed, number});
  gates_->will_wait(number);
  cuda::Launches launches = launches_of(board().offer(number, 0).shape, placed);
  own().launched.store(number, std::memory_order_release);
  return own_gpu_->launch(stream, order,
                          {.kernel = launches.kernel(),
                           .args = launches.all(),
                           .reached = {&own().reached, number},
                           .waits = waits,
                           .ended = {&own().ended, number},
                           .stores = stores});
}

Status GpuCalls::launch_behind(uint32_t number, std::span<const PlacedBuffers> placed,
                               const DeviceModule::Stream& stream, StreamOrder& order) {
  std::vector<DeviceEvent> come;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    if (rank != communicator_.rank()) come.push_back(board().of(rank).events.come);
  }
  cuda::Launches launches = launches_of(board().offer(number, 0).shape, placed);
  own().launched.store(number, std::memory_order_release);
  return own_gpu_->launch_behind(stream, order,
                                 {.kernel = launches.kernel(),
                                  .args = launches.all(),
                                  .come = come,
                                  .ended = {&own().ended, number},
                                  .gate = {&own().gate, number}});
}

Status GpuCalls::await_decided() {
  std::atomic<uint32_t>& decided = board().head().decided;
  Deadline deadline = Deadline::after_ms(timeout_ms_);
  uint32_t before = decided.load(std::memory_order_acquire);
  for (;;) {
    uint32_t now = decided.load(std::memory_order_acquire);
    if (std::exchange(before, now) != now) deadline = Deadline::after_ms(timeout_ms_);
    carry_out_decided();
    {
      std::lock_guard lock(pending_mutex_);
      if (pending_.empty()) return {};
    }
    TUTTI_TRY(communicator_.status());
    if (deadline.passed()) return gates_->late_error(now + 1, timeout_ms_);
    board().head().waiting.fetch_add(1, std::memory_order_seq_cst);
    if (decided.load(std::memory_order_seq_cst) == now) sleep_on(decided, now, kGpuLookMs);
    board().head().waiting.fetch_sub(1, std::memory_order_acq_rel);
  }
}

}  // namespace tutti
