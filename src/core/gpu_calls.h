// GpuCalls: calls that the GPUs of a communicator's ranks do among themselves. Each rank puts on its stream that it has
// come to the call, and that it waits for its gate. Nobody waits on the host.
//   - All ranks use one GPU: a call takes one launch, which reads what all ranks send and stores what they receive. The
//     rank that calls last makes it on its stream, which waits until all have come, and opens the gates.
//     Where they are all threads of one process its streams share queues, so none may wait for what comes later: each
//     thread waits on the host until all have called, and events take the place of words and gates.
//   - Each rank has a GPU of its own: each launches its part of a Plan (gpu_programs.h) on another stream of its GPU,
//     which waits until all have come, and opens the rank's gate.
// Where a rank has other buffers, all ranks take the way through the host (stream_calls.h).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "bootstrap/control.h"
#include "core/gate_keeper.h"
#include "core/gpu_programs.h"
#include "core/gpu_told.h"
#include "topology/topology.h"

namespace tutti {

class Communicator;

class GpuCalls {
 public:
  using Basis = std::optional<GpuPrograms::Basis>;
  // All ranks come here when each has said which GPU it is on. `basis`: none where that is the same one. Null: not all
  // of them can launch there, or reach each other's memory; why is in the log. Errors: a rank did not come.
  static Result<std::unique_ptr<GpuCalls>> meet(Communicator& communicator, ControlPlane& control, DeviceModule& module,
                                                const DeviceModule::Gpu& gpu, GateKeeper& keeper, Basis basis,
                                                int64_t timeout_ms, Deadline deadline);
  // No call is on its way, or the communicator has failed.
  ~GpuCalls();

  // Null where all ranks are on one GPU.
  GpuPrograms* programs() { return programs_.get(); }

  // What this rank can offer to do a call on its GPU; nothing where its buffers or its stream are elsewhere, or the GPU
  // has no room for it.
  Result<std::optional<Offer>> offer(const tutti_request& request, const DeviceModule::Stream& stream);

  // A call that goes through the host after all.
  struct Staged {
    uint64_t number = 0;  // of the communicator's collectives
    WordValue begins_at;
    WordValue ends_with;
  };
  // Puts it on a stream of this class's: it begins and ends with the words.
  using Stage = std::function<Status(const DeviceModule::Stream& stream, const Staged& staged)>;
  struct Put {
    bool is_done = false;  // false: the caller has the call go through the host, and
    Staged staged;         // as this
  };
  // Puts the call on the caller's stream. `stage` is called later, on another thread, if it turns out that the call
  // goes through the host. Blocks only while another rank is many calls behind, or until all ranks have called where
  // they are all threads of this process, and on one GPU. `request` is used until it returns.
  Result<Put> put(const tutti_request& request, const Offer& offer, const DeviceModule::Stream& stream,
                  StreamOrder& order, Stage stage);
  // The same of a call that a stream has reached already, and behind which it goes on when `gate` becomes 1. Only where
  // it takes late ones. Never uses the driver, and `request` only while the stream is held.
  Status put_reached(const tutti_request& request, const Offer& offer, uint32_t* gate, Stage stage);
  // Tells the others of a call that goes through the host on this rank, and numbers it. Never uses the driver. Blocks
  // like put().
  Status announce(tutti_request& request);

  // Says in the log, once for each reason, why a call of this rank's goes through the host.
  void tell_why_not(const std::string& why);

  // Whether calls can be made when a stream has reached them. Not by events, which captures may not wait for.
  bool takes_late() const { return own_stream_.has_value(); }

  // From now on calls on streams are announced when those have come to them, as in captured graphs.
  void begin_captures() { has_captures_.store(true, std::memory_order_release); }
  bool has_captures() const { return has_captures_.load(std::memory_order_acquire); }

  // Blocks until all ranks have made the calls that were put on streams, and what goes through the host is on its way.
  Status await_decided();
  // Whether the calls that were put on streams are done.
  bool are_done();
  // The last call that is.
  uint32_t done() const { return gates_->done(); }

  // What ranks that ask, and a profiler, are told of this rank's calls (gpu_calls_told.cpp).
  const GpuTold& told() const { return told_of_; }
  // Tells a profiler of the calls that have ended. Any thread.
  void tell_ended();

