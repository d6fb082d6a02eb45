// The order of calls on streams, by events.
#pragma once

#include <memory>
#include <utility>

#include "cuda/contexts.h"

namespace tutti::cuda {

class Event {
 public:
  explicit Event(const Driver& driver) : driver_(driver) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { drop(); }

  // Behind what `stream` has now.
  Status record(const Stream& stream) {
    if (event_ != nullptr && context_of(stream) != context_) drop();
    Current current = TUTTI_TRY(Current::make(driver_, context_of(stream)));
    if (event_ == nullptr) TUTTI_CUDA_TRY(driver_, cuEventCreate, &event_, CU_EVENT_DISABLE_TIMING);
    context_ = context_of(stream);
    TUTTI_CUDA_TRY(driver_, cuEventRecord, event_, handle_of(stream));
    return {};
  }
  Status make_wait(const Stream& stream) const {
    Current current = TUTTI_TRY(Current::make(driver_, context_of(stream)));
    TUTTI_CUDA_TRY(driver_, cuStreamWaitEvent, handle_of(stream), event_, CU_EVENT_WAIT_DEFAULT);
    return {};
  }
  Result<bool> has_happened() const {
    if (event_ == nullptr) return true;
    BesideCaptures beside(driver_);
    Current current = TUTTI_TRY(Current::make(driver_, context_));
    CUresult result = driver_.cuEventQuery(event_);
    if (result == CUDA_SUCCESS) return true;
    if (result == CUDA_ERROR_NOT_READY) return false;
    return driver_error(driver_, "cuEventQuery", result);
  }

 private:
  void drop() {
    if (event_ == nullptr) return;
    auto current = Current::make(driver_, context_);
    (void)driver_.cuEventDestroy(std::exchange(event_, nullptr));
  }
  const Driver& driver_;
  CUevent event_ = nullptr;
  CUcontext context_ = nullptr;  // of the event
};

class Order : public StreamOrder {
 public:
  explicit Order(const Driver& driver) : eager_(driver), captured_(driver), join_(driver) {}
  Result<bool> is_done() override { return eager_.event.has_happened(); }

  // Before work on `stream`: waits for the calls before, wherever they were put. `capture`: that it is part of, or 0.
  Status begin(const Stream& stream, cuuint64_t capture) {
    const Tail& tail = tail_of(capture);
    return tail.is_used && tail.capture == capture ? tail.event.make_wait(stream) : Status();
  }
  Status end(const Stream& stream, cuuint64_t capture) {
    Tail& tail = tail_of(capture);
    TUTTI_TRY(tail.event.record(stream));
    tail.is_used = true;
    tail.capture = capture;
    return {};
  }
  // `waiting` waits for what `first` has now.
  Status join(const Stream& first, const Stream& waiting) {
    TUTTI_TRY(join_.record(first));
    return join_.make_wait(waiting);
  }

 private:
  // The last call.
  struct Tail {
    explicit Tail(const Driver& driver) : event(driver) {}
    Event event;
    bool is_used = false;
    cuuint64_t capture = 0;
  };
  Tail& tail_of(cuuint64_t capture) { return capture == 0 ? eager_ : captured_; }

  Tail eager_;
  Tail captured_;
  Event join_;
};

}  // namespace tutti::cuda
