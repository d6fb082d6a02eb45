// What the calling thread's driver calls are about: a context, and captures that go on beside them.
#pragma once

#include <utility>

#include "cuda/driver.h"
#include "device/device.h"

namespace tutti::cuda {

using Stream = DeviceModule::Stream;

inline CUstream handle_of(const Stream& stream) { return static_cast<CUstream>(stream.handle); }
inline CUcontext context_of(const Stream& stream) { return static_cast<CUcontext>(stream.context); }

inline bool is_default(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

// The calling thread's current context is `context` as long as this lives.
class Current {
 public:
  static Result<Current> make(const Driver& driver, CUcontext context) {
    TUTTI_CUDA_TRY(driver, cuCtxPushCurrent, context);
    return Current(driver);
  }
  Current(Current&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)) {}
  Current& operator=(Current&&) = delete;
  ~Current() {
    CUcontext popped;
    if (driver_ != nullptr) (void)driver_->cuCtxPopCurrent(&popped);
  }

 private:
  explicit Current(const Driver& driver) : driver_(&driver) {}
  const Driver* driver_;
};

// While this lives, a capture by any thread does not mind what the calling thread does beside it.
class BesideCaptures {
 public:
  explicit BesideCaptures(const Driver& driver) : driver_(driver) { exchange(); }
  ~BesideCaptures() { exchange(); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  void exchange() { (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// A stream that goes on while the program's streams wait.
inline Result<Stream> make_stream_beside_others(const Driver& driver, CUcontext context) {
  BesideCaptures beside(driver);
  Current current = TUTTI_TRY(Current::make(driver, context));
  CUstream made = nullptr;
  int least = 0, greatest = 0;
  TUTTI_CUDA_TRY(driver, cuCtxGetStreamPriorityRange, &least, &greatest);
  // Streams of one priority may share a queue, in which one waits behind what another one waits for.
  TUTTI_CUDA_TRY(driver, cuStreamCreateWithPriority, &made, CU_STREAM_NON_BLOCKING, greatest);
  return Stream{made, context};
}

}  // namespace tutti::cuda
