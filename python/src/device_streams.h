// The streams of a device that one backend's calls run on.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

namespace tutti_torch {

// What the current stream has nothing to do with runs beside it: collectives behind each other; what is sent, which is
// off its stream when it has been copied; what has been received, which is on its stream only then. Streams are torch's,
// which keeps them until the process ends. Any thread.
class DeviceStreams {
 public:
  enum class Use : uint8_t { kCollectives, kSends, kReceives };
  c10::Stream get(c10::Device device, Use use);
  // Blocks until these and the current stream have done what they have now.
  void synchronize(c10::Device device);

 private:
  using Key = std::tuple<c10::DeviceType, c10::DeviceIndex, Use>;
  std::mutex mutex_;  // guards what follows
  std::map<Key, c10::Stream> streams_;
};

// The accelerator's current device, if this process uses it.
std::optional<c10::Device> device_in_use();
// The stream that the calling thread's operations on the device go to.
c10::Stream current_stream(c10::Device device);
// The allocator gives the tensor's memory to nobody else before the stream has come so far.
void record_use(const at::Tensor& tensor, const c10::Stream& stream);
// What tutti takes: a cudaStream_t.
void* handle_of(const c10::Stream& stream);

}  // namespace tutti_torch
