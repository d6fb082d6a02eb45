#include "core/engine.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/affinity.h"
#include "base/memory.h"
#include "core/communicator.h"

namespace tutti {
namespace {

// Upper bound of one sleep, so that deadlines of calls are looked at. Without sleeps look_between_steps() does.
constexpr int kSleepMs = 100;

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create() {
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return system_error(errno, "cannot create an eventfd");
  return std::unique_ptr<Engine>(new Engine(std::move(wake)));
}

Engine::~Engine() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ring();
  if (thread_.joinable()) thread_.join();
}

void Engine::ring() {
  if (rung_.exchange(true, std::memory_order_seq_cst)) return;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof one);  // full: it is awake anyway
}

Status Engine::start() {
  std::lock_guard lock(mutex_);
  if (thread_.joinable()) return {};
  try {
    thread_ = std::thread([this] { or_end_without_memory([this] { run(); }); });
  } catch (const std::system_error& problem) {
    return error(Code::kSystem,
                 "cannot start the thread that makes progress ({}); raise the limits on threads and memory "
                 "(ulimit -u, -v), or make blocking calls only",
                 problem.what());
  }
  if (!cpus_.empty()) (void)run_on(thread_.native_handle(), cpus_);
  return {};
}

void Engine::use_cpus(std::vector<int> cpus) {
  std::lock_guard lock(mutex_);
  cpus_ = std::move(cpus);
  if (thread_.joinable()) (void)run_on(thread_.native_handle(), cpus_);
}

void Engine::add(Communicator* communicator) {
  {
    std::lock_guard lock(mutex_);
    if (std::find(active_.begin(), active_.end(), communicator) == active_.end()) active_.push_back(communicator);
    TUTTI_CHECK(thread_.joinable());
  }
  ring();
}

void Engine::remove(Communicator* communicator) {
  std::unique_lock lock(mutex_);
  std::erase(active_, communicator);
  ring();
  // Rounds that begin from here on do without it.
  uint64_t current = rounds_;
  idle_.wait(lock, [&] { return !in_round_ || rounds_ != current; });
}

void Engine::run() {
  Waiter waiter({.spin_ns = 0, .yield_ns = 50'000});
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
    }
    if (advance_all()) {
      waiter.reset();
    } else if (waiter.idle()) {
      sleep();
    }
  }
}

// One round over all communicators; false when none of them moved.
bool Engine::advance_all() {
  begin_round();
  bool moved = false;
  for (Communicator* communicator : round_) {
    if (auto turn = communicator->try_turn()) {
      moved = communicator->advance() == Advance::kMoved || moved;
      communicator->look_between_steps();
    }
    communicator->after_turn();
  }
  end_round();
  return moved;
}

// Keeps the turns of all communicators while it sleeps; a thread that wants one rings.
void Engine::sleep() {
  waits_.clear();
  waits_.add(wake_.get(), POLLIN);
  bool moved = false;
  begin_round();
  for (Communicator* communicator : round_) {
    auto turn = communicator->turn_before_sleep();
    if (!turn) continue;
    turns_.push_back(std::move(turn));
    held_.push_back(communicator);
    Advance last = Advance::kBlocked;
    armed_.push_back(communicator->before_sleep(waits_, last));
    moved = moved || last == Advance::kMoved;
  }
  auto look = [this] {
    bool any_moved = false;
    for (Communicator* communicator : held_) any_moved = communicator->look() == Advance::kMoved || any_moved;
    return any_moved;
  };
  if (!moved) waits_.sleep(round_.empty() ? -1 : kSleepMs, look);
  uint64_t rings;
  (void)!::read(wake_.get(), &rings, sizeof rings);  // takes all of them
  rung_.exchange(false, std::memory_order_seq_cst);  // only now: what the ringers mean is looked at in the next round
  armed_.clear();
  turns_.clear();
  held_.clear();
  for (Communicator* communicator : round_) communicator->after_turn();
  end_round();
}

void Engine::begin_round() {
  std::lock_guard lock(mutex_);
  std::erase_if(active_, [](Communicator* communicator) { return !communicator->has_calls(); });
  in_round_ = true;
  round_ = active_;
}

void Engine::end_round() {
  {
    std::lock_guard lock(mutex_);
    in_round_ = false;
    ++rounds_;
  }
  idle_.notify_all();
}

}  // namespace tutti
