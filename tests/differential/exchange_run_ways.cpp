// The ways to make the calls of an exchange.
#include <sched.h>
#include <unistd.h>

#include "compare.h"
#include "exchange_run.h"
#include "tutti_collective.h"

namespace differential {

void ExchangeRun::make() {
  // Ranks come late, so that many messages are there before their receives.
  if (own_.one_in(4)) usleep(static_cast<useconds_t>(own_.below(5000)));
  if (way_ == Way::kSendReceives) return make_send_receives();
  if (way_ == Way::kGroup) require_success(tutti_group_begin(), 0);
  for (size_t step : drawn_order()) make_one(step);
  if (way_ != Way::kGroup) return wait();
  require_success(tutti_group_end(), 0);
  for (size_t i = 0; i < requests_.size(); ++i) finish(i);
}

// The collectives are started before one of the rounds: another rank may be in another round, and wait for this one.
void ExchangeRun::make_send_receives() {
  size_t starts_before = own_.below(receives_ + 1);
  for (size_t round = 0; round <= receives_; ++round) {
    for (size_t i = transfers_.size(); round == starts_before && i < requests_.size(); ++i) make_one(i);
    if (round == receives_) break;
    delay();
    size_t send = receives_ + round;
    require_success(run_blocking(transfers_[send], transfers_[round], comm_of(round)), round);
    finish(round);
    finish(send);
  }
  wait();
}

void ExchangeRun::make_one(size_t step) {
  delay();
  if (is_started(step)) {
    require_success(is_transfer(step) ? start(transfers_[step], comm_of(step), &requests_[step])
                                      : start(collective(step), comm_of(step), &requests_[step]),
                    step);
    return;
  }
  require_success(is_transfer(step) ? run_blocking(transfers_[step], comm_of(step))
                                    : run_blocking(collective(step), comm_of(step)),
                  step);
  if (way_ != Way::kGroup) finish(step);
}

// Where a rank blocks, all that others could wait for is under way.
bool ExchangeRun::is_started(size_t step) const {
  switch (way_) {
    case Way::kGroup: return false;
    case Way::kBlockingSends: return step < receives_;
    case Way::kBlockingReceives: return is_transfer(step) && step >= receives_;
    default: return true;
  }
}

void ExchangeRun::wait() {
  if (wait_ == Wait::kAny) return wait_for_any();
  if (wait_ == Wait::kTest) return test_until_done();
  std::vector<tutti_request_t*> started = requests_;
  if (wait_ == Wait::kAll) require_success(tutti_wait_all(requests_.size(), requests_.data()), 0);
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (started[i] == nullptr) continue;
    if (wait_ == Wait::kEach) require_success(tutti_wait(&requests_[i]), i);
    finish(i);
  }
}

void ExchangeRun::wait_for_any() {
  for (;;) {
    size_t index = requests_.size();
    require_success(tutti_wait_any(requests_.size(), requests_.data(), &index), 0);
    if (index >= requests_.size()) return;
    finish(index);
  }
}

void ExchangeRun::test_until_done() {
  for (bool all_are_done = false; !all_are_done; sched_yield()) {
    all_are_done = true;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == nullptr) continue;
      int done = 0;
      require_success(tutti_test(&requests_[i], &done), i);
      if (done != 0) finish(i);
      all_are_done = all_are_done && done != 0;
    }
  }
}

void ExchangeRun::delay() {
  if (own_.one_in(30)) usleep(static_cast<useconds_t>(own_.below(2000)));
}

void ExchangeRun::finish(size_t step) {
  if (requests_[step] != nullptr) report(step, "the request is not NULL though it is complete");
  if (is_transfer(step)) return take(transfers_[step], own_);
  std::string text = difference(collective(step));
  if (!text.empty()) report(step, text);
}

}  // namespace differential
