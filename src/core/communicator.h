// Communicator: what a tutti_comm_t is. Composes the layers: control plane, topology, planner, links, executor.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/config.h"
#include "base/status.h"
#include "bootstrap/control.h"
#include "core/call_record.h"
#include "core/call_windows.h"
#include "base/failure.h"
#include "core/device_regions.h"
#include "core/links.h"
#include "core/gpu_calls.h"
#include "core/own_ops.h"
#include "core/point_to_point.h"
#include "core/prepared.h"
#include "core/pull_trials.h"
#include "core/process_context.h"
#include "core/request.h"
#include "executor/collective_run.h"
#include "topology/topology.h"

namespace tutti {

// JoinInfo::launcher of a communicator that another one made.
inline constexpr std::string_view kSplitLauncher = "split";

// What one attempt to advance a communicator's calls came to.
enum class Advance : uint8_t { kIdle, kMoved, kBlocked };  // kIdle: no calls

class Communicator {
 public:
  // Joins the other ranks. Blocks until all have joined or the bootstrap deadline.
  static Result<std::unique_ptr<Communicator>> create(std::shared_ptr<ProcessContext> context, const JoinInfo& info,
                                                      const Config& config, Deadline deadline);
  ~Communicator();

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  const Topology& topology() const { return topology_; }

  // A communicator of the ranks that say the same color, in the order of their keys; null with a negative color. Blocks
  // until they have joined. `config`: null for this one's.
  Result<std::unique_ptr<Communicator>> split(int color, int key, const Config* config);
  // What it takes in this process.
  tutti_comm_memory_t memory();
  // The same on all its ranks, and no other communicator's.
  uint64_t id() const { return id_; }
  // Null: none. No thread of the caller is in a call. Errors: calls are under way.
  Status set_profiler(const tutti_profiler_t* profiler);
  bool has_profiler() const { return has_profiler_.load(std::memory_order_relaxed); }
  // Any thread. Nothing where there is no profiler; else what it is given back at the end. `sequence`: 0 where the call
  // has none.
  std::optional<void*> tell_begin(const tutti_request& request, uint64_t sequence, const char* algorithm);
  void tell_end(void* begun, Code code);

  // Blocks until the call is complete.
  Status run(const CallArguments& arguments);
  // Blocks until both are complete. Gives the first error.
  Status run_both(const CallArguments& send, const CallArguments& receive);
  // Memory that peers can reach, for calls that are joined into one.
  Result<StagingPool::Memory> staging(uint64_t size_bytes) { return context_->staging.take(size_bytes); }
  // Queues the call; `request` is the caller's and must live until it is done.
  Status start(tutti_request& request);
  // Checks the call, so that start_prepared() may queue it any number of times; prepare() plans it too.
  Status admit(tutti_request& request);
  Status prepare(tutti_request& request);
  Status start_prepared(tutti_request& request);
  // Of a call for a stream (stream_calls.h): checks it; later, when a stream has reached it, starts it.
  Status admit_for_stream(tutti_request& request);
  void post(tutti_request& request);
  // There is more to do of a call that was posted. Any thread.
  void wake();
  const std::shared_ptr<StreamEntry>& stream_entry();
  DeviceRegions& device_regions() { return *device_regions_; }
  // Whether a call with such buffers may belong on a stream, although it has none. Cheap where the last calls had the
  // same buffers, and they were the host's.
  bool may_need_stream(const CallArguments& arguments) const {
    auto is_new = [](const std::byte* buffer, const std::atomic<const std::byte*>& known) {
      return buffer != nullptr && buffer != known.load(std::memory_order_relaxed);
    };
    return is_new(arguments.input, host_input_) || is_new(arguments.output, host_output_);
  }
  // Whether calls belong on the stream, or a default one: one of them has a buffer that the host cannot use. Errors:
  // they do, but another buffer only the host can use; there is no module; of the arguments.
  Result<bool> need_stream(std::span<const CallArguments> calls, tutti_stream_t stream);
  // Puts calls on streams; does not wait for them.
  Status run_on_stream(std::span<const CallArguments> calls, tutti_stream_t stream);
  Result<StreamCalls::HostParts> run_on_streams(std::vector<StreamCalls::Call> calls) {
    return context_->stream_calls.enqueue(std::move(calls));
  }
  // Null unless the ranks' GPUs do calls among themselves.
  GpuCalls* gpu_calls() { return gpu_calls_.get(); }
  // Lets the engine, or a thread that waits already, make progress on what was started. Any thread.
  void progress_alone();
  // Blocks until all of these are done. Several threads may wait, each for requests of its own.
  void wait(std::span<tutti_request* const> requests);
  void wait(tutti_request& request) {
    tutti_request* one = &request;
    wait({&one, 1});
  }
  // Advances calls a little; whether `request` is done.
  bool test(tutti_request& request);

