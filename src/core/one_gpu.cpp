#include "core/one_gpu.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/guard.h"
#include "base/log.h"
#include "core/communicator.h"

namespace tutti {
namespace {

constexpr int64_t kLookMs = 100;
constexpr uint32_t kFarAhead = 1U << 30;  // of all numbers that streams wait for

void wake(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Until the word is not `known`, or for that long; -1: without an end.
void sleep_on(std::atomic<uint32_t>& word, uint32_t known, int64_t ms) {
  timespec limit{.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, known, ms < 0 ? nullptr : &limit, nullptr, 0);
}

// Whether number `a` comes before `b`.
bool is_before(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

uint32_t read(const uint32_t& word) {
  return std::atomic_ref(const_cast<uint32_t&>(word)).load(std::memory_order_acquire);
}
void store(uint32_t& word, uint32_t value) { std::atomic_ref(word).store(value, std::memory_order_release); }

}  // namespace

GpuBoard::OfRank& OneGpu::own() const { return board_.of(communicator_.rank()); }

void OneGpu::ring(int rank) const {
  std::atomic<uint32_t>& bell = board_.of(rank).bell;
  bell.fetch_add(1, std::memory_order_acq_rel);
  wake(bell);
}

// The thread looks at the time from now on.
void OneGpu::rouse() {
  if (sleeps_.exchange(false, std::memory_order_seq_cst)) ring(communicator_.rank());
}

// ---- Meeting

// The ranks are on one host: rank 0 makes the board, and the others open it as a file of that process.
Status OneGpu::open_board(ControlPlane& control, Deadline deadline) {
  struct Where {
    int64_t pid = 0;
    int64_t fd = -1;
  };
  int nranks = communicator_.nranks();
  size_t size_bytes = GpuBoard::bytes_for(nranks);
  Fd made;
  Where where;
  if (communicator_.rank() == 0) {
    auto file = create_memfd("tutti-gpu-board", size_bytes);
    if (file.ok()) made = std::move(*file);
    where = {.pid = ::getpid(), .fd = made.get()};
  }
  auto all = TUTTI_TRY(control.all_gather(std::as_bytes(std::span(&where, 1)), "the board of a GPU", deadline));
  Status opened = guarded([&]() -> Status {
    if (all.front().size() != sizeof where) return error(Code::kRemote, "rank 0 has said nothing of a board");
    std::memcpy(&where, all.front().data(), sizeof where);
    Fd file(::open(fmt::format("/proc/{}/fd/{}", where.pid, where.fd).c_str(), O_RDWR | O_CLOEXEC));
    if (!file) return system_error(errno, "cannot open the memory that rank 0 shares; run all ranks as one user");
    board_ = GpuBoard(TUTTI_TRY(Mapping::create(file.get(), size_bytes)), nranks);
    return prepare();
  });
  // Rank 0 keeps its file until all have opened it; who cannot tells the others.
  uint8_t can = opened.ok() ? 1 : 0;
  auto answers = TUTTI_TRY(control.all_gather(std::as_bytes(std::span(&can, 1)), "the kernels of a GPU", deadline));
  TUTTI_TRY(opened);
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank].size() == 1 && answers[rank].front() == std::byte{1}) continue;
    return error(Code::kRemote, "rank {} cannot; its log says why", rank);
  }
  return {};
}

Status OneGpu::prepare() {
  TUTTI_TRY(module_.pin(board_.bytes(), gpu_.context));
  is_pinned_ = true;
  shared_ = TUTTI_TRY(module_.share(gpu_, &board_.head().cancelled));
  staging_stream_ = TUTTI_TRY(module_.make_stream(gpu_.context));
  return {};
}

Result<std::unique_ptr<OneGpu>> OneGpu::meet(Communicator& communicator, ControlPlane& control, DeviceModule& module,
                                             const DeviceModule::Gpu& gpu, int64_t timeout_ms, Deadline deadline) {
  std::unique_ptr<OneGpu> made(new OneGpu(communicator, module, gpu, timeout_ms));
  Status opened = made->open_board(control, deadline);
  if (opened.code() == Code::kTimeout) return opened;
  if (!opened.ok()) {
    log_info("calls on the GPU that all ranks share go through the host: {}", opened.message());
    return std::unique_ptr<OneGpu>();
  }
  made->thread_ = std::thread([gpu = made.get()] { or_end_without_memory([gpu] { gpu->run(); }); });
  return made;
}

void OneGpu::stop() noexcept {
  if (!thread_.joinable()) return;
  if (!are_done()) cancel();  // nobody else opens this rank's gates
  ends_.store(true, std::memory_order_release);
  ring(communicator_.rank());
  thread_.join();
}

