// How ranks meet on their GPUs, and part again.
#include "core/gpu_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/guard.h"
#include "base/log.h"
#include "core/communicator.h"

namespace tutti {
namespace {

// Of every rank, a value of its own.
template <class T>
Result<std::vector<T>> gather(ControlPlane& control, const T& mine, const char* what, Deadline deadline) {
  auto bytes = TUTTI_TRY(control.all_gather(std::as_bytes(std::span(&mine, 1)), what, deadline));
  std::vector<T> all(bytes.size());
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    if (bytes[rank].size() != sizeof(T)) return error(Code::kRemote, "rank {} has said nothing of {}", rank, what);
    std::memcpy(&all[rank], bytes[rank].data(), sizeof(T));
  }
  return all;
}

// Whether all ranks could do it: ok on all of them, or on none.
Status agree(ControlPlane& control, Status mine, const char* what, Deadline deadline) {
  auto answers = TUTTI_TRY(gather(control, static_cast<uint8_t>(mine.ok()), what, deadline));
  TUTTI_TRY(Status(mine));
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank] == 0) return error(Code::kRemote, "rank {} cannot; its log says why", rank);
  }
  return {};
}

}  // namespace

// The ranks are on one host: rank 0 makes the board, and the others open it as a file of that process.
Status GpuCalls::open_board(ControlPlane& control, Basis basis, Deadline deadline) {
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
    where.fd = made.get();
  }
  where.pid = ::getpid();
  auto all = TUTTI_TRY(gather(control, where, "the board of GPUs", deadline));
  where = all.front();
  bool is_one_process = std::all_of(all.begin(), all.end(), [&](const Where& each) { return each.pid == where.pid; });
  is_by_events_ = is_one_process && !basis;
  Status opened = guarded([&]() -> Status {
    Fd file(::open(fmt::format("/proc/{}/fd/{}", where.pid, where.fd).c_str(), O_RDWR | O_CLOEXEC));
    if (!file) return system_error(errno, "cannot open the memory that rank 0 shares; run all ranks as one user");
    GpuBoard board(TUTTI_TRY(Mapping::create(file.get(), size_bytes)), nranks);
    gates_ = std::make_shared<GpuGates>(
        GpuGates::Basis{.board = std::move(board),
                        .rank = communicator_.rank(),
                        .nranks = nranks,
                        .timeout_ms = timeout_ms_,
                        .has_programs = basis.has_value(),
                        .tell_late = [this](const Status& late) { communicator_.break_down(late); }});
    return prepare(std::move(basis));
  });
  // Rank 0 keeps its file until all have opened it; who cannot tells the others.
  return agree(control, std::move(opened), "the kernels of a GPU", deadline);
}

Status GpuCalls::prepare(Basis basis) {
  TUTTI_TRY(module_.pin(board().bytes(), gpu_.context));
  is_pinned_ = true;
  Kernels kernels = basis ? Kernels::kPrograms : Kernels::kFused;
  own_gpu_ = TUTTI_TRY(module_.use(gpu_, kernels, {.cancelled = &board().head().cancelled, .late = &own().late}));
  if (basis) {
    programs_ =
        TUTTI_TRY(GpuPrograms::create(std::move(*basis), communicator_.rank(), module_, gpu_, *own_gpu_));
  }
  if (is_by_events_) {
    own().events = TUTTI_TRY(own_gpu_->make_events());
  } else {
    own_stream_ = TUTTI_TRY(module_.make_stream(gpu_.context));
  }
  return {};
}

Status GpuCalls::open_arenas(ControlPlane& control, Deadline deadline) {
  auto arenas = TUTTI_TRY(gather(control, programs_->arena(), "the arena of a GPU", deadline));
  Status opened = guarded([&] { return programs_->open(arenas); });
  return agree(control, std::move(opened), "the arenas of GPUs", deadline);
}

Result<std::unique_ptr<GpuCalls>> GpuCalls::meet(Communicator& communicator, ControlPlane& control,
                                                 DeviceModule& module, const DeviceModule::Gpu& gpu,
                                                 GateKeeper& keeper, Basis basis, int64_t timeout_ms,
                                                 Deadline deadline) {
  bool has_programs = basis.has_value();
  std::unique_ptr<GpuCalls> made(new GpuCalls(communicator, module, gpu, keeper, timeout_ms));
  Status opened = made->open_board(control, std::move(basis), deadline);
  if (opened.ok() && has_programs) opened = made->open_arenas(control, deadline);
  if (opened.code() == Code::kTimeout) return opened;
  if (!opened.ok()) {
    log_info("calls {} go through the host: {}",
             has_programs ? "between the ranks' GPUs" : "on the GPU that all ranks share", opened.message());
    made->close_memory();
    if (agree(control, {}, "leaving GPUs", deadline).ok()) made->free_memory();
    return std::unique_ptr<GpuCalls>();
  }
  keeper.add(made->gates_);
  made->thread_ = std::thread([gpu = made.get()] { or_end_without_memory([gpu] { gpu->run(); }); });
  return made;
}

void GpuCalls::stop() noexcept {
  if (!thread_.joinable()) return;
  tell_ended();
  if (!are_done()) cancel();  // nobody else opens this rank's gates
  ends_.store(true, std::memory_order_release);
  ring(communicator_.rank());
  thread_.join();
  if (gates_->is_cancelled()) gates_->await_open();
  tell_rest();
  keeper_.leave(gates_);
}

GpuCalls::~GpuCalls() {
  stop();
  if (!is_pinned_) return;
  // What streams have still to do uses all of this: after a failure, or the last store of a call.
  bool is_unused = !gates_->is_cancelled() && are_done() && communicator_.stream_entry()->is_quiet();
  if (!is_unused || !gates_->await_clear()) {
    (void)programs_.release();
    (void)own_gpu_.release();
    gates_->leak_board();
    return;
  }
  programs_.reset();
  own_gpu_.reset();
  if (own_stream_) module_.drop_stream(*own_stream_);
  if (!module_.unpin(board().bytes().data(), gpu_.context)) gates_->leak_board();
}

void GpuCalls::close_memory() noexcept {
  if (own_gpu_) own_gpu_->close();
}

void GpuCalls::free_memory() noexcept {
  if (programs_) programs_->free_arena();
}

}  // namespace tutti
