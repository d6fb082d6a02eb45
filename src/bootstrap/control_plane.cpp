#include <sys/eventfd.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/memory.h"
#include "bootstrap/join.h"
#include "bootstrap/meeting.h"

namespace tutti {
namespace bootstrap {
namespace {

constexpr size_t kMaxPayload = 1u << 20;
// After so long in leave() the ranks that others wait for are named.
constexpr int64_t kSilentMs = 10'000;
// Goodbyes to ranks that may never hear them.
constexpr int64_t kBrokenGoodbyeMs = 1000;

// What another thread asks of the one that drives the overlay.
struct Command {
  enum class Kind { kSend, kAbort, kLeave, kStop };
  Kind kind;
  int to = -1;
  uint32_t type = 0;
  Bytes payload;
  Status why;
  std::optional<Deadline> others;
};

class OverlayControlPlane final : public ControlPlane {
 public:
  OverlayControlPlane(Joined joined, Fd wake)
      : joined_(std::move(joined)), overlay_(*joined_.overlay), wake_(std::move(wake)) {}
  ~OverlayControlPlane() override {
    if (!thread_.joinable()) return;
    post({Command::Kind::kStop});
    thread_.join();
  }

  int rank() const override { return overlay_.rank(); }
  int nranks() const override { return overlay_.nranks(); }
  std::span<const std::byte> token() const override { return joined_.token; }
  uint64_t job() const override { return joined_.job; }

  Result<std::vector<Bytes>> all_gather(ByteView mine, std::string_view what, Deadline deadline) override {
    if (thread_.joinable()) return error(Code::kInternal, "all_gather of the control plane after start()");
    if (mine.size() > kMaxPayload) {
      return error(Code::kInvalidArgument, "the {} of this rank has {} bytes, more than {} cannot be exchanged", what,
                   mine.size(), kMaxPayload);
    }
    return bootstrap::all_gather(overlay_, mine, what, deadline, events_);
  }

  Status start(ControlEvents events) override {
    if (thread_.joinable()) return error(Code::kInternal, "start() of the control plane was called twice");
    handlers_ = std::move(events);
    try {
      thread_ = std::thread([this] { or_end_without_memory([this] { run(); }); });
    } catch (const std::system_error& problem) {
      return error(
          Code::kSystem,
          "cannot start the control plane's thread ({}): raise the limits on threads and memory (ulimit -u, -v)",
          problem.what());
    }
    return {};
  }

  void send(int to, uint32_t type, ByteView payload) override {
    post({Command::Kind::kSend, to, type, Bytes(payload.begin(), payload.end())});
  }
  void abort(const Status& why) override { post({Command::Kind::kAbort, -1, 0, {}, why}); }

  Status leave(std::optional<Deadline> others, Deadline deadline) override {
    Status met;
    if (thread_.joinable()) {
      post({Command::Kind::kLeave, -1, 0, {}, {}, others});
      thread_.join();
      met = std::move(met_);
    }
    // Those that did not come, or are lost, may never hear it.
    bool is_alone = is_broken_ || !met.ok();
    Deadline last = Deadline::after_ms(kBrokenGoodbyeMs);
    say_goodbye(is_alone && last.left_ms() < deadline.left_ms() ? last : deadline);
    return met;
  }

 private:
  void post(Command command) {
    {
      std::lock_guard lock(mutex_);
      commands_.push_back(std::move(command));
    }
    uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
  }

  void run() {
    overlay_.send_beats();
    for (obey(); !is_ending_; obey()) {
      // Before sleeping: obeying may have made events too, such as a message of this rank to itself.
      deliver();
      overlay_.turn(-1, wake_.get());
    }
    if (others_) met_ = meet(*others_);
  }

  // Does what was asked for.
  void obey() {
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
    std::vector<Command> commands;
    {
      std::lock_guard lock(mutex_);
      commands.swap(commands_);
    }
    for (Command& command : commands) {
      switch (command.kind) {
        case Command::Kind::kSend: overlay_.send(command.to, command.type, command.payload); break;
        case Command::Kind::kAbort:
          overlay_.abort(command.why);
          is_broken_ = true;
          break;
        case Command::Kind::kLeave:
          others_ = command.others;
          is_ending_ = true;
          break;
        case Command::Kind::kStop: is_ending_ = true; break;
      }
    }
  }

  // Waits until all ranks are here. Who keeps the others waiting is said after a while, and at the deadline.
  Status meet(Deadline deadline) {
    Barrier barrier(overlay_);
    overlay_.turn(0, -1);
    RollCall roll_call(overlay_);
    Deadline next = deadline.left_ms() < kSilentMs ? deadline : Deadline::after_ms(kSilentMs);
    for (;;) {
      obey();
      deliver();
      if (is_broken_ || barrier.advance() || overlay_.is_gone(barrier.awaited())) return {};
      roll_call.answer();
      if (next.passed()) {
        if (!roll_call.is_over()) {
          next = roll_call.begin();
          continue;
        }
        std::string late = list_ranks(overlay_.not_here());
        if (late.empty()) return {};  // on their way
        if (deadline.passed()) return error(Code::kTimeout, "{} did not finalize", late);
        log_warn("waiting for {} to finalize", late);
        next = deadline;
      }
      overlay_.turn(next.left_ms(), wake_.get());
    }
  }

  void say_goodbye(Deadline deadline) {
    overlay_.say_goodbye();
    while (!overlay_.goodbye_heard() && !deadline.passed()) overlay_.turn(deadline.left_ms(), -1);
    overlay_.close();
  }

  void deliver() {
    for (Event& event : overlay_.take_events()) events_.push_back(std::move(event));
    for (Event& event : std::exchange(events_, {})) {
      switch (event.kind) {
        case Event::Kind::kLost:
          is_broken_ = true;
          if (handlers_.on_lost) handlers_.on_lost(event.rank, std::move(event.why));
          break;
        case Event::Kind::kLeft:
          if (handlers_.on_left) handlers_.on_left(event.rank);
          break;
        case Event::Kind::kAbort:
          is_broken_ = true;
          if (handlers_.on_abort) handlers_.on_abort(event.rank, std::move(event.why));
          break;
        case Event::Kind::kMessage:
          if (handlers_.on_message) handlers_.on_message(event.rank, event.type, event.payload);
          break;
      }
    }
  }

  Joined joined_;
  Overlay& overlay_;  // driven by the caller's thread until start(), then by thread_
  Fd wake_;
  ControlEvents handlers_;
  std::vector<Event> events_;  // not yet delivered
  std::mutex mutex_;
  std::vector<Command> commands_;  // guarded by mutex_
  bool is_ending_ = false;         // these four are thread_'s
  bool is_broken_ = false;         // a rank is lost, or has aborted
  std::optional<Deadline> others_;
  Status met_;                     // of meet()
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<ControlPlane>> join_control_plane(const JoinInfo& info, const Config& config,
                                                         const JoinOptions& options, Deadline deadline) {
  Fd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake) return system_error(errno, "cannot make an eventfd");
  Joined joined = TUTTI_TRY(join(info, config, options, deadline));
  return std::unique_ptr<ControlPlane>(std::make_unique<OverlayControlPlane>(std::move(joined), std::move(wake)));
}

}  // namespace bootstrap

Result<std::unique_ptr<ControlPlane>> ControlPlane::join(const JoinInfo& info, const Config& config,
                                                         Deadline deadline) {
  return bootstrap::join_control_plane(info, config, {}, deadline);
}

}  // namespace tutti
