// A rank that makes calls of MPI and of tutti on the same data and compares. Open MPI's mpirun starts it.
//
//   against_mpi --seed S [--cases N] [--seconds T]   cases 0, 1, 2, ... until N were run or T seconds are over
//   against_mpi --seed S --case K                    case K only
//
// Case K depends on S, K and the number of ranks, and on TUTTI_ALGORITHM. Exit status 0: nothing was different; 1:
// something was, and each difference is a line on standard error.
#include <fmt/format.h>
#include <mpi.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "case_run.h"
#include "exchange_run.h"

namespace differential {
namespace {

constexpr int kEnoughDifferences = 20;
// More than the driver gives a call of tutti, which then says itself what it waits for.
constexpr unsigned kStuckAfterSeconds = 40;

// What a rank says that is stuck, in either library. Changed only while no alarm is set.
std::string stuck;

void end_when_stuck(int) {
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, stuck.data(), stuck.size());
  _exit(4);
}

void watch(std::string what) {
  alarm(0);
  stuck = std::move(what);
  alarm(kStuckAfterSeconds);
}

struct Options {
  uint64_t seed = 1;
  uint64_t first = 0;
  uint64_t cases = UINT64_MAX;
  double seconds = 1e9;
};

[[noreturn]] void refuse(std::string_view text) {
  fmt::print(stderr, "against_mpi: {}; the head of main.cpp says how to call it\n", text);
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::abort();
}

Options parsed(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    std::string_view name = arguments[i];
    if (i + 1 == count) refuse(fmt::format("{} lacks its number", name));
    const char* value = arguments[i + 1];
    uint64_t number = std::strtoull(value, nullptr, 10);
    if (name == "--seed") {
      options.seed = number;
    } else if (name == "--case") {
      options.first = number;
      options.cases = 1;
    } else if (name == "--cases") {
      options.cases = number;
    } else if (name == "--seconds") {
      options.seconds = std::strtod(value, nullptr);
    } else {
      refuse(fmt::format("there is no option {}", name));
    }
  }
  return options;
}

Job job_of(tutti_comm_t* comm, MPI_Comm mpi) {
  Job job{.comm = comm, .mpi = mpi};
  int ranks = 0, rank = -1;
  MPI_Comm_size(mpi, &job.ranks);
  MPI_Comm_rank(mpi, &job.rank);
  tutti_comm_size(comm, &ranks);
  tutti_comm_rank(comm, &rank);
  if (ranks != job.ranks || rank != job.rank) {
    refuse(fmt::format("this is rank {} of {} of MPI, but rank {} of {} of tutti", job.rank, job.ranks, rank, ranks));
  }
  const char* algorithm = std::getenv("TUTTI_ALGORITHM");
  job.algorithm = algorithm == nullptr ? "" : algorithm;
  return job;
}

// In the order of Jobs.
Jobs joined() {
  std::array<tutti_comm_t*, kCommunicators> comms = {};
  std::array<MPI_Comm, kCommunicators> mpi = {MPI_COMM_WORLD};
  if (tutti_comm_init_from_environment(&comms[0], nullptr) != TUTTI_SUCCESS) refuse(tutti_last_error(nullptr));
  Job first = job_of(comms[0], mpi[0]);
  MPI_Comm_dup(mpi[0], &mpi[1]);
  MPI_Comm_split(mpi[0], 0, -first.rank, &mpi[2]);
  if (tutti_comm_dup(comms[0], &comms[1], nullptr) != TUTTI_SUCCESS ||
      tutti_comm_split(comms[0], 0, -first.rank, &comms[2], nullptr) != TUTTI_SUCCESS) {
    refuse(tutti_last_error(comms[0]));
  }
  return {first, job_of(comms[1], mpi[1]), job_of(comms[2], mpi[2])};
}

// Rank 0's clock and all ranks' differences say for all whether to go on.
bool goes_on(double ends_at, int differences) {
  int stops = differences >= kEnoughDifferences, one_stops = 0, is_over = MPI_Wtime() >= ends_at;
  MPI_Allreduce(&stops, &one_stops, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return one_stops == 0 && is_over == 0;
}

// What was run.
struct Totals {
  uint64_t cases = 0;
  uint64_t calls = 0;
  uint64_t messages = 0;
  int differences = 0;
};

template <class Run>
void run_case(Run&& run, Totals& totals) {
  watch(run.line("the case does not end"));
  ++totals.cases;
  totals.calls += run.calls();
  totals.messages += run.messages();
  totals.differences += run.run();
}

// Returns how many differences there are on all ranks.
int run_cases(const Options& options, const Jobs& jobs) {
  Totals totals;
  double ends_at = MPI_Wtime() + options.seconds;
  while (totals.cases < options.cases && goes_on(ends_at, totals.differences)) {
    uint64_t number = options.first + totals.cases;
    if (Random{number, options.seed}.one_in(3)) {
      run_case(ExchangeRun(options.seed, number, jobs), totals);
    } else {
      run_case(CaseRun(options.seed, number, jobs), totals);
    }
  }
  int of_all = 0;
  MPI_Allreduce(&totals.differences, &of_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (jobs[0].rank == 0) {
    fmt::print("seed {}: {} cases with {} calls and {} messages on {} ranks, {} differences\n", options.seed,
               totals.cases, totals.calls, totals.messages, jobs[0].ranks, of_all);
  }
  return of_all;
}

int run(int count, char** arguments) {
  Options options = parsed(count, arguments);
  watch("DIFFERENT: tutti does not join the ranks that MPI has\n");
  Jobs jobs = joined();
  int differences = run_cases(options, jobs);
  watch("DIFFERENT: the communicators of tutti are not destroyed\n");
  for (const Job& job : jobs) {
    if (tutti_comm_destroy(job.comm) != TUTTI_SUCCESS) refuse(tutti_last_error(nullptr));
  }
  return differences == 0 ? 0 : 1;
}

}  // namespace
}  // namespace differential

int main(int count, char** arguments) {
  // Open MPI 4.1 adds 8-bit integers with saturation where it has vectors for it, and wraps around where it has not.
  setenv("OMPI_MCA_op", "^avx", 1);
  std::signal(SIGALRM, differential::end_when_stuck);
  differential::watch("DIFFERENT: MPI_Init does not end\n");
  MPI_Init(&count, &arguments);
  int status = differential::run(count, arguments);
  differential::watch("DIFFERENT: MPI_Finalize does not end\n");
  MPI_Finalize();
  return status;
}
