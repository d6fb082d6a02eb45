#include "case_run.h"

#include <fmt/format.h>

#include "reference.h"
#include "tutti_collective.h"

namespace differential {

CaseRun::CaseRun(uint64_t seed, uint64_t number, const Jobs& jobs)
    : jobs_(jobs),
      report_(seed, number, jobs),
      shared_{seed, number},
      own_{seed, number, static_cast<uint64_t>(jobs[0].ranks), static_cast<uint64_t>(jobs[0].rank)} {
  Case drawn = draw_case(seed, number, jobs[0]);
  for (const Call& call : drawn.calls) calls_.push_back(local_part(call, jobs[call.communicator]));
  requests_.resize(calls_.size());
  is_group_ = drawn.is_group;
  rounds_ = drawn.rounds;
  prepares_ = !is_group_ && (shared_.one_in(2) ? shared_ : own_).one_in(3);
}

int CaseRun::run() {
  for (size_t i = 0; i < calls_.size(); ++i) require_success(set_up(*calls_[i], comm_of(i), prepares_), i);
  for (round_ = 0; round_ < rounds_; ++round_) run_round();
  for (size_t i = 0; i < calls_.size(); ++i) require_success(tear_down(*calls_[i], comm_of(i)), i);
  return report_.differences();
}

void CaseRun::run_round() {
  for (size_t i = 0; i < calls_.size(); ++i) {
    fill(*calls_[i], job_of(i), round_);
    ask_mpi(*calls_[i], job_of(i));
  }
  way_ = drawn_way();
  make_calls();
  compare_between_ranks();
}

CaseRun::Way CaseRun::drawn_way() {
  if (is_group_) return Way::kGroup;
  Random& random = shared_.one_in(2) ? shared_ : own_;
  return random.one_of(
      {Way::kBlocking, Way::kWait, Way::kWaitAll, Way::kWaitAny, Way::kTest, Way::kLastIsBlocking});
}

void CaseRun::compare_between_ranks() {
  for (size_t i = 0; i < calls_.size(); ++i) {
    tutti_collective_t collective = calls_[i]->call.collective->id;
    if (collective == TUTTI_ALL_REDUCE && !has_bits_of_rank_0(*calls_[i], job_of(i))) {
      report(i, "the bits of the result are not those of rank 0");
    }
    if (collective == TUTTI_BARRIER && !waited_for_all(*calls_[i])) {
      report(i, "this rank left the barrier before the last one entered it");
    }
  }
}

void CaseRun::require_success(tutti_status_t status, size_t index) {
  if (status != TUTTI_SUCCESS) report_.failure(comm_of(index), described(index), status);
}

void CaseRun::report(size_t index, const std::string& difference) {
  report_.difference(fmt::format("{}: {}", described(index), difference));
}

std::string CaseRun::described(size_t index) const {
  const LocalCall& local = *calls_[index];
  return fmt::format("round {} of {}, call {} of {} ({}{}), {} ({})", round_ + 1, rounds_, index + 1, calls_.size(),
                     prepares_ ? "prepared, " : "", name_of(way_), differential::described(local.call),
                     differential::described(local));
}

const char* CaseRun::name_of(Way way) {
  switch (way) {
    case Way::kBlocking: return "blocking";
    case Way::kWait: return "tutti_wait";
    case Way::kWaitAll: return "tutti_wait_all";
    case Way::kWaitAny: return "tutti_wait_any";
    case Way::kTest: return "tutti_test";
    case Way::kLastIsBlocking: return "the last one blocking";
    case Way::kGroup: return "in a group";
  }
  return "";
}

}  // namespace differential
