// What is put on streams: copies, host functions, words, events.
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "cuda/fake/calls.h"

namespace tutti::fake {
namespace {

CUstream legacy_stream(CUcontext context) {
  static std::mutex mutex;
  static auto* streams = new std::map<CUcontext, CUstream>;
  std::lock_guard lock(mutex);
  CUstream& stream = (*streams)[context];
  if (stream == nullptr) stream = make_stream(context);
  return stream;
}

// A host function runs on a thread of the driver's own, one at a time.
class HostFunctions {
 public:
  HostFunctions() {
    std::thread([this] { run(); }).detach();
  }
  void call(CUhostFn function, void* argument, std::shared_ptr<std::atomic<bool>> done) {
    {
      std::lock_guard lock(mutex_);
      calls_.push_back({function, argument, std::move(done)});
    }
    changed_.notify_all();
  }

 private:
  struct Call {
    CUhostFn function;
    void* argument;
    std::shared_ptr<std::atomic<bool>> done;
  };
  void run() {
    is_in_host_function() = true;
    for (;;) {
      Call call;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !calls_.empty(); });
        call = std::move(calls_.front());
        calls_.pop_front();
      }
      call.function(call.argument);
      if (call.done) call.done->store(true, std::memory_order_release);
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
};

HostFunctions& host_functions() {
  static auto* all = new HostFunctions;
  return *all;
}

}  // namespace

CUstream resolve(CUstream handle) {
  bool is_default = handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
  return is_default ? legacy_stream(current_context()) : handle;
}

void call_on_host(CUhostFn function, void* argument, std::shared_ptr<std::atomic<bool>> done) {
  host_functions().call(function, argument, std::move(done));
}

}  // namespace tutti::fake

using namespace tutti::fake;

// ---- Streams

namespace {

// Whole pages of zeros take no memory until somebody writes there, as with what a process keeps after a failure.
void fill(std::byte* target, unsigned char value, size_t size_bytes) {
  constexpr uintptr_t kPage = 4096;
  auto address = reinterpret_cast<uintptr_t>(target);
  uintptr_t first = (address + kPage - 1) / kPage * kPage, last = (address + size_bytes) / kPage * kPage;
  bool has_pages = value == 0 && first < last;
  if (!has_pages || ::madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE) != 0) {
    std::memset(target, value, size_bytes);
    return;
  }
  std::memset(target, 0, first - address);
  std::memset(reinterpret_cast<void*>(last), 0, address + size_bytes - last);
}

CUresult put_copy(void* to, const void* from, size_t size_bytes, CUstream handle) {
  NEEDS_CONTEXT();
  CUstream stream = resolve(handle);
  if (stream->context != current_context()) return CUDA_ERROR_INVALID_HANDLE;  // stricter than CUDA
  auto* target = memory().contents_of(to);
  auto* source = memory().contents_of(from);
  return put(stream, [=] {
    if (!has_device_failed()) std::memcpy(target, source, size_bytes);
    return true;
  });
}

}  // namespace

