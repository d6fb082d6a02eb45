#include "case_run.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string_view>

#include "compare.h"
#include "reference.h"
#include "tutti_collective.h"

namespace differential {
namespace {

int64_t now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// The options that this job has: "TUTTI_TRANSPORT=tcp ".
std::string variables() {
  std::string text;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with("TUTTI_")) text += fmt::format("{} ", *entry);
  }
  return text;
}

}  // namespace

CaseRun::CaseRun(uint64_t seed, uint64_t number, const Job& job, tutti_comm_t* comm)
    : seed_(seed),
      number_(number),
      job_(job),
      comm_(comm),
      own_{seed, number, static_cast<uint64_t>(job.ranks), static_cast<uint64_t>(job.rank)} {
  for (const Call& call : draw_case(seed, number, job)) calls_.push_back(prepared(call, job));
  Random shared{seed, number};
  Random& random = shared.one_in(2) ? shared : own_;
  waiting_ = random.one_of({Waiting::kBlocking, Waiting::kWait, Waiting::kWaitAll, Waiting::kWaitAny, Waiting::kTest,
                            Waiting::kLastIsBlocking});
  requests_.resize(calls_.size());
}

int CaseRun::run() {
  for (auto& local : calls_) ask_mpi(*local, job_);
  run_each();
  compare_between_ranks();
  return differences_;
}

void CaseRun::run_each() {
  switch (waiting_) {
    case Waiting::kBlocking:
      for (size_t i = 0; i < calls_.size(); ++i) {
        delay(i);
        require_success(run_blocking(*calls_[i], comm_), i);
        finish(i);
      }
      return;
    case Waiting::kWait: start_all(calls_.size()); return wait_each();
    case Waiting::kWaitAll:
      start_all(calls_.size());
      require_success(tutti_wait_all(requests_.size(), requests_.data()), 0);
      for (size_t i = 0; i < calls_.size(); ++i) finish(i);
      return;
    case Waiting::kWaitAny: start_all(calls_.size()); return wait_for_any();
    case Waiting::kTest: start_all(calls_.size()); return test_until_done();
    case Waiting::kLastIsBlocking: {
      size_t last = calls_.size() - 1;
      start_all(last);
      delay(last);
      require_success(run_blocking(*calls_[last], comm_), last);
      finish(last);
      return wait_each();
    }
  }
}

void CaseRun::start_all(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    delay(i);
    require_success(start(*calls_[i], comm_, &requests_[i]), i);
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
    // Calls complete in the order in which they were started.
    size_t next = requests_.size() - left;
    if (index != next) {
      report(next, fmt::format("tutti_wait_any says {}", index));
      return wait_each();
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

void CaseRun::finish(size_t index) {
  LocalCall& local = *calls_[index];
  local.left_ns = now_ns();
  if (requests_[index] != nullptr) report(index, "the request is not NULL though it is complete");
  std::string text = difference(local);
  if (!text.empty()) report(index, text);
}

void CaseRun::compare_between_ranks() {
  for (size_t i = 0; i < calls_.size(); ++i) {
    tutti_collective_t collective = calls_[i]->call.collective->id;
    if (collective == TUTTI_ALL_REDUCE && !has_bits_of_rank_0(*calls_[i], job_)) {
      report(i, "the bits of the result are not those of rank 0");
    }
    if (collective == TUTTI_BARRIER && !waited_for_all(*calls_[i])) {
      report(i, "this rank left the barrier before the last one entered it");
    }
  }
}

// Ranks come late, in barriers above all, which would else be passed at once.
void CaseRun::delay(size_t index) {
  bool is_barrier = calls_[index]->call.collective->id == TUTTI_BARRIER;
  if (own_.one_in(is_barrier ? 3 : 30)) usleep(static_cast<useconds_t>(own_.below(2000)));
  calls_[index]->entered_ns = now_ns();
}

void CaseRun::require_success(tutti_status_t status, size_t index) {
  if (status == TUTTI_SUCCESS) return;
  const char* sentence = tutti_last_error(comm_);
  if (*sentence == '\0') sentence = tutti_last_error(nullptr);
  report(index, fmt::format("{}: {}", tutti_status_text(status), sentence));
  MPI_Abort(MPI_COMM_WORLD, 3);
}

void CaseRun::report(size_t index, const std::string& difference) {
  ++differences_;
  const LocalCall& local = *calls_[index];
  std::string line = described(fmt::format("call {} of {} ({}), {} ({}): {}", index + 1, calls_.size(),
                                           name_of(waiting_), differential::described(local.call),
                                           differential::described(local), difference));
  // In one piece, so that the lines of several ranks do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string CaseRun::described(const std::string& what) const {
  return fmt::format("DIFFERENT: {}mpirun -n {} against_mpi --seed {} --case {}: rank {}: {}\n", variables(),
                     job_.ranks, seed_, number_, job_.rank, what);
}

const char* CaseRun::name_of(Waiting waiting) {
  switch (waiting) {
    case Waiting::kBlocking: return "blocking";
    case Waiting::kWait: return "tutti_wait";
    case Waiting::kWaitAll: return "tutti_wait_all";
    case Waiting::kWaitAny: return "tutti_wait_any";
    case Waiting::kTest: return "tutti_test";
    case Waiting::kLastIsBlocking: return "the last one blocking";
  }
  return "";
}

}  // namespace differential
