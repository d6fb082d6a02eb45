// A CUDA driver without a GPU, for tests: real memory, streams that run on threads, events, stream memory operations,
// captured graphs. It is as strict as a GPU where that finds faults: the host cannot touch device memory, calls inside
// a host function are refused, what a capture forbids breaks it, and streams share queues. It does not make the legacy
// default stream wait for others.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/fused_bodies.h"
#include "kernels/cuda/program_bodies.h"

#include "cuda/fake/direct_access.h"

namespace tutti::fake {

// ---- Memory

enum class Kind : uint8_t { kDevice, kPinned, kManaged };

struct Allocation {
  Kind kind = Kind::kDevice;
  size_t size_bytes = 0;
  std::byte* contents = nullptr;  // where the bytes are; the host cannot reach them at a device's address
  CUcontext context = nullptr;
  bool is_registered = false;     // memory of the program
  bool is_opened = false;         // of another process
  bool has_handle = true;         // which others could open it by
  int fd = -1;
  uint64_t id = 0;
};

class Memory {
 public:
  CUresult allocate(Kind kind, size_t size_bytes, CUcontext context, void** address);
  CUresult free(void* address);
  // The memory that `pid` has as the file `fd`.
  CUresult open(int64_t pid, int fd, size_t size_bytes, CUcontext context, void** address);
  CUresult close(void* address);
  // What is allocated from here on has handles, or has none.
  void give_handles(bool give) { gives_handles_ = give; }
  // Where the allocation begins.
  uintptr_t base_of(const void* address) const;
  CUresult add_registered(void* address, size_t size_bytes, CUcontext context);
  CUresult remove_registered(void* address);
  // The allocation that `address` lies in.
  bool find(const void* address, Allocation* found, std::byte** contents) const;
  // What a copy really touches.
  std::byte* contents_of(const void* address) const;

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;
  uint64_t next_id_ = 1;
  std::atomic<bool> gives_handles_{true};
};
Memory& memory();

// ---- Streams

// What is put on a stream. True: done; false: not yet.
using Op = std::function<bool()>;
class Queue;

}  // namespace tutti::fake

struct CUctx_st {
  int device = 0;
};

struct CUmod_st {};

struct CUfunc_st {
  tutti::cuda::FusedBody fused = nullptr;      // or
  tutti::cuda::ProgramBody program = nullptr;
  std::atomic<bool> is_loaded{false};
};

namespace tutti::fake {

// Which records of an event have happened. It may be recorded on several streams, which come to that in any order.
class Records {
 public:
  void add(uint64_t number) {
    std::lock_guard lock(mutex_);
    some_.insert(number);
    while (some_.erase(all_ + 1) > 0) ++all_;
  }
  bool has(uint64_t number) const {
    std::lock_guard lock(mutex_);
    return number <= all_ || some_.contains(number);
  }

 private:
  mutable std::mutex mutex_;
  uint64_t all_ = 0;  // up to here
  std::set<uint64_t> some_;
};

}  // namespace tutti::fake

struct CUevent_st {
  CUcontext context = nullptr;
  std::atomic<uint64_t> recorded{0};
  tutti::fake::Records happened;
  std::atomic<int64_t> happened_ns{0};  // when, by the steady clock
  CUgraph captured_in = nullptr;
  cuuint64_t capture_id = 0;
  std::atomic<bool> is_destroyed{false};  // streams may still be about to record it, but nobody else may use it
};

struct CUuserObject_st {
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  ~CUuserObject_st() { destroy(pointer); }
};

struct CUgraph_st {
  std::vector<tutti::fake::Op> ops;  // in the order of the capture, which is one that they may run in
  std::vector<std::shared_ptr<CUuserObject_st>> objects;
  std::vector<CUstream> joined;  // streams that came into the capture by an event
  bool is_broken = false;
};

struct CUgraphExec_st {
  std::vector<tutti::fake::Op> ops;
  std::vector<std::shared_ptr<CUuserObject_st>> objects;
};

struct CUstream_st {
  CUcontext context = nullptr;
  int priority = 0;
  CUgraph capture = nullptr;
  cuuint64_t capture_id = 0;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  tutti::fake::Queue* queue = nullptr;
};

namespace tutti::fake {

// Puts an op on the stream, or into the graph that it is captured to.
CUresult put(CUstream stream, Op op);
// Waits until everything on the stream is done.
void drain(CUstream stream);
void drain_all();
// On the driver's thread for that; `done`, if there is one, becomes true then.
void call_on_host(CUhostFn function, void* argument, std::shared_ptr<std::atomic<bool>> done);
// The stream has come into a capture by an event.
void join_capture(CUstream stream, CUgraph graph);

CUstream make_stream(CUcontext context, int priority = 0);
// The stream that a handle means, in the current context.
CUstream resolve(CUstream handle);

// ---- Errors

// The error that a test wants this call to give; CUDA_SUCCESS mostly. Also refuses calls inside a host function.
CUresult injected(const char* call);
// A call that never fails was made.
void counted(const char* call);
// A call that may wait for the device: returns when all streams have done what they have, if a test wants that. All
// other calls wait for it meanwhile.
void await_streams();
// What a context has suffered: every later call gives it.
void fail_device(CUresult error);
bool has_device_failed();
int delay_of_words_ms();

// ---- Devices that reach each other

// Whether kernels that wait for others are not to begin there.
bool holds_kernels(CUcontext context);
// Whether the driver lets it reach memory of that device at all.
bool may_reach(CUcontext from, int device);
// Whether a kernel there can use the memory.
bool reaches(CUcontext from, const Allocation& memory);

// ---- The calling thread

CUcontext current_context();
std::vector<CUcontext>& contexts_of_thread();
CUstreamCaptureMode& capture_mode_of_thread();
bool& is_in_host_function();
// CUDA_SUCCESS where a call that a capture forbids may be made; else it breaks the capture.
CUresult check_unsafe();

}  // namespace tutti::fake
