// The ways to make the calls of a case.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>

#include "case_run.h"
#include "compare.h"
#include "tutti_collective.h"

namespace differential {
namespace {

int64_t now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

void CaseRun::make_calls() {
  switch (way_) {
    case Way::kBlocking:
      for (size_t i = 0; i < calls_.size(); ++i) run_one(i);
      return;
    case Way::kWait: start_all(calls_.size()); return wait_each();
    case Way::kWaitAll:
      start_all(calls_.size());
      require_success(tutti_wait_all(requests_.size(), requests_.data()), 0);
      for (size_t i = 0; i < calls_.size(); ++i) finish(i);
      return;
    case Way::kWaitAny: start_all(calls_.size()); return wait_for_any();
    case Way::kTest: start_all(calls_.size()); return test_until_done();
    case Way::kLastIsBlocking:
      start_all(calls_.size() - 1);
      run_one(calls_.size() - 1);
      return wait_each();
    case Way::kGroup: return make_group();
  }
}

void CaseRun::make_group() {
  require_success(tutti_group_begin(), 0);
  for (size_t i = 0; i < calls_.size(); ++i) {
    delay(i);
    require_success(run_blocking(*calls_[i], comm_of(i)), i);
  }
  require_success(tutti_group_end(), 0);
  for (size_t i = 0; i < calls_.size(); ++i) finish(i);
}

void CaseRun::run_one(size_t index) {
  delay(index);
  require_success(run_blocking(*calls_[index], comm_of(index)), index);
  finish(index);
}

void CaseRun::start_all(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    delay(i);
    require_success(start(*calls_[i], comm_of(i), &requests_[i]), i);
  }
}

void CaseRun::wait_each() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == nullptr) continue;
    require_success(tutti_wait(&requests_[i]), i);
    finish(i);
  }
}

void CaseRun::wait_for_any() {
  for (size_t left = requests_.size(); left > 0; --left) {
    size_t index = requests_.size();
    require_success(tutti_wait_any(requests_.size(), requests_.data(), &index), 0);
    if (index >= requests_.size()) {
      report(0, "tutti_wait_any finds no request");
      return wait_each();
    }
    // Calls of one communicator complete in the order in which they were started.
    for (size_t i = 0; i < index; ++i) {
      if (requests_[i] != nullptr && comm_of(i) == comm_of(index)) {
        report(index, fmt::format("it is complete before call {}", i + 1));
      }
    }
    finish(index);
  }
}

void CaseRun::test_until_done() {
  for (size_t left = requests_.size(); left > 0; sched_yield()) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      int done = 0;
      if (requests_[i] == nullptr) continue;
      require_success(tutti_test(&requests_[i], &done), i);
      if (done == 0) continue;
      finish(i);
      --left;
    }
  }
}

// Ranks come late, in barriers above all, which would else be passed at once.
void CaseRun::delay(size_t index) {
  bool is_barrier = calls_[index]->call.collective->id == TUTTI_BARRIER;
  if (own_.one_in(is_barrier ? 3 : 30)) usleep(static_cast<useconds_t>(own_.below(2000)));
  calls_[index]->entered_ns = now_ns();
}

void CaseRun::finish(size_t index) {
  LocalCall& local = *calls_[index];
  local.left_ns = now_ns();
  if (requests_[index] != nullptr) report(index, "the request is not NULL though it is complete");
  std::string text = difference(local);
  if (!text.empty()) report(index, text);
}

}  // namespace differential
