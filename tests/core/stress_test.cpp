// Threads that use whatever communicator is free, in random order, beside the engine.
#include <catch2/catch.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <random>

#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 3;
constexpr int kCalls = 500;  // of each communicator
constexpr size_t kMostStarted = 4;

// One call's buffer, of a size and with contents that follow from the number of the call.
struct Values {
  int number = 0;
  std::vector<int64_t> elements;

  Values(int rank, int number) : number(number), elements(1 + number * 7919 % 5000) {
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = number + rank + static_cast<int64_t>(i);
  }
  bool are_summed() const {
    for (size_t i = 0; i < elements.size(); ++i) {
      if (elements[i] != kRanks * (number + 1 + static_cast<int64_t>(i))) return false;
    }
    return true;
  }
};

struct Started {
  Values values;
  tutti_request_t* request = nullptr;
};

// One rank's end of a communicator. One thread at a time uses it.
class End {
 public:
  End(tutti_comm_t* comm, int rank) : comm_(comm), rank_(rank) {}

  std::mutex& mutex() { return mutex_; }
  tutti_comm_t* comm() const { return comm_; }
  bool finished() const { return calls_ == kCalls && started_.empty(); }

  // Does one thing; gives "" or what went wrong.
  std::string step(std::mt19937& random) {
    bool may_call = calls_ < kCalls && started_.size() < kMostStarted;
    if (may_call && (started_.empty() || random() % 2 == 0)) return random() % 3 == 0 ? block() : start();
    return take(random() % started_.size(), random() % 4 == 0);
  }
  // Takes back what was started, whatever became of it.
  void take_back() {
    while (!started_.empty()) take(0, true);
  }

 private:
  std::string start() {
    Started& call = started_.emplace_back(Started{Values(rank_, calls_++)});
    auto& elements = call.values.elements;
    auto* data = elements.data();
    tutti_status_t status = start_all_reduce(data, data, elements.size(), TUTTI_INT64, TUTTI_SUM, comm_, &call.request);
    if (status == TUTTI_SUCCESS) return "";
    started_.pop_back();
    return tutti_last_error(comm_);
  }

  std::string block() {
    Values values(rank_, calls_++);
    tutti_status_t status = tutti_all_reduce(values.elements.data(), values.elements.data(), values.elements.size(),
                                             TUTTI_INT64, TUTTI_SUM, comm_, nullptr);
    return verdict(status, values);
  }

  std::string take(size_t which, bool wait) {
    Started& call = started_[which];
    int done = 1;
    tutti_status_t status = wait ? tutti_wait(&call.request) : tutti_test(&call.request, &done);
    if (done == 0) return "";
    std::string wrong = verdict(status, call.values);
    if (call.request != nullptr) wrong += "; the request is still there";
    started_.erase(started_.begin() + static_cast<std::ptrdiff_t>(which));
    return wrong;
  }

  std::string verdict(tutti_status_t status, const Values& values) const {
    if (status != TUTTI_SUCCESS) return tutti_last_error(comm_);
    return values.are_summed() ? "" : fmt::format("rank {}: call {} gave a wrong sum", rank_, values.number);
  }

  tutti_comm_t* const comm_;
  const int rank_;
  std::mutex mutex_;
  int calls_ = 0;
  std::vector<Started> started_;
};

// What all threads do until every End has made all its calls.
class Crowd {
 public:
  explicit Crowd(std::vector<std::unique_ptr<End>>& ends) : ends_(ends) {}

  void work(unsigned seed) {
    std::mt19937 random(seed);
    while (!stopped_ && !finished()) {
      End& end = *ends_[random() % ends_.size()];
      if (tutti_comm_status(end.comm()) != TUTTI_SUCCESS) break;  // any thread may ask at any time
      std::unique_lock lock(end.mutex(), std::try_to_lock);
      if (!lock || end.finished()) {
        std::this_thread::yield();
        continue;
      }
      std::string wrong = end.step(random);
      if (!wrong.empty()) stop(wrong);
      if (end.finished()) ++finished_;
    }
  }
  std::string wrong() const { return wrong_; }  // once all have ended
  bool finished() const { return finished_ == ends_.size(); }

 private:
  // Others may wait for a call that now never comes.
  void stop(const std::string& why) {
    std::lock_guard lock(mutex_);
    if (stopped_.exchange(true)) return;
    wrong_ = why;
    for (auto& end : ends_) tutti_comm_abort(end->comm());
  }

  std::vector<std::unique_ptr<End>>& ends_;
  std::atomic<size_t> finished_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::string wrong_;
};

}  // namespace

TEST_CASE("threads start, test, wait for and make calls of several communicators in any order") {
  const unsigned seed = 20261121;
  INFO("seed " << seed);
  std::vector<std::vector<tutti_comm_t*>> communicators;
  std::vector<std::unique_ptr<End>> ends;
  for (const char* transport : {"loopback", "shm", "tcp"}) {
    communicators.push_back(make_ranks(kRanks, transport));
    for (int rank = 0; rank < kRanks; ++rank) {
      REQUIRE(communicators.back()[rank] != nullptr);
      ends.push_back(std::make_unique<End>(communicators.back()[rank], rank));
    }
  }
  // The end of a communicator that is furthest behind never waits for long, so one thread more than there are others
  // is enough for some thread to go on.
  size_t nthreads = ends.size() - communicators.size() + 2;
  Crowd crowd(ends);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < nthreads; ++i) threads.emplace_back([&crowd, i] { crowd.work(seed + i); });
  for (std::thread& thread : threads) thread.join();
  CHECK(crowd.wrong() == "");
  CHECK(crowd.finished());
  for (auto& end : ends) end->take_back();
  for (auto& ranks : communicators) destroy(ranks);
}

}  // namespace tutti::test
