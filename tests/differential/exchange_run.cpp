#include "exchange_run.h"

#include <fmt/format.h>
#include <mpi.h>

#include <numeric>

#include "compare_transfers.h"
#include "reference.h"
#include "tutti_collective.h"

namespace differential {
namespace {

std::vector<size_t> numbers(size_t begin, size_t end) {
  std::vector<size_t> all(end - begin);
  std::iota(all.begin(), all.end(), begin);
  return all;
}

std::vector<size_t> followed_by(std::vector<size_t> a, const std::vector<size_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Each in its order, and those of the other somewhere in between.
std::vector<size_t> merged(const std::vector<size_t>& a, const std::vector<size_t>& b, Random& random) {
  std::vector<size_t> all;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    bool takes_a = random.below(a.size() - i + b.size() - j) < a.size() - i;
    all.push_back(takes_a ? a[i++] : b[j++]);
  }
  return all;
}

}  // namespace

ExchangeRun::ExchangeRun(uint64_t seed, uint64_t number, const Jobs& jobs)
    : jobs_(jobs),
      report_(seed, number, jobs),
      exchange_(draw_exchange(seed, number, jobs[0])),
      own_{seed, number, static_cast<uint64_t>(jobs[0].ranks), static_cast<uint64_t>(jobs[0].rank)} {
  for (const Receive& each : exchange_.receives) {
    if (each.dest == jobs[each.communicator].rank) transfers_.push_back(receiving(each, own_));
  }
  receives_ = transfers_.size();
  for (const Message& each : exchange_.messages) {
    if (each.source == jobs[each.communicator].rank) transfers_.push_back(sending(each, own_));
  }
  for (const Call& call : exchange_.collectives) collectives_.push_back(local_part(call, jobs[call.communicator]));
  requests_.resize(transfers_.size() + collectives_.size());
  prepares_ = own_.one_in(3);
}

int ExchangeRun::run() {
  set_up();
  for (time_ = 0; time_ < exchange_.times; ++time_) run_once();
  tear_down();
  return report_.differences();
}

void ExchangeRun::set_up() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (!is_transfer(i)) {
      require_success(differential::set_up(collective(i), comm_of(i), prepares_), i);
    } else if (prepares_) {
      require_success(prepare(transfers_[i], comm_of(i)), i);
    }
  }
}

void ExchangeRun::tear_down() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    require_success(is_transfer(i) ? tutti_prepared_destroy(transfers_[i].prepared)
                                   : differential::tear_down(collective(i), comm_of(i)),
                    i);
  }
}

void ExchangeRun::run_once() {
  // A receive from any source would take messages of the next time, in both libraries.
  if (exchange_.has_any_source()) MPI_Barrier(MPI_COMM_WORLD);
  for (Transfer& each : transfers_) fill(each, own_);
  ask_mpi(transfers_, jobs_);
  for (size_t i = transfers_.size(); i < requests_.size(); ++i) {
    fill(collective(i), job_of(i), time_);
    ask_mpi(collective(i), job_of(i));
  }
  way_ = drawn_way();
  wait_ = own_.one_of({Wait::kEach, Wait::kAll, Wait::kAny, Wait::kTest});
  make();
  compare();
}

ExchangeRun::Way ExchangeRun::drawn_way() {
  if (exchange_.blocking == Blocking::kInAGroup) return Way::kGroup;
  // All ranks make the same collectives in a group.
  Way way = own_.one_in(3) && collectives_.empty() ? Way::kGroup : Way::kStarted;
  if (own_.one_in(3)) return way;
  switch (exchange_.blocking) {
    case Blocking::kInSends: return Way::kBlockingSends;
    case Blocking::kInReceives: return Way::kBlockingReceives;
    case Blocking::kInSendReceives: return Way::kSendReceives;
    default: return way;
  }
}

std::vector<size_t> ExchangeRun::drawn_order() {
  std::vector<size_t> receives = numbers(0, receives_), sends = numbers(receives_, transfers_.size());
  std::vector<size_t> collectives = numbers(transfers_.size(), requests_.size());
  bool starts_with_receives = way_ == Way::kBlockingSends, starts_with_sends = way_ == Way::kBlockingReceives;
  if (!starts_with_receives && !starts_with_sends && own_.one_in(2)) {
    starts_with_receives = own_.one_in(2);
    starts_with_sends = !starts_with_receives;
  }
  if (starts_with_receives) return followed_by(receives, merged(sends, collectives, own_));
  if (starts_with_sends) return followed_by(sends, merged(receives, collectives, own_));
  return merged(merged(receives, sends, own_), collectives, own_);
}

void ExchangeRun::compare() {
  std::vector<std::string> texts = differences(transfers_, exchange_, jobs_);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].empty()) report(i, texts[i]);
  }
}

const Job& ExchangeRun::job_of(size_t step) const {
  return jobs_[is_transfer(step) ? transfers_[step].communicator
                                 : collectives_[step - transfers_.size()]->call.communicator];
}

void ExchangeRun::require_success(tutti_status_t status, size_t step) {
  if (status != TUTTI_SUCCESS) report_.failure(comm_of(step), described(step), status);
}

void ExchangeRun::report(size_t step, const std::string& difference) {
  report_.difference(fmt::format("{}: {}", described(step), difference));
}

std::string ExchangeRun::described(size_t step) const {
  bool waits = way_ != Way::kGroup;
  std::string place = fmt::format("time {} of {} of {} messages and {} collectives ({}{}{}{})", time_ + 1,
                                  exchange_.times, exchange_.messages.size(), collectives_.size(),
                                  prepares_ && waits ? "prepared, " : "", name_of(way_), waits ? ", " : "",
                                  waits ? name_of(wait_) : "");
  if (is_transfer(step)) {
    return fmt::format("{}, call {} of {}: {}", place, step + 1, transfers_.size(),
                       differential::described(transfers_[step]));
  }
  const LocalCall& local = *collectives_[step - transfers_.size()];
  return fmt::format("{}, {} ({})", place, differential::described(local.call), differential::described(local));
}

const char* ExchangeRun::name_of(Way way) {
  switch (way) {
    case Way::kStarted: return "all started";
    case Way::kGroup: return "in a group";
    case Way::kBlockingSends: return "receives started, sends blocking";
    case Way::kBlockingReceives: return "sends started, receives blocking";
    case Way::kSendReceives: return "tutti_send_recv";
  }
  return "";
}

const char* ExchangeRun::name_of(Wait wait) {
  switch (wait) {
    case Wait::kEach: return "tutti_wait";
    case Wait::kAll: return "tutti_wait_all";
    case Wait::kAny: return "tutti_wait_any";
    case Wait::kTest: return "tutti_test";
  }
  return "";
}

}  // namespace differential
