// A device of torch's on CUDA's driver, as "privateuseone": with the driver of the tests (tests/cuda/fake) it has
// tensors, streams and events that behave like a GPU's where there is none. Whatever computes does so on the CPU.
// TUTTI_CUDA_DRIVER names the driver's library.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kType, 0);

#define DRIVER_CALLS(X)                                                                                               \
  X(cuInit, 2000) X(cuDeviceGet, 2000) X(cuDevicePrimaryCtxRetain, 7000) X(cuCtxSetCurrent, 4000) X(cuMemAlloc, 3020) \
  X(cuMemcpyAsync, 4000) X(cuStreamCreate, 2000) X(cuStreamSynchronize, 2000) X(cuLaunchHostFunc, 10000)              \
  X(cuEventCreate, 2000) X(cuEventDestroy, 4000) X(cuEventRecord, 2000) X(cuEventQuery, 2000) X(cuStreamWaitEvent, 3020)

struct Driver {
#define X(name, version) PFN_##name##_v##version name = nullptr;
  DRIVER_CALLS(X)
#undef X
  CUcontext context = nullptr;
};

void must(CUresult result, const char* call) { TORCH_CHECK(result == CUDA_SUCCESS, call, " gave ", int(result)); }
#define MUST(call, ...) must(driver().call(__VA_ARGS__), #call)

std::atomic<bool> is_in_use{false};

// The context is the calling thread's current one from here on.
const Driver& driver() {
  static const Driver opened = [] {
    Driver driver;
    void* handle = ::dlopen(std::getenv("TUTTI_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    TORCH_CHECK(handle != nullptr, ::dlerror());
    auto look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(::dlsym(handle, "cuGetProcAddress_v2"));
    CUdriverProcAddressQueryResult found{};
    void* address = nullptr;
#define X(name, version)                                                                            \
  must(look_up(#name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found), #name);        \
  driver.name = reinterpret_cast<PFN_##name##_v##version>(address);
    DRIVER_CALLS(X)
#undef X
    must(driver.cuInit(0), "cuInit");
    CUdevice device = 0;
    must(driver.cuDeviceGet(&device, 0), "cuDeviceGet");
    must(driver.cuDevicePrimaryCtxRetain(&driver.context, device), "cuDevicePrimaryCtxRetain");
    is_in_use = true;
    return driver;
  }();
  thread_local bool has_context = false;
  if (!has_context) must(opened.cuCtxSetCurrent(opened.context), "cuCtxSetCurrent");
  has_context = true;
  return opened;
}

thread_local c10::StreamId current_id = 0;  // a CUstream; 0 is the default one
CUstream stream_of(c10::StreamId id) { return reinterpret_cast<CUstream>(id); }
CUstream current() { return stream_of(current_id); }
std::atomic<int> recorded_on_streams{0};

// ---- Streams and events

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return stream(current_id); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getNewStream(c10::Device, int) const override {
    CUstream made = nullptr;
    MUST(cuStreamCreate, &made, CU_STREAM_NON_BLOCKING);
    return stream(reinterpret_cast<c10::StreamId>(made));
  }
  c10::Stream exchangeStream(c10::Stream next) const override { return stream(std::exchange(current_id, next.id())); }
  void* getStreamNativeHandle(const c10::Stream of) const override { return stream_of(of.id()); }
  void synchronizeStream(const c10::Stream& of) const override { MUST(cuStreamSynchronize, stream_of(of.id())); }

  void record(void** event, const c10::Stream& on, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) MUST(cuEventCreate, reinterpret_cast<CUevent*>(event), CU_EVENT_DISABLE_TIMING);
    MUST(cuEventRecord, static_cast<CUevent>(*event), stream_of(on.id()));
  }
  void block(void* event, const c10::Stream& on) const override {
    if (event != nullptr) MUST(cuStreamWaitEvent, stream_of(on.id()), static_cast<CUevent>(event), 0);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || driver().cuEventQuery(static_cast<CUevent>(event)) == CUDA_SUCCESS;
  }
  void synchronizeEvent(void* event) const override {
    while (!queryEvent(event)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event != nullptr) (void)driver().cuEventDestroy(static_cast<CUevent>(event));
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override { ++recorded_on_streams; }

 private:
  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return is_in_use; }
};

// ---- Memory: what is freed is not used again, since some stream may still have it

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t size_bytes) override {
    CUdeviceptr address = 0;
    if (size_bytes > 0) MUST(cuMemAlloc, &address, size_bytes);
    auto* data = reinterpret_cast<void*>(address);
    return {data, data, [](void*) {}, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void*) {};
  }
  void copy_data(void* to, const void* from, size_t size_bytes) const override {
    MUST(cuMemcpyAsync, CUdeviceptr(to), CUdeviceptr(from), size_bytes, current());
  }
};

Memory& memory() {
  static Memory memory;
  return memory;
}

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::Tensor(at::detail::empty_generic(sizes, &memory(), kKeys, c10::dtype_or_default(type), format));
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, &memory(), kKeys, c10::dtype_or_default(type)));
}

