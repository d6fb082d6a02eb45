#include "watcher.h"

#include <utility>

#include "call.h"

namespace tutti_torch {
namespace {

std::mutex all_mutex;
std::vector<std::weak_ptr<Watcher>> all;  // guarded by it

}  // namespace

void Watcher::start() {
  {
    std::lock_guard lock(all_mutex);
    std::erase_if(all, [](const auto& each) { return each.expired(); });
    all.push_back(weak_from_this());
  }
  std::lock_guard lock(mutex_);
  add_thread();
}

void Watcher::stop_all() {
  std::vector<std::weak_ptr<Watcher>> stopping;
  {
    std::lock_guard lock(all_mutex);
    stopping = std::exchange(all, {});
  }
  for (const auto& each : stopping) {
    if (auto watcher = each.lock()) watcher->stop();
  }
}

void Watcher::add_thread() {
  threads_.emplace_back([self = shared_from_this()] { self->run(); });
  ++idle_;
}

// Where the system has no thread left, what is complete stays queued for those there are.
void Watcher::try_add_thread() noexcept {
  try {
    add_thread();
  } catch (const std::exception&) {
  }
}

bool Watcher::push(std::shared_ptr<Call> call) {
  std::lock_guard lock(mutex_);
  if (is_stopped_) return false;
  complete_.push_back(std::move(call));
  if (idle_ == 0) try_add_thread();
  changed_.notify_one();
  return true;
}

void Watcher::stop() {
  std::vector<std::thread> ending;
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  for (;;) {  // those that end may still start others
    {
      std::lock_guard lock(mutex_);
      ending = std::exchange(threads_, {});
    }
    if (ending.empty()) return;
    for (std::thread& thread : ending) {
      thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
    }
  }
}

void Watcher::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, kForever, [this] { return is_stopped_ || !complete_.empty(); });
    --idle_;
    if (complete_.empty()) return;
    std::shared_ptr<Call> call = std::move(complete_.front());
    complete_.pop_front();
    if (!complete_.empty() && idle_ == 0) try_add_thread();  // this one may be busy for long
    lock.unlock();
    call->wait();
    call.reset();  // tensors may be freed here, and futures run what hangs on them
    lock.lock();
    ++idle_;
  }
}

}  // namespace tutti_torch
