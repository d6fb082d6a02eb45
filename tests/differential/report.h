// What a rank says about a case: lines on standard error, each with the command that runs the case again.
#pragma once

#include <tutti/tutti.h>

#include <cstdint>
#include <string>

#include "call.h"

namespace differential {

class Report {
 public:
  // Of case `number` of a seed. The communicators stay the caller's.
  Report(uint64_t seed, uint64_t number, const Jobs& jobs) : seed_(seed), number_(number), jobs_(jobs) {}

  void difference(const std::string& what);
  // A call failed, on `comm`: says so with the library's sentence and ends the whole job.
  void failure(tutti_comm_t* comm, const std::string& what, tutti_status_t status);
  int differences() const { return differences_; }
  // "DIFFERENT: mpirun -n 4 against_mpi --seed 5 --case 17: rank 2: <what>\n".
  std::string line(const std::string& what) const;

 private:
  uint64_t seed_;
  uint64_t number_;
  const Jobs& jobs_;
  int differences_ = 0;
};

}  // namespace differential