CALL cuStreamCreate(CUstream* stream, unsigned) {
  BEGIN(cuStreamCreate);
  NEEDS_CONTEXT();
  *stream = make_stream(current_context());
  return CUDA_SUCCESS;
}
CALL cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  BEGIN(cuCtxGetStreamPriorityRange);
  *least = 0;
  *greatest = -1;
  return CUDA_SUCCESS;
}
CALL cuStreamCreateWithPriority(CUstream* stream, unsigned, int priority) {
  BEGIN(cuStreamCreateWithPriority);
  NEEDS_CONTEXT();
  *stream = make_stream(current_context(), priority);
  return CUDA_SUCCESS;
}
CALL cuStreamDestroy_v2(CUstream stream) {
  BEGIN(cuStreamDestroy);
  delete stream;  // what is on it goes on
  return CUDA_SUCCESS;
}
CALL cuStreamSynchronize(CUstream handle) {
  CUresult wrong = injected("cuStreamSynchronize");
  CUstream stream = resolve(handle);
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  drain(stream);  // also where the device has failed, which does nothing of it
  return wrong;
}
CALL cuStreamGetCtx(CUstream stream, CUcontext* context) {
  BEGIN(cuStreamGetCtx);
  *context = resolve(stream)->context;
  return CUDA_SUCCESS;
}
CALL cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size_bytes, CUstream handle) {
  BEGIN(cuMemcpyAsync);
  return put_copy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size_bytes, handle);
}
CALL cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size_bytes, CUstream handle) {
  BEGIN(cuMemcpyHtoDAsync);
  return put_copy(reinterpret_cast<void*>(to), from, size_bytes, handle);
}
CALL cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size_bytes, CUstream handle) {
  BEGIN(cuMemcpyDtoHAsync);
  return put_copy(to, reinterpret_cast<void*>(from), size_bytes, handle);
}
CALL cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size_bytes, CUstream handle) {
  BEGIN(cuMemsetD8Async);
  NEEDS_CONTEXT();
  auto* target = memory().contents_of(reinterpret_cast<void*>(to));
  return put(resolve(handle), [=] {
    if (!has_device_failed()) fill(target, value, size_bytes);
    return true;
  });
}
CALL cuLaunchHostFunc(CUstream handle, CUhostFn function, void* argument) {
  BEGIN(cuLaunchHostFunc);
  // Each launch of a graph calls it anew.
  auto done = std::make_shared<std::shared_ptr<std::atomic<bool>>>();
  return put(resolve(handle), [=] {
    if (has_device_failed()) return true;  // it is not called then
    if (*done == nullptr) {
      *done = std::make_shared<std::atomic<bool>>(false);
      host_functions().call(function, argument, *done);
    }
    if (!(*done)->load(std::memory_order_acquire)) return false;
    done->reset();
    return true;
  });
}
namespace {
CUresult put_word_op(CUstream stream, const CUstreamBatchMemOpParams& op) {
  if (op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32) {
    auto* word = reinterpret_cast<uint32_t*>(memory().contents_of(reinterpret_cast<void*>(op.writeValue.address)));
    return put(stream, [word, value = op.writeValue.value, may_be_late = stream->priority != 0] {
      int ms = may_be_late ? delay_of_words_ms() : 0;
      if (ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      if (!has_device_failed()) std::atomic_ref(*word).store(value, std::memory_order_release);
      return true;
    });
  }
  unsigned flags = op.waitValue.flags & ~CU_STREAM_WAIT_VALUE_FLUSH;
  if ((op.waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) counted("CU_STREAM_WAIT_VALUE_FLUSH");
  bool is_known = op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 &&
                  (flags == CU_STREAM_WAIT_VALUE_EQ || flags == CU_STREAM_WAIT_VALUE_GEQ);
  if (!is_known) return CUDA_ERROR_NOT_SUPPORTED;
  auto* word = reinterpret_cast<uint32_t*>(memory().contents_of(reinterpret_cast<void*>(op.waitValue.address)));
  return put(stream, [word, flags, value = op.waitValue.value] {
    if (has_device_failed()) return true;
    uint32_t now = std::atomic_ref(*word).load(std::memory_order_acquire);
    return flags == CU_STREAM_WAIT_VALUE_EQ ? now == value : static_cast<int32_t>(now - value) >= 0;
  });
}
}  // namespace

CALL cuStreamBatchMemOp_v2(CUstream handle, unsigned count, CUstreamBatchMemOpParams* ops, unsigned flags) {
  BEGIN(cuStreamBatchMemOp);
  NEEDS_CONTEXT();
  if (count == 0 || count > 256 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (CUresult wrong = put_word_op(resolve(handle), ops[i]); wrong != CUDA_SUCCESS) return wrong;
  }
  return CUDA_SUCCESS;
}

// ---- Events

namespace {
// On a GPU anything might happen then, and a status might be seen by nobody.
void must_be_alive(CUevent event, const char* call) {
  if (!event->is_destroyed) return;
  std::fprintf(stderr, "%s of an event that was destroyed\n", call);
  std::abort();
}
}  // namespace

CALL cuEventCreate(CUevent* event, unsigned) {
  BEGIN(cuEventCreate);
  NEEDS_CONTEXT();
  *event = new CUevent_st{current_context()};
  return CUDA_SUCCESS;
}
CALL cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  BEGIN(cuEventElapsedTime);
  for (CUevent event : {start, end}) {
    must_be_alive(event, "cuEventElapsedTime");
    if (event->recorded == 0) return CUDA_ERROR_INVALID_HANDLE;
    if (!event->happened.has(event->recorded)) return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = static_cast<float>(end->happened_ns - start->happened_ns) * 1e-6f;
  return CUDA_SUCCESS;
}

CALL cuEventDestroy_v2(CUevent event) {
  BEGIN(cuEventDestroy);
  must_be_alive(event, "cuEventDestroy");
  event->is_destroyed = true;  // it stays, since a stream may still be about to record it
  return CUDA_SUCCESS;
}
CALL cuEventRecord(CUevent event, CUstream handle) {
  BEGIN(cuEventRecord);
  must_be_alive(event, "cuEventRecord");
  CUstream stream = resolve(handle);
  if (stream->context != event->context) return CUDA_ERROR_INVALID_HANDLE;
  event->captured_in = stream->capture;
  event->capture_id = stream->capture_id;
  if (stream->capture != nullptr) return CUDA_SUCCESS;
  uint64_t number = ++event->recorded;
  return put(stream, [=] {
    event->happened_ns = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    event->happened.add(number);
    return true;
  });
}
CALL cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  BEGIN(cuStreamWaitEvent);
  must_be_alive(event, "cuStreamWaitEvent");
  CUstream stream = resolve(handle);
  if (event->captured_in != nullptr) {  // the stream joins the capture, whose ops have one order
    if (stream->capture != nullptr && stream->capture != event->captured_in) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    stream->capture = event->captured_in;
    stream->capture_id = event->capture_id;
    join_capture(stream, event->captured_in);
    return CUDA_SUCCESS;
  }
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  uint64_t number = event->recorded;
  return put(stream, [=] { return has_device_failed() || event->happened.has(number); });
}
CALL cuEventQuery(CUevent event) {
  BEGIN(cuEventQuery);
  must_be_alive(event, "cuEventQuery");
  if (CUresult wrong = check_unsafe(); wrong != CUDA_SUCCESS) return wrong;
  if (event->captured_in != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  return event->happened.has(event->recorded) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
