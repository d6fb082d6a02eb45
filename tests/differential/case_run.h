// One case: the collectives of MPI first, then tutti's with several in flight, and what is different.
#pragma once

#include <tutti/tutti.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "local_call.h"
#include "random.h"

namespace differential {

class CaseRun {
 public:
  // Every rank makes and runs the same ones. `comm` stays the caller's.
  CaseRun(uint64_t seed, uint64_t number, const Job& job, tutti_comm_t* comm);

  // How many differences this rank has found; each is a line on standard error that says how to see it again. Blocks. A
  // call that fails ends the whole job.
  int run();
  size_t calls() const { return calls_.size(); }
  // A line about this case on this rank, with the command that runs it again.
  std::string described(const std::string& what) const;

 private:
  // How this rank waits for the calls of the case. Ranks need not do alike.
  enum class Waiting { kBlocking, kWait, kWaitAll, kWaitAny, kTest, kLastIsBlocking };

  void run_each();
  void start_all(size_t count);
  void wait_each();
  void wait_for_any();
  void test_until_done();
  void finish(size_t index);
  void compare_between_ranks();
  void delay(size_t index);
  void require_success(tutti_status_t status, size_t index);
  void report(size_t index, const std::string& difference);
  static const char* name_of(Waiting waiting);

  uint64_t seed_;
  uint64_t number_;
  const Job& job_;
  tutti_comm_t* comm_;
  Random own_;
  Waiting waiting_;
  std::vector<std::unique_ptr<LocalCall>> calls_;
  std::vector<tutti_request_t*> requests_;
  int differences_ = 0;
};

}  // namespace differential