  // The operations that the program has made. Any thread.
  OwnOps& own_ops() { return own_ops_; }

  // What runs for such a call. Does not block on other ranks.
  Result<Prepared*> plan_for(CallArguments arguments);
  // How that cuts the data of an admitted call. Nothing while a thread of the caller's waits in a call, which may be
  // for what the other ranks do behind this one; and where there is no plan, which the call will say.
  std::optional<PlanShape> shape_now(const tutti_request& admitted);
  // The transports to the ranks that are connected, or to all as they will be where none is yet: "shm", "shm+tcp";
  // "self" when there are no others.
  // The text stays as long as the communicator.
  const std::string& transports();

  Status finalize();
  void abort();
  // Ends this rank's part alone: the others go on until they need it.
  void leave();
  // What only this rank suffers, and the others would wait for it.
  void break_down(const Status& why) { fail(why, true); }
  // The first error, or ok; failure(): that this rank knows why.
  Status status() const;
  // That of status(). Takes no memory.
  Code code() const;
  Status failure() const { return failure_.happened() ? failure_.status() : Status(); }

  // The memory region `key` is about to be freed: takes it back from the peers, now or, while another thread has the
  // turn, with that thread's next step or when it gives the turn up. Any thread.
  void forget(uint64_t key);
  // Whoever has given the turn up does this.
  void after_turn();

  // One thread at a time has the turn to advance calls. The engine's way to it: empty when another one has or wants it.
  std::unique_lock<TurnLock> try_turn();
  // The same for an engine that is about to sleep: who has or wants the turn rings it when giving it up.
  std::unique_lock<TurnLock> turn_before_sleep();
  // With the turn: a step forward. Blocks for peers only with Patience::kWaits, and then not for long. What the
  // standard library throws fails the communicator.
  Advance advance(Patience patience = Patience::kNone) noexcept;
  // With the turn, when nothing has moved for a while: announces a sleep, adds to `waits` what wakes it, and takes a
  // last step; nobody may sleep when that has moved. Fails the call at its deadline, and blocks shortly in that case.
  Links::Armed before_sleep(WaitSet& waits, Advance& last) noexcept;
  // With the turn, after a step: before_sleep()'s look at deadlines, now and then. Steady progress of one call keeps
  // the thread that makes it from sleeping, and other calls, of this or other communicators, would not be looked at.
  void look_between_steps() noexcept;
  // The step that it takes, which may be taken again before the sleep's end.
  Advance look() noexcept;
  bool has_calls() const { return pending_.load(std::memory_order_acquire) > 0 || unreached() > 0; }

 private:
  // Messages of the control plane.
  static constexpr uint32_t kAskRecord = 1;
  static constexpr uint32_t kRecord = 2;
  static constexpr uint32_t kGoodbye = 3;
  static constexpr uint32_t kConnect = 4;  // to join in connecting

  Communicator(std::shared_ptr<ProcessContext> context, const Config& config);
  Status join(const JoinInfo& info, Deadline deadline);
  Status exchange_facts(const std::optional<Plan>& plan, Deadline deadline);
  // Gives what all ranks plan with besides the topology.
  Result<Tuning> agree_on_planning(Deadline deadline);
  std::string find_gpu();
  Result<Topology> place_on_gpus(Deadline deadline);
  Status meet_on_gpus(Tuning tuning, Deadline deadline);
  Status start_control();

  // A caller's turn. At its end it rings the engine if that has gone to sleep without the turn.
  class Turn {
   public:
    Turn(Communicator& communicator, std::unique_lock<TurnLock> lock)
        : communicator_(communicator), lock_(std::move(lock)) {}
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return lock_.owns_lock(); }

   private:
    Communicator& communicator_;
    std::unique_lock<TurnLock> lock_;
  };

