#include "nccl/communicator.h"

#include <chrono>
#include <utility>

#include "nccl/background.h"
#include "nccl/report.h"
#include "tutti/tutti_nccl.h"

namespace tutti::nccl {
namespace {

// A thread may be in a group with calls of other communicators, which nobody has aborted.
constexpr std::chrono::seconds kUsesWait{1};
// Behind all numbers of tutti's.
constexpr int kFirstScalar = 1 << 16;

// Nobody else is going to join: an id's meeting point ends when the process that made it has.
void end_meeting(const tutti_unique_id_t& id) {
  tutti_comm_t* alone = nullptr;
  (void)tutti_comm_init_rank(&alone, 1, &id, 0);
  (void)tutti_comm_destroy(alone);
}

}  // namespace

Communicator::Communicator(Settings settings, Place place, std::shared_ptr<Family> family)
    : settings_(std::move(settings)), place_(place), family_(std::move(family)) {
  family_->enter();
}

Communicator::~Communicator() { close(); }

void Communicator::close() {
  tutti_comm_t* comm = nullptr;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return steps_ == 0 && uses_ == 0; });
    if (!meetings_.empty()) end_meeting(meetings_[rank_]);
    meetings_.clear();
    comm = comm_.exchange(nullptr);
  }
  Gpu::Current current(place_.gpu, place_.context);
  (void)tutti_comm_destroy(comm);  // its errors were reported by the calls that met them
}

// ---- Steps

void Communicator::begin_step() {
  std::lock_guard lock(mutex_);
  ++steps_;
}

void Communicator::end_step(ncclResult_t result) {
  std::lock_guard lock(mutex_);
  --steps_;
  if (error_ == ncclSuccess) error_ = result;
  changed_.notify_all();
}

void Communicator::wait_for_steps() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return steps_ == 0; });
}

ncclResult_t Communicator::state() {
  std::lock_guard lock(mutex_);  // under which close() takes tutti's communicator away
  if (steps_ > 0) return ncclInProgress;
  if (error_ != ncclSuccess) return error_;
  if (is_revoked() || get() == nullptr) return ncclSuccess;
  return result_of(tutti_comm_status(get()), "ncclCommGetAsyncError", get());
}

ncclResult_t Communicator::adopt(const char* function, tutti_comm_t* comm) {
  (void)tutti_comm_rank(comm, &rank_);
  (void)tutti_comm_size(comm, &nranks_);
  bool is_aborted = false;
  {
    std::lock_guard lock(mutex_);
    comm_.store(comm, std::memory_order_release);
    is_aborted = is_aborted_;
  }
  if (is_aborted) (void)tutti_comm_leave(comm);
  if (nranks_ == 1) return ncclSuccess;
  std::vector<tutti_unique_id_t> meetings(nranks_);
  tutti_unique_id_t own;
  TUTTI_NCCL_TRY(result_of(tutti_get_unique_id(&own), function, nullptr));
  tutti_status_t told = tutti_all_gather(&own, meetings.data(), sizeof own, TUTTI_UINT8, comm, nullptr);
  meetings[rank_] = own;  // which close() ends, whatever has come
  std::lock_guard lock(mutex_);
  meetings_ = std::move(meetings);
  return result_of(told, function, comm);
}

// ---- Calls

ncclResult_t Communicator::check_usable(const char* function) {
  std::lock_guard lock(mutex_);
  if (steps_ > 0) {
    return refuse(ncclInvalidArgument,
                  "{}: the communicator is not ready: ask ncclCommGetAsyncError until it no longer says ncclInProgress",
                  function);
  }
  if (is_revoked()) return refuse(ncclInvalidUsage, "{}: the communicator was revoked", function);
  if (has_finalized()) return refuse(ncclInvalidUsage, "{}: the communicator was finalized", function);
  return error_;  // whose sentence was kept when it happened
}

Communicator::Use::Use(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {
  std::lock_guard lock(communicator_->mutex_);
  ++communicator_->uses_;
}

Communicator::Use& Communicator::Use::operator=(Use&& other) noexcept {
  communicator_.swap(other.communicator_);
  return *this;
}

Communicator::Use::~Use() {
  if (communicator_ == nullptr) return;
  std::lock_guard lock(communicator_->mutex_);
  if (--communicator_->uses_ == 0) communicator_->changed_.notify_all();
}

// ---- Its end

ncclResult_t Communicator::begin_to_finalize(const char* function) {
  TUTTI_NCCL_TRY(check_usable(function));
  if (is_finalized_.exchange(true)) return refuse(ncclInvalidUsage, "{}: the communicator was finalized", function);
  begin_step();
  return ncclSuccess;
}

void Communicator::abort() {
  std::unique_lock lock(mutex_);
  is_aborted_ = true;
  if (tutti_comm_t* comm = get()) (void)tutti_comm_leave(comm);
  changed_.wait_for(lock, kUsesWait, [this] { return uses_ == 0; });
}

// The other ranks are told when it is finalized.
void Communicator::revoke(const std::shared_ptr<Communicator>& communicator) {
  if (communicator->is_revoked_.exchange(true)) return;
  (void)tutti_comm_leave(communicator->get());
  run_in_background([use = Use(communicator)] { (void)tutti_comm_finalize(use->get()); });
}

// ---- Scalars on the device

ncclRedOp_t Communicator::add_scalar(const DeviceScalar& scalar) {
  std::lock_guard lock(mutex_);
  int number = scalars_.empty() ? kFirstScalar : scalars_.rbegin()->first + 1;
  scalars_[number] = scalar;
  return static_cast<ncclRedOp_t>(number);
}

bool Communicator::remove_scalar(ncclRedOp_t op) {
  std::lock_guard lock(mutex_);
  return scalars_.erase(op) > 0;
}

std::optional<Communicator::DeviceScalar> Communicator::find_scalar(ncclRedOp_t op) {
  std::lock_guard lock(mutex_);
  auto found = scalars_.find(op);
  return found == scalars_.end() ? std::nullopt : std::optional(found->second);
}

// ---- Registered memory

ncclResult_t Communicator::register_memory(const char* function, void* buffer, size_t size, void** handle) {
  bool is_of_host = settings_.takes_host_memory && (place_.gpu == nullptr || place_.gpu->is_host_alone(buffer));
  void* registration = nullptr;  // what only devices use needs none
  if (is_of_host) {
    TUTTI_NCCL_TRY(result_of(tutti_comm_register(get(), buffer, size, &registration), function, get()));
  }
  std::lock_guard lock(mutex_);
  uintptr_t number = ++last_registration_;
  registrations_[number] = registration;
  *handle = reinterpret_cast<void*>(number);
  return ncclSuccess;
}

ncclResult_t Communicator::deregister_memory(const char* function, void* handle) {
  std::lock_guard lock(mutex_);
  auto found = registrations_.find(reinterpret_cast<uintptr_t>(handle));
  if (found == registrations_.end()) {
    return refuse(ncclInvalidArgument, "{}: {} is no handle that ncclCommRegister gave for this communicator", function,
                  handle);
  }
  tutti_status_t status = tutti_comm_deregister(get(), found->second);
  if (status != TUTTI_SYSTEM_ERROR) registrations_.erase(found);  // then it still is registered
  return result_of(status, function, get());
}

}  // namespace tutti::nccl
