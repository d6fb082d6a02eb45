// What the core knows of GPUs: an interface that a module implements (src/cuda). The module is opened at run time, so
// that one library serves machines with and without a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "kernels/cuda/job.h"
#include "tutti/tutti.h"

namespace tutti::cuda {
struct ProgramArgs;
}

namespace tutti {

// Who can use memory.
enum class MemoryKind : uint8_t {
  kHost,     // the host alone
  kPinned,   // the host, and the streams of every device
  kManaged,  // both; the driver moves it
  kDevice,   // the streams of a device
};
inline bool is_for_host(MemoryKind kind) { return kind == MemoryKind::kHost || kind == MemoryKind::kPinned; }

struct BufferPlace {
  MemoryKind kind = MemoryKind::kHost;
  int device = -1;  // of kManaged and kDevice
};

struct StreamCopy {
  void* to = nullptr;
  const void* from = nullptr;
  uint64_t size_bytes = 0;
};

// A word in pinned memory, and a number for it. Numbers are compared as what comes before or after, in a circle.
struct WordValue {
  uint32_t* word = nullptr;  // null: none
  uint32_t value = 0;
};
constexpr bool comes_before(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

// What a stream does, in this order, for calls whose data goes through the host.
struct StreamWork {
  using Piece = std::vector<StreamCopy>;  // of the data; it may have no bytes
  WordValue begins_at;  // the stream waits until the word has that number
  std::span<const Piece> before;
  // Called behind each of these, on a thread of the driver's, where it may neither block nor use the driver.
  void (*reached)(void* argument) = nullptr;
  void* argument = nullptr;
  // Pinned: before each piece of what follows, of which the first has number 1, the stream waits here until somebody
  // stores its number or a higher one. Null: it goes on.
  uint32_t* gate = nullptr;
  bool flushes = false;        // behind the gate the device sees what NICs wrote to its memory before it was opened
  std::span<const Piece> after;
  uint32_t* passed = nullptr;  // pinned: the stream stores 0 to the gate, and then 1 here
  WordValue ends_with;         // and then this
};

// The order of calls, whichever streams they are put on. One thread at a time.
class StreamOrder {
 public:
  virtual ~StreamOrder() = default;
  // Whether all that was put on streams so far is done, or has begun, whatever who comes next waits for. Errors: some
  // of it never will be, as the device has failed.
  virtual Result<bool> is_done() = 0;
};

// A GPU, as all processes that use it know it.
using GpuId = std::array<std::byte, 16>;

// Memory of a device that this process reaches by the address, and others by the handle.
struct DeviceBuffer {
  uint64_t address = 0;
  uint64_t base = 0;  // of the allocation, and
  uint64_t id = 0;    // its number, which the process never gives to another one
  int64_t pid = 0;
  void* context = nullptr;  // the driver's, in that process
  bool has_handle = false;  // false: only streams of that context can use it
  std::array<std::byte, 64> handle{};
};

// Memory of a device that was allocated at once.
struct DeviceAllocation {
  std::span<std::byte> bytes;  // at the device's addresses
  uint64_t id = 0;             // that the process never gives to another one
  void* context = nullptr;     // of streams that use it
  bool sees_writes = false;    // in order, that other devices make there
};

// A stream, and the driver's context that it belongs to.
struct DeviceStream {
  tutti_stream_t handle = nullptr;
  void* context = nullptr;
  friend bool operator==(const DeviceStream&, const DeviceStream&) = default;
};

// The driver's: streams wait for what another stream of this process had when the event was recorded there.
struct DeviceEvent {
  void* handle = nullptr;
};
// Of one rank, for ranks that are threads of one process, and on one GPU.
struct RankEvents {
  DeviceEvent come;  // its stream has come to a call
  DeviceEvent done;  // its launch has done one
};

// Which kernels ranks launch.
enum class Kernels : uint8_t {
  kFused,     // that do a whole call, of ranks that are on one GPU
  kPrograms,  // that do a rank's part of it, of ranks that each have a GPU
};

// What one rank does on its GPU for calls that ranks' GPUs do among themselves. One thread at a time.
class RankGpu {
 public:
  virtual ~RankGpu() = default;  // what was allocated and not freed stays, for others may have it open

  // A buffer of any of the ranks: its address for kernels of this one. Errors: it cannot be opened, or the GPUs cannot
  // reach each other's memory.
  virtual Result<uint64_t> open(const DeviceBuffer& buffer) = 0;
  // What was opened is closed: nothing on the GPU uses it any more.
  virtual void close() noexcept = 0;

  // Memory of the GPU that other ranks can open; zeros. May wait for the device.
  virtual Result<DeviceBuffer> allocate(uint64_t size_bytes) = 0;
  // Frees it: nobody has it open.
  virtual void free(const DeviceBuffer& allocated) noexcept = 0;

  struct Launch {
    std::string_view kernel;
    std::span<const cuda::FusedArgs> args;  // one launch each
    WordValue reached;                      // is stored before all else
    std::span<const WordValue> waits;       // before them
    WordValue ended;                        // is stored behind them, also where one could not be put there
    std::span<const WordValue> stores;      // after that
  };
  // Puts that on a stream, in the order; does not wait for it.
  virtual Status launch(const DeviceStream& stream, StreamOrder& order, const Launch& launch) = 0;

  // The same by events, for ranks of one process: their streams share queues, in which one that waits for a word holds
  // whatever comes behind it, also what would store that word. What they wait for here is always there before them.
  virtual Result<RankEvents> make_events() = 0;
  // First on the streams of all ranks: has come to the call, and says so also by the word.
  virtual Status come(const DeviceStream& stream, StreamOrder& order, const WordValue& reached) = 0;
  struct MeetingLaunch {
    std::string_view kernel;
    std::span<const cuda::FusedArgs> args;
    std::span<const DeviceEvent> come;  // of the other ranks
    WordValue ended;
    WordValue gate;
  };
  // Then on one of them; the rank's `done` is recorded behind it.
  virtual Status launch_behind(const DeviceStream& stream, StreamOrder& order, const MeetingLaunch& launch) = 0;
  // And once that has been put there on the others, `done` being that rank's.
  virtual Status go_on_behind(const DeviceStream& stream, StreamOrder& order, const DeviceEvent& done,
                              const WordValue& gate) = 0;

  // What a stream does for this rank's part of a call, in this order.
  struct Part {
    std::span<const WordValue> waits;
    StreamCopy copy;                          // of no bytes: none
    std::string_view kernel;                  // "": none
    const cuda::ProgramArgs* args = nullptr;  // its words are filled in
    std::span<const cuda::FusedArgs> fused;   // instead: of launches that do all ranks' parts
    WordValue ended;                          // is stored behind the kernel, also where that could not be put there
    std::span<uint32_t* const> holds;         // then the stream waits until these are 0, and
    std::span<const WordValue> last_waits;    // for these
    std::span<const WordValue> stores;
  };
  // Puts that on a stream of this rank's own; does not wait for it.
  virtual Status run(const DeviceStream& stream, const Part& part) = 0;
};

// Words in pinned memory that kernels use.
struct KernelWords {
  uint32_t* cancelled = nullptr;  // not 0: they end, or do not begin
  uint32_t* late = nullptr;       // of kPrograms: the rank that one has waited for in vain is said here, + 1
};

class DeviceModule {
 public:
  virtual ~DeviceModule() = default;

  // Any thread may call these. Nothing changes the calling thread's current device.
  //
  // Of a pointer that the driver does not know, and where there is no device: kHost.
  virtual Result<BufferPlace> place_of(const void* pointer) = 0;

  using Stream = DeviceStream;
  // What a caller's handle means: a default stream is the one of the calling thread's current device, or of `device`
  // where it has none. Errors: no device is meant.
  virtual Result<Stream> stream_of(tutti_stream_t handle, int device) = 0;

  // Makes host memory pinned, until unpin(). May wait for work that devices have. `context`: of a stream that uses it.
  virtual Status pin(std::span<std::byte> memory, void* context) = 0;
  // False: the driver has not let go of it, so that it must stay where it is for good.
  [[nodiscard]] virtual bool unpin(std::byte* memory, void* context) noexcept = 0;

  virtual std::unique_ptr<StreamOrder> make_order() = 0;
  // A stream that goes on while the program's streams wait.
  virtual Result<Stream> make_stream(void* context) = 0;
  // What is on it goes on.
  virtual void drop_stream(const Stream& stream) noexcept = 0;

  struct Gpu {
    GpuId id{};
    int device = -1;          // in this process
    void* context = nullptr;
  };
  // The calling thread's current device, if it has one.
  virtual Result<std::optional<Gpu>> current_gpu() = 0;
  // Brings the kernels to the device, so that no call has to. Errors: they do not run there.
  virtual Result<std::unique_ptr<RankGpu>> use(const Gpu& gpu, Kernels kernels, const KernelWords& words) = 0;
  // Whether its memory takes atomic operations of all these, as over NVLink and not over PCIe; false where the driver
  // does not show this process one of them.
  virtual Result<bool> has_native_atomics(const Gpu& gpu, std::span<const GpuId> others) = 0;
  // Of device memory.
  virtual Result<DeviceBuffer> share_buffer(const void* pointer, const Gpu& gpu) = 0;

  // For devices that reach the memory of GPUs by themselves, such as NICs. What device memory is part of; `context`: of
  // a stream that uses it. Errors: it is of another GPU than that stream.
  virtual Result<DeviceAllocation> allocation_of(const void* pointer, void* context) = 0;
  // The id of the allocation that is at that address now; 0: there is none.
  virtual uint64_t allocation_id(const void* pointer) noexcept = 0;
  // Errors: the driver has none, or the GPU sees what others have written neither in order nor behind a flush.
  virtual Result<DmaBuf> open_dma_buf(const DeviceAllocation& allocation) = 0;
  // Copies from or to that memory, whatever streams wait for, and blocks until it is done.
  virtual Status copy_now(const StreamCopy& copy, void* context) = 0;

  // Puts on a stream: store `reached`; wait until `waits` has its number; store `passed`. Like enqueue() it keeps to
  // the order.
  struct Gate {
    WordValue reached;
    WordValue waits;
    WordValue passed;
  };
  virtual Status put_gate(const Stream& stream, StreamOrder& order, const Gate& gate) = 0;

  // Of one batch of calls.
  struct Batch {
    std::span<const Stream> streams;  // all different: the first works, and waits for the others, and they for it
    // The work waits for what was in these orders before. Who comes next in them waits until the work has ended,
    std::span<StreamOrder* const> to_end;
    std::span<StreamOrder* const> to_begin;  // or in these until `reached` has been called
  };
  // Whether the streams are being captured. Errors: some are and others are not, or by different captures, or a
  // capture that is broken: nothing may be put there.
  virtual Result<bool> are_captured(std::span<const Stream> streams) = 0;
  // Puts the work on the streams; does not wait for it. While they are being captured the graph does so with each
  // launch, and calls `graph_ends` once it never will again, on a thread where nobody may block or use the driver; or
  // before this returns, where the graph could not be had to say that and nothing was put there.
  // What `work` refers to stays until then; on streams, until it has passed.
  virtual Status enqueue(const Batch& batch, const StreamWork& work, void (*graph_ends)(void* argument)) = 0;
};

// What the module exports by the name of kModuleEntry: gives the one module of the process, which lives until that
// ends; null and `why` where there cannot be one. `version`: TUTTI_VERSION. `driver`: the name or path of the driver's
// library; the first call decides.
using OpenModule = DeviceModule* (*)(int version, const char* driver, Status* why);
inline constexpr const char* kModuleEntry = "tutti_open_module";

}  // namespace tutti
