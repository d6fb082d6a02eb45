// Where a rank's buffers are: the host, or a GPU, on which calls are put on a stream.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tutti/tutti.h"

namespace tutti::bench {

class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // "cpu", "cuda:0 NVIDIA H200"
  virtual std::string name() const = 0;
  // The GPU, which no other has this text; "" for the host.
  virtual std::string gpu() const = 0;
  // Of calls on this device's buffers; NULL on the host.
  virtual tutti_stream_t stream() const = 0;

  // Device memory; null on the host, whose buffers are their own. Throws std::runtime_error when it is short.
  virtual void* allocate(size_t size_bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  // Blocks until it is done.
  virtual void upload(void* to, const void* from, size_t size_bytes) = 0;
  virtual void download(void* to, const void* from, size_t size_bytes) = 0;
  // On the stream.
  virtual void copy(void* to, const void* from, size_t size_bytes) = 0;

  // Blocks until the stream has done everything.
  virtual void synchronize() = 0;
  // Times, by number below `count`: when what is before the mark is done. They are there after synchronize().
  virtual void prepare_marks(size_t count) = 0;
  virtual void mark(size_t index) = 0;
  virtual double seconds_between(size_t first, size_t second) const = 0;
};

std::unique_ptr<Device> make_host();
// Makes a GPU the calling thread's current one: "cuda:1" is that one, "cuda" that of the rank's number among the ranks
// of its host, which begin again at the first GPU when there are more of them. `driver`: its library, by name or path.
// Throws std::runtime_error where there is none.
std::unique_ptr<Device> make_gpu(const std::string& driver, const std::string& wish, int local_rank);

}  // namespace tutti::bench
