#include "report.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

namespace differential {
namespace {

// The options that this job has: "TUTTI_TRANSPORT=tcp ".
std::string variables() {
  std::string text;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with("TUTTI_")) text += fmt::format("{} ", *entry);
  }
  return text;
}

}  // namespace

void Report::difference(const std::string& what) {
  ++differences_;
  // In one piece, so that the lines of several ranks do not mix.
  std::string text = line(what);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void Report::failure(tutti_comm_t* comm, const std::string& what, tutti_status_t status) {
  const char* sentence = tutti_last_error(comm);
  for (const Job& job : jobs_) {
    if (*sentence == '\0') sentence = tutti_last_error(job.comm);
  }
  if (*sentence == '\0') sentence = tutti_last_error(nullptr);
  difference(fmt::format("{}: {}: {}", what, tutti_status_text(status), sentence));
  MPI_Abort(MPI_COMM_WORLD, 3);
}

std::string Report::line(const std::string& what) const {
  return fmt::format("DIFFERENT: {}mpirun -n {} against_mpi --seed {} --case {}: rank {}: {}\n", variables(),
                     jobs_[0].ranks, seed_, number_, jobs_[0].rank, what);
}

}  // namespace differential
