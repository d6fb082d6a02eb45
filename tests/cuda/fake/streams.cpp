#include <array>
#include <chrono>
#include <thread>

#include "cuda/fake/fake.h"

namespace tutti::fake {

// What a GPU takes work from: streams that share one are run in the order in which their work came.
class Queue {
 public:
  Queue() : thread_([this] { run(); }) { thread_.detach(); }

  void push(Op op) {
    {
      std::lock_guard lock(mutex_);
      ops_.push_back(std::move(op));
      ++pushed_;
    }
    changed_.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex_);
    uint64_t last = pushed_;
    changed_.wait(lock, [&] { return done_ >= last; });
  }

 private:
  void run() {
    for (;;) {
      Op op;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !ops_.empty(); });
        op = std::move(ops_.front());
        ops_.pop_front();
      }
      while (!op()) std::this_thread::sleep_for(std::chrono::microseconds(20));
      op = nullptr;
      {
        std::lock_guard lock(mutex_);
        ++done_;
      }
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Op> ops_;
  uint64_t pushed_ = 0;
  uint64_t done_ = 0;
  std::thread thread_;
};

namespace {

// Of one context and priority: as many as a GPU gives it, and no more. Streams beyond that share them.
class Queues {
 public:
  Queue& next() {
    std::lock_guard lock(mutex_);
    return *queues_[next_++ % queues_.size()];
  }
  Queues() {
    for (auto& queue : queues_) queue = std::make_unique<Queue>();
  }
  void drain() {
    for (auto& queue : queues_) queue->drain();
  }

 private:
  std::mutex mutex_;
  std::array<std::unique_ptr<Queue>, 8> queues_;
  size_t next_ = 0;
};

std::mutex all_mutex;
auto& all_queues = *new std::map<std::pair<CUcontext, int>, std::unique_ptr<Queues>>;  // guarded by it

Queues& queues_of(CUcontext context, int priority) {
  std::lock_guard lock(all_mutex);
  auto& queues = all_queues[{context, priority}];
  if (queues == nullptr) queues = std::make_unique<Queues>();
  return *queues;
}

}  // namespace

CUstream make_stream(CUcontext context, int priority) {
  auto* stream = new CUstream_st;
  stream->context = context;
  stream->priority = priority;
  stream->queue = &queues_of(context, priority).next();
  return stream;
}

CUresult put(CUstream stream, Op op) {
  if (stream->capture != nullptr) {
    if (stream->capture->is_broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->capture->ops.push_back(std::move(op));
    return CUDA_SUCCESS;
  }
  stream->queue->push(std::move(op));
  return CUDA_SUCCESS;
}

void drain(CUstream stream) { stream->queue->drain(); }

void drain_all() {
  std::vector<Queues*> all;
  {
    std::lock_guard lock(all_mutex);
    for (auto& [of, queues] : all_queues) all.push_back(queues.get());
  }
  for (Queues* each : all) each->drain();
}

}  // namespace tutti::fake