OneGpu::~OneGpu() {
  stop();
  if (!is_pinned_) return;
  // What still waits on streams, after a failure, uses all of this.
  if (is_cancelled_.load(std::memory_order_acquire) || !are_done() || !communicator_.stream_entry()->is_quiet()) {
    (void)shared_.release();
    board_.leak();
    return;
  }
  shared_.reset();
  if (staging_stream_) module_.drop_stream(*staging_stream_);
  if (!module_.unpin(board_.bytes().data(), gpu_.context)) board_.leak();
}

// ---- Calls

Result<std::optional<Offer>> OneGpu::offer(const tutti_request& request, const DeviceModule::Stream& stream) {
  if (!can_be_fused(request) || stream.context != gpu_.context) return std::optional<Offer>();
  Offer offer{.shape = shape_of(request), .is_fusable = 1};
  auto look = [&](const std::byte* data, uint64_t size_bytes, uint8_t& has, DeviceBuffer& buffer) -> Result<bool> {
    has = size_bytes > 0 ? 1 : 0;
    if (has == 0) return true;
    BufferPlace place = TUTTI_TRY(module_.place_of(data));
    if (place.kind != MemoryKind::kDevice || place.device != gpu_.device) return false;
    auto shared = TUTTI_TRY(module_.share_buffer(data, gpu_));
    if (shared) buffer = *shared;
    return shared.has_value();
  };
  const CallArguments& arguments = request.arguments;
  const Geometry& geometry = request.geometry;
  bool fits = TUTTI_TRY(look(arguments.input, geometry.input_bytes, offer.has_input, offer.input)) &&
              TUTTI_TRY(look(arguments.output, geometry.output_bytes, offer.has_output, offer.output));
  return fits ? std::optional(offer) : std::nullopt;
}

Result<bool> OneGpu::put(const Offer& offer, const DeviceModule::Stream& stream, StreamOrder& order, Stage stage) {
  std::lock_guard lock(mutex_);
  TUTTI_TRY(await_place(called_ + 1));
  bool is_last = say(offer);
  uint32_t number = called_;
  // What fails from here on keeps the others waiting.
  auto or_break_down = [this](Status status) {
    if (!status.ok()) communicator_.break_down(status);
    return status;
  };
  if (is_last) {
    auto placed = place(number);
    if (placed) {
      TUTTI_TRY(or_break_down(launch(number, *placed, stream, order)));
      last_put_.store(number, std::memory_order_seq_cst);
      rouse();
    }
    decide(number, placed ? GpuBoard::Verdict::kLaunched : GpuBoard::Verdict::kStaged);
    return placed.has_value();
  }
  TUTTI_TRY(or_break_down(module_.put_gate(stream, order, {&own().reached, number}, {&own().gate, number})));
  {
    std::lock_guard pending_lock(pending_mutex_);
    pending_.push_back({number, std::move(stage)});
  }
  last_put_.store(number, std::memory_order_seq_cst);
  rouse();
  // The verdict may have come before the thread could know what it is about.
  if (!is_before(board_.head().decided.load(std::memory_order_acquire), number)) ring(communicator_.rank());
  return true;
}

Status OneGpu::announce(const tutti_request& request) {
  std::lock_guard lock(mutex_);
  TUTTI_TRY(await_place(called_ + 1));
  if (say({.shape = shape_of(request)})) decide(called_, GpuBoard::Verdict::kStaged);
  return {};
}

// The place of a call on the board serves another one kCalls later.
Status OneGpu::await_place(uint32_t number) {
  std::atomic<uint32_t>& decided = board_.head().decided;
  uint32_t needed = number - GpuBoard::kCalls;
  if (number <= GpuBoard::kCalls) needed = 0;
  Deadline deadline = Deadline::after_ms(timeout_ms_);
  while (is_before(decided.load(std::memory_order_acquire), needed)) {
    TUTTI_TRY(communicator_.status());
    if (deadline.passed()) {
      uint32_t next = decided.load(std::memory_order_acquire) + 1;
      return error(Code::kTimeout, "{} calls are under way on the GPU, and {}", GpuBoard::kCalls, who_is_late(next));
    }
    board_.head().waiting.fetch_add(1, std::memory_order_seq_cst);
    uint32_t now = decided.load(std::memory_order_seq_cst);
    if (is_before(now, needed)) sleep_on(decided, now, kLookMs);
    board_.head().waiting.fetch_sub(1, std::memory_order_acq_rel);
  }
  // The verdict on the call before in this place must have been seen. The thread does what it says: this one may be
  // where the driver cannot be used.
  for (;;) {
    drop_launched();
    {
      std::lock_guard lock(pending_mutex_);
      if (pending_.empty() || is_before(needed, pending_.front().number)) return {};
    }
    TUTTI_TRY(communicator_.status());
    ::sched_yield();
  }
}

