#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

// When the number of iterations is left to us: what fits into this, within these bounds.
constexpr double kAutomaticSeconds = 0.1;
constexpr int kFewestIterations = 20;
constexpr int kMostIterations = 2000;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// The time of the slowest rank's later warm-up calls; the first one also prepares the call. 0 without warm-up.
double warm_up(Communicator& comm, const std::function<void()>& call, const Options& options) {
  double estimate_s = 0;
  auto start = Clock::now();
  for (int i = 0; i < options.warmup; ++i) {
    auto before = Clock::now();
    call();
    estimate_s = seconds_between(before, Clock::now());
    bool long_enough = seconds_between(start, Clock::now()) > options.seconds;
    if (i > 0 && comm.agree(int64_t{long_enough}, TUTTI_MAX)) break;
  }
  return comm.agree(estimate_s, TUTTI_MAX);
}

int choose_iterations(double estimate_s, const Options& options) {
  double limit = estimate_s > 0 ? std::max(options.seconds / estimate_s, 1.0) : kMostIterations;
  double wanted = options.iterations;
  if (wanted == 0) {
    wanted = estimate_s > 0 ? kAutomaticSeconds / estimate_s : kFewestIterations;
    wanted = std::clamp(wanted, double{kFewestIterations}, double{kMostIterations});
  }
  return static_cast<int>(std::min(wanted, limit));
}

double join(Communicator& comm, double value, Average average) {
  switch (average) {
    case Average::kRank0: return comm.agree(comm.rank() == 0 ? value : 0.0, TUTTI_SUM);
    case Average::kMean: return comm.agree(value, TUTTI_SUM) / comm.size();
    case Average::kMin: return comm.agree(value, TUTTI_MIN);
    case Average::kMax: break;
  }
  return comm.agree(value, TUTTI_MAX);
}

}  // namespace

Timing measure(Communicator& comm, const std::function<void()>& call, const Options& options) {
  int iterations = choose_iterations(warm_up(comm, call, options), options);
  std::vector<double> times_us(iterations);
  comm.meet();
  auto last = Clock::now();
  for (double& time_us : times_us) {
    if (options.blocking) {
      comm.meet();
      last = Clock::now();
    }
    call();
    auto now = Clock::now();
    time_us = seconds_between(last, now) * 1e6;
    last = now;
  }

  double sum = 0;
  for (double time_us : times_us) sum += time_us;
  std::sort(times_us.begin(), times_us.end());
  Timing timing;
  timing.iterations = iterations;
  timing.mean_us = join(comm, sum / iterations, options.average);
  timing.min_us = join(comm, times_us.front(), options.average);
  timing.median_us = join(comm, times_us[times_us.size() / 2], options.average);
  timing.max_us = join(comm, times_us.back(), options.average);
  return timing;
}

double measure_memcpy(Communicator& comm, const void* from, void* to, size_t size_bytes) {
  constexpr int kRounds = 5;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    comm.meet();
    auto start = Clock::now();
    std::memcpy(to, from, size_bytes);
    comm.meet();  // with fewer cores than ranks they copy one after the other
    double mean_s = comm.agree(seconds_between(start, Clock::now()), TUTTI_SUM) / comm.size();
    best = std::max(best, static_cast<double>(size_bytes) / mean_s);
  }
  return best;
}

}  // namespace tutti::bench
