// One case: the collectives of MPI first, then tutti's with several in flight, and what is different.
#pragma once

#include <tutti/tutti.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "local_call.h"
#include "random.h"
#include "report.h"

namespace differential {

class CaseRun {
 public:
  // Every rank makes and runs the same ones. The communicators stay the caller's.
  CaseRun(uint64_t seed, uint64_t number, const Jobs& jobs);

  // How many differences this rank has found; each is a line on standard error that says how to see it again. Blocks. A
  // call that fails ends the whole job.
  int run();
  // How many run() makes.
  size_t calls() const { return calls_.size() * static_cast<size_t>(rounds_); }
  size_t messages() const { return 0; }
  // A line about this case on this rank, with the command that runs it again.
  std::string line(const std::string& what) const { return report_.line(what); }

 private:
  // How this rank makes and waits for the calls of a round. Ranks need not do alike, but for groups.
  enum class Way { kBlocking, kWait, kWaitAll, kWaitAny, kTest, kLastIsBlocking, kGroup };

  void run_round();
  Way drawn_way();
  // In case_run_ways.cpp: makes all calls and finishes each when it is complete.
  void make_calls();
  void make_group();
  void run_one(size_t index);
  void start_all(size_t count);
  void wait_each();
  void wait_for_any();
  void test_until_done();
  void delay(size_t index);
  void finish(size_t index);

  const Job& job_of(size_t index) const { return jobs_[calls_[index]->call.communicator]; }
  tutti_comm_t* comm_of(size_t index) const { return job_of(index).comm; }
  void compare_between_ranks();
  void require_success(tutti_status_t status, size_t index);
  void report(size_t index, const std::string& difference);
  std::string described(size_t index) const;
  static const char* name_of(Way way);

  const Jobs& jobs_;
  Report report_;
  Random shared_;  // the same numbers on all ranks
  Random own_;
  bool is_group_ = false;
  bool prepares_ = false;  // this rank: what it starts without waiting is then a prepared call
  int rounds_ = 1;
  int round_ = 0;
  Way way_ = Way::kBlocking;  // of this round
  std::vector<std::unique_ptr<LocalCall>> calls_;
  std::vector<tutti_request_t*> requests_;
};

}  // namespace differential