void copy_storage(void* to, const void* from, size_t size_bytes) {
  if (size_bytes == 0) return;
  MUST(cuMemcpyAsync, CUdeviceptr(to), CUdeviceptr(from), size_bytes, current());
}

// A tensor of the CPU that lies in its memory as `tensor` does in its own.
at::Tensor on_cpu(const at::Tensor& tensor) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(tensor.storage().nbytes())}, at::kByte);
  copy_storage(bytes.data_ptr(), tensor.storage().data(), tensor.storage().nbytes());
  MUST(cuStreamSynchronize, current());
  at::Tensor same = at::empty({0}, tensor.scalar_type());
  return same.set_(bytes.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  bool alike = from.is_contiguous() && to.is_contiguous() && from.scalar_type() == to.scalar_type();
  if (alike) {
    copy_storage(to.data_ptr(), from.data_ptr(), to.nbytes());
    if (from.is_cpu() || to.is_cpu()) MUST(cuStreamSynchronize, current());
    return to;
  }
  at::Tensor source = from.is_cpu() ? from : on_cpu(from);
  if (to.is_cpu()) return to.copy_(source);
  at::Tensor target = on_cpu(to);
  target.copy_(source);
  copy_storage(const_cast<void*>(to.storage().data()), target.storage().data(), to.storage().nbytes());
  MUST(cuStreamSynchronize, current());
  return to;
}

// What computes on the CPU ends in a tensor that may have been made without a size.
at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) {
    size_t size_bytes = from.numel() * to.itemsize();
    c10::StorageImpl* storage = to.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(memory().allocate(size_bytes));
    storage->set_nbytes(size_bytes);
    to.unsafeGetTensorImpl()->set_sizes_contiguous(from.sizes());
  }
  return copy_from(from, to, false);
}

at::Tensor lying_in(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                    std::optional<int64_t> offset) {
  auto result = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                         self.key_set(), self.dtype());
  result.unsafeGetTensorImpl()->set_storage_offset(offset.value_or(self.storage_offset()));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return result;
}

// Of contiguous tensors, which is all that the tests look at in another way.
at::Tensor view(const at::Tensor& self, c10::IntArrayRef sizes) {
  at::DimVector inferred(sizes);
  int64_t known = 1;
  for (int64_t size : sizes) known *= size < 0 ? 1 : size;
  for (int64_t& size : inferred) size = size < 0 ? self.numel() / std::max<int64_t>(1, known) : size;
  TORCH_CHECK(self.is_contiguous(), "view of a tensor that is not contiguous");
  at::DimVector strides(inferred.size(), 1);
  for (size_t i = inferred.size(); i-- > 1;) strides[i - 1] = strides[i] * inferred[i];
  return lying_in(self, inferred, strides, self.storage_offset());
}

// c10d's own, of complex numbers.
at::Tensor view_as_real(const at::Tensor& self) {
  auto type = c10::scalarTypeToTypeMeta(c10::toRealValueType(self.scalar_type()));
  auto result = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                         self.key_set(), type);
  at::DimVector sizes(self.sizes()), strides(self.strides());
  for (int64_t& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  result.unsafeGetTensorImpl()->set_storage_offset(self.storage_offset() * 2);
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return result;
}

at::Tensor reshape_alias(const at::Tensor& self, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  return lying_in(self, sizes, strides, self.storage_offset());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("as_strided", lying_in);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("view_as_real", view_as_real);
}

void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>()); }

// ---- For the tests

// The current stream stands still for that long.
void delay(int64_t ms) {
  auto wait = [](void* how_long) { std::this_thread::sleep_for(std::chrono::milliseconds(intptr_t(how_long))); };
  MUST(cuLaunchHostFunc, current(), wait, reinterpret_cast<void*>(ms));
}

// The current stream stands still until release(), at most for a minute.
struct Hold {
  std::mutex mutex;
  std::condition_variable changed;
  int held = 0, released = 0;
};
Hold& hold() {
  static Hold hold;
  return hold;
}

void hold_stream() {
  auto wait = [](void*) {
    std::unique_lock lock(hold().mutex);
    int own = ++hold().held;
    hold().changed.wait_for(lock, std::chrono::minutes(1), [own] { return hold().released >= own; });
  };
  MUST(cuLaunchHostFunc, current(), wait, nullptr);
}

void release() {
  std::lock_guard lock(hold().mutex);
  ++hold().released;
  hold().changed.notify_all();
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::register_privateuse1_backend("privateuseone");  // torch's accelerator from here on
  c10::SetAllocator(kType, &memory());
  module.def("init", [] { (void)driver(); });
  module.def("delay", &delay, pybind11::arg("ms"));
  module.def("hold", &hold_stream);
  module.def("release", &release);
  module.def("copy", [](const at::Tensor& from, const at::Tensor& to) {
    copy_storage(to.data_ptr(), from.data_ptr(), to.nbytes());
  }, "Puts a copy among contiguous tensors of the device on the current stream, and does not wait for it.");
  module.def("synchronize", [] { MUST(cuStreamSynchronize, current()); });
  module.def("recorded_on_streams", [] { return recorded_on_streams.load(); });
}