bool OneGpu::say(const Offer& offer) {
  uint32_t number = ++called_;
  board_.offer(number, communicator_.rank()) = offer;
  own().called.store(number, std::memory_order_release);
  std::atomic<uint32_t>& arrived = board_.arrived(number);
  auto nranks = static_cast<uint32_t>(communicator_.nranks());
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < nranks) return false;
  arrived.store(0, std::memory_order_relaxed);  // nobody comes before the verdict is known
  return true;
}

std::optional<std::vector<PlacedBuffers>> OneGpu::place(uint32_t number) {
  const Offer& first = board_.offer(number, 0);
  std::vector<PlacedBuffers> placed;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    const Offer& each = board_.offer(number, rank);
    if (each.is_fusable == 0 || each.shape != first.shape) return {};
  }
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    const Offer& each = board_.offer(number, rank);
    PlacedBuffers buffers;
    Status opened = guarded([&]() -> Status {
      if (each.has_input != 0) buffers.input = TUTTI_TRY(shared_->open(each.input));
      if (each.has_output != 0) buffers.output = TUTTI_TRY(shared_->open(each.output));
      return {};
    });
    if (!opened.ok()) {
      log_info("a call on the GPU goes through the host: memory of rank {}: {}", rank, opened.message());
      return {};
    }
    placed.push_back(buffers);
  }
  return placed;
}

void OneGpu::decide(uint32_t number, GpuBoard::Verdict verdict) {
  std::vector<int> waiting;  // for it to go through the host
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    bool has_offered = rank != communicator_.rank() && board_.offer(number, rank).is_fusable != 0;
    if (has_offered && verdict == GpuBoard::Verdict::kStaged) waiting.push_back(rank);
  }
  board_.verdict(number).store(verdict, std::memory_order_relaxed);
  board_.head().decided.store(number, std::memory_order_seq_cst);
  if (board_.head().waiting.load(std::memory_order_seq_cst) > 0) wake(board_.head().decided);
  for (int rank : waiting) ring(rank);
}

// The others' streams come to the call, and wait at their gates.
Status OneGpu::launch(uint32_t number, std::span<const PlacedBuffers> placed, const DeviceModule::Stream& stream,
                      StreamOrder& order) {
  std::vector<WordValue> waits, stores;
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    if (rank == communicator_.rank()) continue;
    waits.push_back({&board_.of(rank).reached, number});
    stores.push_back({&board_.of(rank).gate, number});
  }
  stores.push_back({&own().gate, number});
  cuda::Launches launches = launches_of(board_.offer(number, 0).shape, placed);
  return shared_->launch(stream, order,
                         {.kernel = launches.kernel(),
                          .args = launches.all(),
                          .reached = {&own().reached, number},
                          .waits = waits,
                          .stores = stores});
}

Status OneGpu::await_decided() {
  std::atomic<uint32_t>& decided = board_.head().decided;
  Deadline deadline = Deadline::after_ms(timeout_ms_);
  uint32_t before = decided.load(std::memory_order_acquire);
  for (;;) {
    uint32_t now = decided.load(std::memory_order_acquire);
    if (std::exchange(before, now) != now) deadline = Deadline::after_ms(timeout_ms_);
    stage_decided();
    {
      std::lock_guard lock(pending_mutex_);
      if (pending_.empty()) return {};
    }
    TUTTI_TRY(communicator_.status());
    if (deadline.passed()) {
      return error(Code::kTimeout, "rank {}: after {} ms {}", communicator_.rank(), timeout_ms_, who_is_late(now + 1))
          .at({.rank = communicator_.rank()});
    }
    board_.head().waiting.fetch_add(1, std::memory_order_seq_cst);
    if (decided.load(std::memory_order_seq_cst) == now) sleep_on(decided, now, kLookMs);
    board_.head().waiting.fetch_sub(1, std::memory_order_acq_rel);
  }
}

uint32_t OneGpu::done() const { return read(own().gate); }

bool OneGpu::are_done() {
  drop_launched();
  std::lock_guard lock(pending_mutex_);
  return pending_.empty() && !is_before(done(), last_put_.load(std::memory_order_seq_cst));
}

void OneGpu::cancel() noexcept {
  is_cancelled_.store(true, std::memory_order_release);
  store(board_.head().cancelled, 1);
  ring(communicator_.rank());
}

bool OneGpu::is_cancelled() const { return read(board_.head().cancelled) != 0; }

