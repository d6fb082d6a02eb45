// GpuGates: what the streams of one rank wait for, in calls that ranks' GPUs do among themselves: who is late, and what
// opens their gates once the communicator has failed. Nothing here uses the driver, or waits for who does: a call of
// the driver may wait for just the stream that stands at a gate.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "core/gpu_board.h"

namespace tutti {

// In so long a rank that has failed tells the others why. One that leaves tells nobody.
inline constexpr std::chrono::milliseconds kFailureIsToldIn{500};
inline constexpr int64_t kGpuLookMs = 100;  // how often who waits for GPUs looks at what else may have happened

class GpuGates {
 public:
  struct Basis {
    GpuBoard board;
    int rank = 0;
    int nranks = 1;
    int64_t timeout_ms = 0;
    bool has_programs = false;  // each rank has a GPU
    std::function<void(const Status& why)> tell_late;  // a thread of the keeper's calls it, as long as that is told to
  };
  explicit GpuGates(Basis basis) : basis_(std::move(basis)) {}
  GpuGates(const GpuGates&) = delete;
  GpuGates& operator=(const GpuGates&) = delete;

  const GpuBoard& board() const { return basis_.board; }
  // Streams may still use it when this is gone.
  void leak_board() { basis_.board.leak(); }
  GpuBoard::OfRank& own() const { return board().of(basis_.rank); }

  // ---- Any thread

  // Before a stream of the caller's waits for the rank's gate of this call, and then stores `passed`.
  void will_wait(uint32_t number) { last_waiting_.store(number, std::memory_order_release); }
  // The rank has made this call.
  void has_put(uint32_t number) { last_put_.store(number, std::memory_order_seq_cst); }
  uint32_t last_put() const { return last_put_.load(std::memory_order_seq_cst); }
  // Before something is put on the rank's own stream that ends with a store of that number to `cleared`.
  WordValue will_clear() { return {&own().cleared, last_clearing_.fetch_add(1, std::memory_order_acq_rel) + 1}; }
  // Whether all that was put there is done, for which this waits up to two seconds: a call's gate opens before its last
  // store to the board.
  bool await_clear() const;
  // Before a call that goes through the host is put there.
  void will_stage(uint32_t number) { last_staged_.store(number, std::memory_order_release); }
  // This call is being put on the own stream, which takes the driver's calls; 0: none is.
  void is_putting(uint32_t number) { putting_.store(number, std::memory_order_relaxed); }
  // A stream waits until this becomes 1; until it has been put on the own stream that it does.
  void add_late(uint32_t* gate);
  void remove_late(uint32_t* gate);

  // The last call that is done, and whether all are that were made.
  uint32_t done() const { return read_word(own().gate); }
  bool are_done() const { return !comes_before(done(), last_put()); }
  // Streams compare numbers that are less than half of all apart: without calls on the GPU its words come along.
  void keep_words_near(uint32_t number);

  // The communicator has failed: launches stop. Kernels that end for that reason open no gate: others may not have
  // noticed yet.
  void cancel() noexcept;
  bool is_cancelled() const { return is_cancelled_.load(std::memory_order_acquire); }
  // Not ok: a rank has done so, or a kernel has waited in vain.
  Status status() const;
  // That of status(). Takes no memory.
  Code code() const;
  // A call that others may have begun with returns the communicator's error: until its buffers are the caller's again.
  void await_open() const;

  std::string_view where() const { return basis_.has_programs ? "the GPUs" : "this GPU"; }
  // Who keeps call `number` from being done.
  std::string who_is_late(uint32_t number) const;
  Status late_error(uint32_t number, int64_t waited_ms) const;

  // ---- The keeper's thread

  // Says who is late, or opens the gates. False: nothing may have to be said or opened before the next call.
  bool tend();
  // Nobody makes calls any more, or is to be told.
  void be_alone() { basis_.tell_late = nullptr; }
  bool is_alone() const { return basis_.tell_late == nullptr; }

 private:
  void open();
  bool have_ended() const;
  bool have_passed() const;
  bool is_clear() const;
  Status kernel_status() const;
  std::string_view collective_of(uint32_t number, int rank) const;
  std::string last_call_of(int rank) const;
  Status look_at_delay();

  Basis basis_;
  std::atomic<uint32_t> last_put_{0};
  std::atomic<uint32_t> last_waiting_{0};
  std::atomic<uint32_t> last_clearing_{0};
  std::atomic<uint32_t> last_staged_{0};
  std::atomic<uint32_t> putting_{0};
  std::atomic<bool> is_cancelled_{false};
  std::atomic<bool> are_open_{false};  // after a failure

  std::mutex mutex_;                   // guards late_
  std::vector<uint32_t*> late_;

  // Of the keeper's thread:
  uint32_t gate_seen_ = 0;
  std::optional<Clock::time_point> stands_since_;
  std::optional<Clock::time_point> stopped_since_;    // by another rank
  std::optional<Clock::time_point> cancelled_since_;
};

}  // namespace tutti
