#include "device_streams.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <torch/extension.h>

namespace tutti_torch {

c10::Stream DeviceStreams::get(c10::Device device, Use use) {
  Key key(device.type(), device.index(), use);
  std::lock_guard lock(mutex_);
  auto found = streams_.find(key);
  if (found != streams_.end()) return found->second;
  constexpr int kHigh = -1;  // what others wait for comes before computing
  c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getNewStream(device, kHigh);
  return streams_.emplace(key, stream).first->second;
}

void DeviceStreams::synchronize(c10::Device device) {
  std::vector<c10::Stream> used{current_stream(device)};
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, stream] : streams_) {
      if (stream.device() == device) used.push_back(stream);
    }
  }
  for (const c10::Stream& stream : used) stream.synchronize();
}

std::optional<c10::Device> device_in_use() {
  std::optional<c10::DeviceType> type = at::getAccelerator();
  if (!type) return std::nullopt;
  c10::Device device = c10::impl::VirtualGuardImpl(*type).getDevice();
  const at::AcceleratorHooksInterface& hooks = at::globalContext().getAcceleratorHooksInterface(*type);
  return hooks.hasPrimaryContext(device.index()) ? std::optional(device) : std::nullopt;
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void record_use(const at::Tensor& tensor, const c10::Stream& stream) {
  if (!tensor.has_storage() || tensor.device() != stream.device()) return;
  c10::impl::VirtualGuardImpl(stream.device_type()).recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

namespace {

// torch before c10::Stream::native_handle() tells it in Python alone.
template <typename Stream>
void* find_handle(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    namespace py = pybind11;
    py::gil_scoped_acquire lock;
    auto type = py::module_::import("torch").attr("cuda").attr("Stream");
    auto same = type(py::arg("stream_id") = stream.id(), py::arg("device_index") = stream.device_index(),
                     py::arg("device_type") = static_cast<int>(stream.device_type()));
    return reinterpret_cast<void*>(same.attr("cuda_stream").template cast<uintptr_t>());
  }
}

}  // namespace

void* handle_of(const c10::Stream& stream) { return find_handle(stream); }

}  // namespace tutti_torch
