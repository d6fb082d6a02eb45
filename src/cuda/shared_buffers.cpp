#include "cuda/shared_buffers.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace tutti::cuda {
namespace {

constexpr size_t kMostHandles = 4096;
// More than all calls that are under way can use, so that what is closed is used by none of them.
constexpr size_t kMostOpened = 16384;

}  // namespace

Result<DeviceBuffer> OwnBuffers::share(const void* pointer, CUcontext context) {
  auto address = reinterpret_cast<CUdeviceptr>(pointer);
  unsigned has_handles = 0;
  unsigned long long id = 0;
  std::array attributes = {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
  std::array<void*, 2> values = {&has_handles, &id};
  TUTTI_CUDA_TRY(driver_, cuPointerGetAttributes, attributes.size(), attributes.data(), values.data(), address);
  DeviceBuffer buffer{.address = address, .id = id, .pid = ::getpid(), .context = context};
  if (has_handles == 0) return buffer;
  std::lock_guard lock(mutex_);
  auto found = shared_.find(id);
  if (found == shared_.end()) {
    auto made = TUTTI_TRY(make_handle(address, context));
    if (!made) return buffer;
    if (shared_.size() == kMostHandles) shared_.erase(shared_.begin());  // the oldest allocation's
    found = shared_.emplace(id, *made).first;
  }
  buffer.base = found->second.base;
  buffer.handle = found->second.handle;
  buffer.has_handle = true;
  return buffer;
}

Result<std::optional<OwnBuffers::Shared>> OwnBuffers::make_handle(CUdeviceptr address, CUcontext context) const {
  BesideCaptures beside(driver_);
  Current current = TUTTI_TRY(Current::make(driver_, context));
  Shared made;
  size_t size_bytes = 0;
  TUTTI_CUDA_TRY(driver_, cuMemGetAddressRange, &made.base, &size_bytes, address);
  CUipcMemHandle handle{};
  static_assert(sizeof handle == std::tuple_size_v<decltype(made.handle)>);
  if (driver_.cuIpcGetMemHandle(&handle, made.base) != CUDA_SUCCESS) return std::optional<Shared>();
  std::memcpy(made.handle.data(), &handle, sizeof handle);
  return std::optional(made);
}

void OpenedBuffers::close_all() noexcept {
  auto current = Current::make(driver_, context_);
  while (!opened_.empty()) close(opened_.begin());
}

void OpenedBuffers::close(ByPlace::iterator opened) {
  (void)driver_.cuIpcCloseMemHandle(opened->second.address);
  opened_.erase(opened);
}

// Of this process, which may be on another GPU.
Result<uint64_t> OpenedBuffers::reach(const DeviceBuffer& buffer) {
  auto* context = static_cast<CUcontext>(buffer.context);
  if (context == context_ || reached_.contains(context)) return buffer.address;
  BesideCaptures beside(driver_);
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  CUresult enabled = driver_.cuCtxEnablePeerAccess(context, 0);
  bool is_new = enabled != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  if (is_new && enabled != CUDA_SUCCESS) return driver_error(driver_, "cuCtxEnablePeerAccess", enabled);
  reached_.insert(context);
  return buffer.address;
}

Result<uint64_t> OpenedBuffers::open(const DeviceBuffer& buffer) {
  if (buffer.pid == ::getpid()) return reach(buffer);
  auto found = opened_.find({buffer.pid, buffer.base});
  if (found == opened_.end() || found->second.id != buffer.id) found = TUTTI_TRY(open_anew(buffer));
  found->second.used = ++questions_;
  return found->second.address + (buffer.address - buffer.base);
}

Result<OpenedBuffers::ByPlace::iterator> OpenedBuffers::open_anew(const DeviceBuffer& buffer) {
  BesideCaptures beside(driver_);
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  std::pair place(buffer.pid, buffer.base);
  auto found = opened_.find(place);
  if (found != opened_.end()) close(found);  // freed there, and something else is at its address
  if (opened_.size() == kMostOpened) {
    close(std::min_element(opened_.begin(), opened_.end(),
                           [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  CUipcMemHandle handle{};
  std::memcpy(&handle, buffer.handle.data(), sizeof handle);
  CUdeviceptr address = 0;
  TUTTI_CUDA_TRY(driver_, cuIpcOpenMemHandle, &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  return opened_.emplace(place, Opened{.id = buffer.id, .address = address}).first;
}

}  // namespace tutti::cuda
