#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>
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
double warm_up(Communicator& comm, Device& device, const std::function<void()>& call, const Options& options) {
  double estimate_s = 0;
  auto start = Clock::now();
  for (int i = 0; i < options.warmup; ++i) {
    auto before = Clock::now();
    call();
    device.synchronize();
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

// In microseconds. A call begins where the one before it has ended, or when all ranks have met.
std::vector<double> time_calls(Communicator& comm, Device& device, const std::function<void()>& call, int iterations,
                               bool blocking) {
  size_t marks = 0;
  device.prepare_marks(2 * static_cast<size_t>(iterations) + 1);
  comm.meet();
  device.mark(marks++);
  for (int i = 0; i < iterations; ++i) {
    if (blocking) {
      device.synchronize();
      comm.meet();
      device.mark(marks++);
    }
    call();
    device.mark(marks++);
  }
  device.synchronize();
  std::vector<double> times_us;
  size_t step = blocking ? 2 : 1;
  for (size_t end = step; end < marks; end += step) times_us.push_back(device.seconds_between(end - 1, end) * 1e6);
  return times_us;
}

constexpr int kCopyRounds = 5;

// Seconds of a copy.
double time_copies(Device& device, const void* from, void* to, size_t size_bytes) {
  // A GPU's take so little that what is around them would count.
  constexpr size_t kBytes = 1 << 30;
  const int copies = device.gpu().empty() ? 1 : static_cast<int>(std::clamp<size_t>(kBytes / size_bytes, 1, 32));
  device.prepare_marks(2);
  device.mark(0);
  for (int i = 0; i < copies; ++i) device.copy(to, from, size_bytes);
  device.mark(1);
  device.synchronize();
  return device.seconds_between(0, 1) / copies;
}

}  // namespace

Timing measure(Communicator& comm, Device& device, const std::function<void()>& call, const Options& options) {
  int iterations = choose_iterations(warm_up(comm, device, call, options), options);
  std::vector<double> times_us = time_calls(comm, device, call, iterations, options.blocking);
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

double measure_copy(Communicator& comm, Device& device, const void* from, void* to, size_t size_bytes) {
  double best = 0;
  for (int round = 0; round < kCopyRounds; ++round) {
    comm.meet();
    auto start = Clock::now();
    double mine_s = time_copies(device, from, to, size_bytes);
    comm.meet();  // with fewer cores than ranks they copy one after the other
    if (device.gpu().empty()) mine_s = seconds_between(start, Clock::now());
    double mean_s = comm.agree(mine_s, TUTTI_SUM) / comm.size();
    best = std::max(best, static_cast<double>(size_bytes) / mean_s);
  }
  return best;
}

double measure_copy_alone(Communicator& comm, Device& device, size_t* size_bytes) {
  constexpr size_t kLargest = 256 << 20, kSmallest = 1 << 20;
  double best = 0;
  *size_bytes = 0;
  for (size_t bytes = kLargest; comm.rank() == 0 && best == 0 && bytes >= kSmallest; bytes /= 2) {
    auto free = [&](void* memory) { device.free(memory); };
    std::unique_ptr<void, decltype(free)> from(nullptr, free), to(nullptr, free);
    try {
      from.reset(device.allocate(bytes));
      to.reset(device.allocate(bytes));
    } catch (const std::runtime_error&) {
      continue;  // half of it may have room
    }
    *size_bytes = bytes;
    for (int round = 0; round < kCopyRounds; ++round) {
      best = std::max(best, static_cast<double>(bytes) / time_copies(device, from.get(), to.get(), bytes));
    }
  }
  *size_bytes = static_cast<size_t>(comm.agree(static_cast<double>(*size_bytes), TUTTI_MAX));
  return comm.agree(best, TUTTI_MAX);
}

}  // namespace tutti::bench
