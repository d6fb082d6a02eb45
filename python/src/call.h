// Call: what one operation of c10d has become, from its start until its results are where they belong.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "communicator.h"
#include "landing.h"

namespace tutti_torch {

// Shared by the Work that the program has, and, while it is under way, by itself. Whoever waits for it first waits in
// tutti, makes progress there, and then finishes it; others sleep until that is done. If nobody waits the watcher does.
class Call : public std::enable_shared_from_this<Call> {
 public:
  // `name`: of the operation, for errors; static.
  Call(std::shared_ptr<Communicator> communicator, const char* name, Milliseconds timeout)
      : communicator_(std::move(communicator)), name_(name), timeout_(timeout) {}

  // ---- Before it starts

  // The memory of `tensor` is used until the call is complete.
  void keep(const at::Tensor& tensor) { kept_.push_back(tensor); }
  // `to` gets what is in `from` when the call is complete.
  void copy_out(at::Tensor to, at::Tensor from) { copies_.emplace_back(std::move(to), std::move(from)); }
  // The message that this receives, in so many elements of tutti's for each one, ends on a device. Gives memory for it.
  void* land(std::unique_ptr<Landing> landing, int64_t per_element) {
    landing_ = std::move(landing);
    per_element_ = per_element;
    return landing_->memory();
  }
  // What Work::result() and the future give.
  void set_outputs(std::vector<at::Tensor> outputs) { outputs_ = std::move(outputs); }
  void set_hook(std::function<void()> on_done) { on_done_ = std::move(on_done); }
  tutti_message_t* message() { return &message_; }

  // Starts all of them. Throws when one is refused; those before it are then finished by the watcher.
  void start(std::span<tutti_call_t> calls);
  // Makes one collective, and blocks until it is complete. Throws when it fails.
  void run(const tutti_call_t& call);
  // Gives it the results of work that was done meanwhile. Does not throw.
  void finish(std::exception_ptr error = nullptr);

  // ---- Afterwards; any thread

  // Blocks until the results are there, or an error; those on a device are there for what comes after
  // join_current_stream().
  void wait();
  // The same for a limited time; false when that has passed.
  bool wait_for(Milliseconds timeout);
  // Whether the results are there, or an error. Does not wait for other threads.
  bool poll();
  void join_current_stream() const {
    if (landing_) landing_->join_current_stream();
  }
  void wait_for_device() const {
    if (landing_) landing_->wait();
  }
  // From here on the results come without anyone waiting for them.
  void watch();
  c10::intrusive_ptr<c10::ivalue::Future> future();
  // Null while it is under way, and when all went well.
  std::exception_ptr error() const;
  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  int source() const { return message_.source; }
  Communicator& communicator() { return *communicator_; }
  const char* name() const { return name_; }

 private:
  static constexpr int kComplete = 1, kWatched = 2;
  enum class State : uint8_t { kUnderWay, kBeingFinished, kFinished };

  void one_completed();
  // Waits in tutti and finishes it, unless somebody does or did: false then, at once.
  bool finish_if_first();
  std::exception_ptr take_requests();
  void copy_results();
  void mark_future(c10::ivalue::Future& future, const std::exception_ptr& error) const;

  const std::shared_ptr<Communicator> communicator_;
  const char* const name_;
  const Milliseconds timeout_;
  c10::SmallVector<at::Tensor, 2> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
  std::unique_ptr<Landing> landing_;
  int64_t per_element_ = 1;
  std::vector<at::Tensor> outputs_;
  std::function<void()> on_done_;
  tutti_message_t message_{.source = -1};
  c10::SmallVector<tutti_request_t*, 1> requests_;
  std::shared_ptr<Call> self_;         // while it is under way
  std::atomic<size_t> remaining_{0};   // requests that are not complete
  std::atomic<int> flags_{0};          // whoever sets the second one hands it to the watcher

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  State state_ = State::kUnderWay;
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace tutti_torch