  template <typename T>
  Result<std::vector<T>> gather_from_all(const T& mine);
  Status check_usable() const;
  // Tells the ranks whose GPUs do calls with this one's, if there are any.
  Status announce(tutti_request& request);
  // On streams, which have not reached them.
  int unreached() const {
    StreamEntry* entry = stream_entry_.load(std::memory_order_acquire);
    return entry == nullptr ? 0 : entry->unreached();
  }
  // Calls of the host come after those of their sequence before them that are on streams. Messages need not know
  // whether all ranks of the GPU have made the collectives.
  Status await_streams(Sequence sequence);
  Status await_decided();
  Status await_reached(Sequence sequence);
  void close_streams();
  // A blocking call of the thread that has the turn. Loops make the same one again and again.
  struct Blocking {
    tutti_request request;
    bool may_be_repeated = false;  // it has neither arrays nor an operation of the program
  };
  Status admit_again(Blocking& call, const CallArguments& arguments);
  // With the turn, and without calls: whether it is the last one again, and nothing else is to be looked at; runs it.
  bool is_again(const CallArguments& arguments);
  Status run_again();
  void announce_call(uint64_t number);
  Status run_after_others(const CallArguments& arguments);
  Status run_beside_driver(const CallArguments& arguments);
  void enqueue(tutti_request& request);
  Status resolve_op(CallArguments& arguments, OwnOp& own_op) const;
  struct Queue {
    RequestQueue requests;     // guarded by queue_mutex_
    std::atomic<int> size{0};  // so that looking whether there is one takes no lock
  };
  // Null when there is none.
  tutti_request* dequeue(Queue& queue);
  Turn take_turn();
  // Of the threads that wait for calls, one makes progress for all of them; the others sleep until it has completed
  // theirs, or stops. Empty where there is one.
  Turn drive_turn();
  // After the turn was given up: the engine may have gone to sleep without it.
  void wake_engine();
  // With the turn:
  Result<Prepared*> plan_with_turn(const CallArguments& arguments, const Geometry& geometry);
  Advance step(Patience patience);
  Advance step_collectives(Patience patience);
  bool adopt(tutti_request& request);
  Status begin(tutti_request& request);
  bool settle(Status begun);
  Advance connect();
  Status launch();
  void bind();
  void choose_ways(uint64_t planned_bytes);
  bool reaches_private_memory() const;
  void follow_trials();
  void end_trial();
  bool may_change_ways() const;
  uint64_t wishes_of_peers() const;
  int awaited_rank() const;
  Status find_windows();
  Status find_device_window();
  bool may_stay_bound() const;
  bool maps_all_peers() const;
  void open_landing();
  void take_back_forgotten();
  void complete(tutti_request& request, Status result);
  void tell_profiler(tutti_request& request, uint64_t sequence, const char* algorithm);
  void complete_active(Status result);
  void hand_over_result();
  void give_up();
  void drive(tutti_request& request);
  void sleep();
  bool part_from_peers(Deadline deadline);

  // Sends and receives (communicator_direct.cpp).
  void make_direct();
  // With the turn, as the driver.
  Status run_direct(const CallArguments& arguments);
  Status run_both_beside_driver(const CallArguments& send, const CallArguments& receive);
  // With the turn:
  void post_direct(tutti_request& request);
  void take_queued_direct();
  Advance step_direct();
  bool should_serve_direct() const;
  Advance serve_direct();
  void look_at_direct_delays();
  void look_at_direct_delays_before_sleep(WaitSet& waits);
  void ask_late_ranks(const tutti_request& request);
  CallRecord record_of(const tutti_request& request) const;
  bool has_said_all(int peer) const;
  bool has_left_early(int peer) const;
  Status direct_early_leavers() const;
  Status direct_early_leaver(const tutti_request& request) const;
  Status direct_lateness(const tutti_request& request, int64_t timeout_ms);

  // Health (communicator_health.cpp).
  void fail(Status status, bool tell_others) noexcept;
  Status as_told_to_others(const Status& status) const;
  void fail_on_link(Status status);
  void await_verdict(int peer);
  // Asks the awaited peer what it is in, and fails the call at its deadline.
  void look_at_delay();
  // What a rank asks another about. With a signature, which came in a message: the one of the two ranks' calls of that
  // message and of `number` that came first. Without: the call that the other is in.
  struct Question {
    uint64_t signature = 0;
    uint64_t number = 0;
  };
  std::optional<CallRecord> ask(int peer, const Question& question);
  // This rank's calls, those that its GPU does among them.
  CallRecord last_record() const;
  std::optional<CallRecord> record_of_number(uint64_t number) const;
  CallRecord answer_to(const Question& question) const;
  Status contradiction(int peer, const CallRecord& theirs, const CallRecord& mine) const;
  Status lateness(const std::string& what, int64_t timeout_ms, int peer);
  // Ok unless `peer` has finalized without making this rank's call: only with the turn.
  Status early_leaver(int peer);
  void on_left(int rank);
  void on_message(int from, uint32_t type, std::span<const std::byte> payload);
  void on_answer(int from, const CallRecord& theirs);
  void on_link_wanted(int from);
  bool answer_with_goodbye(int asker);