// Of a communicator that has failed, what this rank's streams wait for: their own gate, or that the others come. Behind
// the gate the caller's memory is his again, so first a launch that had begun gets the time to end, and what goes
// through the host ends. False: not yet.
bool OneGpu::open_gates() noexcept {
  constexpr auto kGrace = std::chrono::milliseconds(kLookMs), kLongest = std::chrono::milliseconds(2000);
  if (!cancelled_since_) cancelled_since_ = Clock::now();
  auto waited = Clock::now() - *cancelled_since_;
  bool is_staging = is_before(done(), last_staged_.load(std::memory_order_acquire));
  if (waited < kGrace || (is_staging && waited < kLongest)) return false;
  uint32_t open = last_put_.load(std::memory_order_seq_cst) + kFarAhead;
  store(own().gate, open);
  for (int rank = 0; rank < communicator_.nranks(); ++rank) store(board_.of(rank).reached, open);
  return true;
}

// ---- The thread: what becomes of calls after they were made

void OneGpu::run() {
  for (;;) {
    uint32_t heard = own().bell.load(std::memory_order_acquire);
    stage_decided();
    bool is_cancelled = is_cancelled_.load(std::memory_order_acquire);
    sleeps_.store(true, std::memory_order_seq_cst);
    bool is_busy = is_cancelled || !are_done();
    if (is_busy) sleeps_.store(false, std::memory_order_relaxed);
    Status late = guarded([&]() -> Status {
      if (is_busy && !is_cancelled) TUTTI_TRY(communicator_.stream_entry()->look_at_device());
      return look_at_delay();
    });
    if (!late.ok()) communicator_.break_down(late);
    // Again and again, since a stream that was on its way may have closed them.
    bool is_open = is_cancelled && open_gates();
    if (ends_.load(std::memory_order_acquire) && is_open == is_cancelled) return;
    sleep_on(own().bell, heard, is_busy ? kLookMs : -1);
  }
}

void OneGpu::drop_launched() {
  std::lock_guard lock(pending_mutex_);
  while (!pending_.empty()) {
    uint32_t number = pending_.front().number;
    if (is_before(board_.head().decided.load(std::memory_order_acquire), number)) return;
    if (board_.verdict(number).load(std::memory_order_relaxed) == GpuBoard::Verdict::kStaged) return;
    pending_.pop_front();
  }
}

// Drops what was launched, and puts what goes through the host on its stream.
void OneGpu::stage_decided() {
  std::lock_guard staging_lock(staging_mutex_);
  for (;;) {
    drop_launched();
    Pending next;
    {
      std::lock_guard lock(pending_mutex_);
      if (pending_.empty()) return;
      if (is_before(board_.head().decided.load(std::memory_order_acquire), pending_.front().number)) return;
      next = pending_.front();  // and it stays there until it is on its way
    }
    if (!is_cancelled_.load(std::memory_order_acquire)) {
      last_staged_.store(next.number, std::memory_order_release);
      Status staged = guarded([&] {
        return next.stage(*staging_stream_, {&own().reached, next.number}, {&own().gate, next.number});
      });
      if (!staged.ok()) communicator_.break_down(staged);
    }
    std::lock_guard lock(pending_mutex_);
    pending_.pop_front();
  }
}

// A stream that stands at its gate for too long: somebody has not come.
Status OneGpu::look_at_delay() {
  uint32_t gate = read(own().gate);
  bool stands = is_before(gate, read(own().reached)) && !is_cancelled_.load(std::memory_order_acquire);
  if (!stands || gate != gate_seen_) stands_since_.reset();
  gate_seen_ = gate;
  if (!stands) return {};
  if (!stands_since_) stands_since_ = Clock::now();
  if (Clock::now() - *stands_since_ < std::chrono::milliseconds(timeout_ms_)) return {};
  return error(Code::kTimeout, "rank {}: after {} ms {}", communicator_.rank(), timeout_ms_,
               who_is_late(read(own().reached)))
      .at({.rank = communicator_.rank()});
}

// Who keeps call `number` from being done.
std::string OneGpu::who_is_late(uint32_t number) const {
  std::string_view name =
      name_of(static_cast<Collective>(board_.offer(number, communicator_.rank()).shape.collective));
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    if (is_before(board_.of(rank).called.load(std::memory_order_acquire), number)) {
      return fmt::format("rank {} has not called {} (call {} on this GPU)", rank, name, number);
    }
  }
  for (int rank = 0; rank < communicator_.nranks(); ++rank) {
    if (!is_before(read(board_.of(rank).reached), number)) continue;
    return fmt::format("the stream of rank {} has not come to {} (call {} on this GPU); look at what it waits for",
                       rank, name, number);
  }
  return fmt::format("the GPU has not done {} (call {} there); look at what else runs on it", name, number);
}

}  // namespace tutti