  // The communicator has failed: the gates of this rank open, and launches stop.
  void cancel() noexcept;
  // Not ok: a rank has done so, or a kernel has waited in vain. Results of calls from there on are undefined.
  Status status() const { return gates_->status(); }
  // That of status(). Takes no memory.
  Code code() const { return gates_->code(); }
  // Ends what this does by itself; no calls come any more.
  void stop() noexcept;
  // All calls are done, and no more come: the memory of others is closed; once all have done that, the own one goes.
  void close_memory() noexcept;
  void free_memory() noexcept;

 private:
  struct Pending {
    uint32_t number = 0;
    uint64_t whole_number = 0;  // of which that one is the end
    Stage stage;
    uint32_t* gate = nullptr;  // besides the rank's own
    // Of all ranks, where this one's launch is to do their parts.
    std::vector<Offer> offers;
  };

  GpuCalls(Communicator& communicator, DeviceModule& module, const DeviceModule::Gpu& gpu, GateKeeper& keeper,
           int64_t timeout_ms)
      : communicator_(communicator),
        module_(module),
        gpu_(gpu),
        keeper_(keeper),
        timeout_ms_(timeout_ms),
        told_of_(communicator) {}
  Status open_board(ControlPlane& control, Basis basis, Deadline deadline);
  Status open_arenas(ControlPlane& control, Deadline deadline);
  Status prepare(Basis basis);

  // With mutex_:
  Status await_place(uint32_t number);
  bool has_settled(uint32_t number) const;
  uint32_t next_number() const { return static_cast<uint32_t>(called_ + 1); }
  uint32_t begin_call();
  uint32_t begin_offered(const tutti_request& request);
  // True: all others have made this call.
  bool say(uint32_t number, const Offer& offer);
  std::vector<Offer> offers_of(uint32_t number) const;
  // Where all buffers are; nothing where launches cannot do the call.
  std::optional<std::vector<PlacedBuffers>> place(uint32_t number);
  void know(Pending pending);
  bool all_offer(uint32_t number);
  void decide(uint32_t number, GpuBoard::Verdict verdict);
  Status launch(uint32_t number, std::span<const PlacedBuffers> placed, const DeviceModule::Stream& stream,
                StreamOrder& order);
  // Where all ranks are threads of this process:
  Result<Put> put_by_events(const tutti_request& request, const Offer& offer, const DeviceModule::Stream& stream,
                            StreamOrder& order);
  Status launch_behind(uint32_t number, std::span<const PlacedBuffers> placed, const DeviceModule::Stream& stream,
                       StreamOrder& order);
  Status await_verdict(uint32_t number) const;
  // What fails there keeps the others waiting.
  Status or_break_down(Status status);

  void run();
  GpuTold::Progress progress() const;
  void tell_rest();
  const char* algorithm_of(const tutti_request& request);
  void settle();
  void drop_launched();
  void drop_launched(uint32_t decided);
  std::optional<Pending> next_decided();
  void carry_out_decided();
  Status carry_out(const Pending& pending);
  Status stage_part(const Pending& pending, const WordValue& cleared);
  Status run_part(const Pending& pending, const WordValue& cleared);
  Status launch_late(const Pending& pending, const WordValue& cleared);
  Result<std::vector<PlacedBuffers>> open(std::span<const Offer> offers);
  const GpuBoard& board() const { return gates_->board(); }
  GpuBoard::OfRank& own() const;
  void ring(int rank) const;

  Communicator& communicator_;
  DeviceModule& module_;
  const DeviceModule::Gpu gpu_;
  GateKeeper& keeper_;
  const int64_t timeout_ms_;
  std::shared_ptr<GpuGates> gates_;  // shared with the keeper
  bool is_pinned_ = false;
  bool is_by_events_ = false;
  std::unique_ptr<RankGpu> own_gpu_;
  std::unique_ptr<GpuPrograms> programs_;
  std::optional<DeviceModule::Stream> own_stream_;
  std::atomic<bool> has_captures_{false};
  std::atomic<bool> ends_{false};

  std::mutex mutex_;                     // guards what follows, and is held while calls are put on streams
  uint64_t called_ = 0;                  // words have the last 32 bits of it

  std::mutex opening_mutex_;             // is held while memory of other ranks is opened

  std::mutex told_mutex_;                // guards told_
  std::set<std::string> told_;

  std::mutex own_stream_mutex_;          // is held before pending_mutex_, by who puts calls on the own stream
  std::mutex pending_mutex_;             // guards what follows
  std::deque<Pending> pending_;          // by number
  uint32_t last_known_ = 0;              // calls that are pending, or that this rank has no more to do for

  GpuTold told_of_;

  std::thread thread_;
};

}  // namespace tutti