  const std::shared_ptr<ProcessContext> context_;  // shared by all communicators of the process
  const Config config_;
  int rank_ = 0;
  int nranks_ = 1;
  uint64_t id_ = 0;
  Topology topology_;
  std::set<std::string> transports_;       // every text that transports() gave
  Failure failure_;
  std::unique_ptr<ControlPlane> control_;
  std::optional<DeviceModule::Gpu> gpu_;  // of this rank, where GPUs can do calls among themselves
  std::vector<std::string> gpus_;         // then those of all ranks, by UUID
  std::unique_ptr<GpuCalls> gpu_calls_;
  std::unique_ptr<Links> links_;
  std::shared_ptr<DeviceRegions> device_regions_;  // shared with calls on streams, which may be there for longer
  std::unique_ptr<PlanCache> plans_;
  WaitPolicy wait_policy_;
  DataPathOptions data_path_;
  std::atomic<bool> finalized_{false};
  OwnOps own_ops_;
  uint64_t splits_ = 0;

  std::mutex queue_mutex_;
  Queue collectives_;
  Queue directs_;                        // sends and receives

  std::atomic<int> pending_{0};          // queued calls that are not complete
  std::once_flag has_stream_entry_;
  std::shared_ptr<StreamEntry> own_stream_entry_;
  std::atomic<StreamEntry*> stream_entry_{nullptr};
  // The buffers of the last call that were looked at, and are the host's. None where the program uses devices.
  std::atomic<const std::byte*> host_input_{nullptr};
  std::atomic<const std::byte*> host_output_{nullptr};
  std::atomic<bool> engine_sleeps_{false};  // without the turn, which another thread has or wants
  std::atomic<bool> has_profiler_{false};
  std::mutex profiler_mutex_;            // guards what follows, and is held while the profiler is told
  tutti_profiler_t profiler_{};
  uint64_t calls_told_ = 0;              // whose end was not
  TurnLock turn_;                        // guards what follows
  tutti_request* active_ = nullptr;
  Prepared* prepared_ = nullptr;         // for the active call
  bool connecting_ = false;              // the active call waits for links
  std::optional<Clock::time_point> slow_since_;  // when the active call was first looked at
  bool asked_ = false;                   // since then: the awaited peer was asked what it is in
  WaitSet waits_;                        // of a thread of the caller
  CollectiveRun run_;
  Call call_;
  Window landing_;                       // where peers' puts may land in the active call's output
  TrialsByWish trials_;
  PullTrials* pulls_ = nullptr;          // of calls like the active one; null: it is too small for them
  bool may_be_pulled_ = false;           // what it receives or sends, by what these find
  bool shows_pulls_ = false;             // how long it takes shows what is quicker; it runs since:
  Clock::time_point launched_;
  uint64_t wishes_seen_ = 0;             // peers' when the active call was bound
  bool is_bound_ = false;                // run_ and call_ would be the same for that call again
  NumberedRecord record_;                // of the last call
  uint64_t calls_ = 0;
  Blocking collective_;                  // when no call is before it
  Blocking send_;
  Blocking receive_;
  std::unique_ptr<CallWindows> windows_;  // of call_
  BufferPool::Buffer result_;            // of a call whose output lies on its input, until peers have read that
  std::unique_ptr<PointToPoint> direct_;
  bool told_slow_direct_ = false;        // slow_direct_ has a record
  int direct_lively_ = 0;                // so many more steps look at what others send
  uint32_t steps_ = 0;                   // without requests one of many looks all the same
  std::vector<bool> asked_ranks_;        // by rank: it knows that this one may wait for it
  Clock::time_point direct_looked_{};    // when look_at_direct_delays() did
  uint32_t steps_at_clock_ = 0;          // when look_between_steps() read the clock
  Clock::time_point looked_between_{};   // when it looked

  std::mutex forgotten_mutex_;           // guards forgotten_
  std::vector<uint64_t> forgotten_;      // regions to take back from the peers
  std::atomic<bool> has_forgotten_{false};

  std::atomic<bool> has_left_{false};    // by leave()
  std::atomic<int> waits_for_{-1};       // the rank that the active call waits for, once it is slow
  PublishedRecords records_;
  PublishedRecord slow_direct_;          // a send or a receive that this rank only waits for
  mutable std::mutex answers_mutex_;     // guards what follows
  std::condition_variable answered_;
  std::map<int, CallRecord> answers_;    // of peers that were asked, by rank
  // What a peer says that makes no more calls: how many it has made, and how many messages it sent to this rank.
  struct Goodbye {
    uint64_t calls = UINT64_MAX;
    uint64_t messages = 0;
    uint64_t is_early = 0;  // it has left in the middle of whatever it was in
  };
  std::map<int, Goodbye> goodbyes_;
  std::optional<Goodbye> parting_;       // this rank's to those without a link to it, once it makes no more calls
  std::map<int, Goodbye> said_;          // its goodbyes to ranks that it is connected to
  std::set<int> askers_;                 // ranks that have asked this one: they may wait for it without a link
  std::set<int> departed_;               // ranks that have left in good order
  std::set<int> ask_for_link_;           // ranks that want to be connected
  std::atomic<bool> is_asked_for_link_{false};
};

}  // namespace tutti
