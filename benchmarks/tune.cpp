#include "tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "collective.h"
#include "communicator.h"
#include "crossovers.h"
#include "layout.h"
#include "pattern.h"
#include "trial.h"

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr tutti_datatype_t kDatatype = TUTTI_FLOAT32;
constexpr int kWarmup = 3;
// So long an algorithm runs before its times count, or so many calls: these have found out then how payloads go best.
constexpr double kWarmupSeconds = 0.02;
constexpr int kMostWarmupCalls = 10'000;
// The kernel puts processes that start together onto one processor, and takes about so long to spread them.
constexpr double kSettleSeconds = 0.3;
// One algorithm's calls in a round take about so long, and all rounds together so long, within these bounds.
constexpr double kBatchSeconds = 0.002;
constexpr int kMostCalls = 1000;
constexpr double kRaceSeconds = 1;
constexpr int kFewestRounds = 5;
constexpr int kMostRounds = 15;
constexpr double kClose = 1.1;      // how near the default is to be to the fastest
constexpr double kForeseen = 0.25;  // and its time to the predicted one
constexpr uint64_t kLeastPredicted = 1024;

std::vector<std::string> words_of(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Options without_tuning(Options options) {
  options.tuning = "off";
  return options;
}

class Tuner {
 public:
  explicit Tuner(const TuneOptions& options)
      : options_(options), common_(without_tuning(options.common)), comm_(common_),
        send_(common_.memory, common_.max_bytes, &comm_), recv_(common_.memory, common_.max_bytes, &comm_) {}

  void run() {
    if (comm_.size() == 1) {
      throw std::runtime_error("one rank has nothing to choose; start two or more, for instance with --ranks 2");
    }
    print(fmt::format("# tutti {}.{}.{} tune, {} ranks; medians of rounds in which each algorithm takes its turn\n"
                      "#\n#{:>15} {:>10}  {:<18} {:>10} {:>10}  {:<18} {:>10} {:>6}\n#{:>15} {:>10}  {:<18} {:>10} "
                      "{:>10}  {:<18} {:>10}\n",
                      TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH, comm_.size(), "collective",
                      "size", "default", "time", "predicted", "fastest", "time", "ratio", "", "(B)", "", "(us)", "(us)",
                      "", "(us)"));
    settle();
    for (tutti_collective_t collective : options_.collectives) tune(info(collective));
    store();
    comm_.finish();
  }

 private:
  void settle() {
    auto start = Clock::now();
    while (comm_.agree(std::chrono::duration<double>(Clock::now() - start).count(), TUTTI_MAX) < kSettleSeconds) {
    }
  }

  void tune(const CollectiveInfo& collective) {
    std::optional<tutti_op_t> op;
    if (collective.reduces) op = TUTTI_SUM;
    Pattern pattern(kDatatype, op, comm_.size());
    std::vector<TunedRow> rows;
    for (uint64_t size : sizes_of(collective)) {
      uint64_t count = collective.has_data() ? count_of(collective, size, kDatatype, comm_.size()) : 0;
      if (collective.has_data() && count == 0) continue;
      Layout layout(collective, count, comm_.rank(), comm_.size(), 0);
      Trial trial(layout, pattern, comm_.rank(), send_, recv_, false);
      tutti_call_t call = {};
      call.struct_size = sizeof call;
      call.collective = collective.collective;
      if (collective.has_data()) {
        trial.describe(call);
        trial.fill(1);
      }
      if (auto row = measure(call, size)) rows.push_back(report(*row, collective));
    }
    for (auto& [unused, contender] : contenders_) contender->finish();
    contenders_.clear();
    for (Crossover& each : crossovers(rows)) found_.emplace_back(collective.collective, std::move(each));
  }

  std::vector<uint64_t> sizes_of(const CollectiveInfo& collective) const {
    if (!collective.has_data()) return {kFirstClassBytes};
    std::vector<uint64_t> sizes;
    for (uint64_t size = common_.min_bytes; size <= common_.max_bytes; size = common_.size_after(size)) {
      sizes.push_back(size);
    }
    return sizes;
  }

  // Nothing where there is no choice. What would be stored is measured a second time, among the two alone: the best of
  // many is also the luckiest.
  std::optional<TunedRow> measure(const tutti_call_t& call, uint64_t size_bytes) {
    tutti_plan_info_t plan = comm_.plan_info(call);
    std::vector<std::string> names = words_of(plan.candidates);
    if (names.size() < 2) return std::nullopt;
    TunedRow row = race(call, plan.algorithm, names);
    if (row.gains()) row = race(call, plan.algorithm, {plan.algorithm, row.fastest.algorithm});
    row.size_bytes = size_bytes;
    row.predicted_us = static_cast<double>(plan.predicted_ns) / 1e3;
    return row;
  }

  TunedRow race(const tutti_call_t& call, const std::string& by_default, const std::vector<std::string>& names) {
    std::vector<int> calls;
    double round_s = 0;
    for (const std::string& name : names) {
      double one_s = warm_up(contender(name), call);
      calls.push_back(calls_in(kBatchSeconds, one_s, kMostCalls));
      round_s += one_s * (1 + calls.back());
    }
    int rounds = static_cast<int>(std::clamp(kRaceSeconds / round_s, double{kFewestRounds}, double{kMostRounds}));
    std::map<std::string, std::vector<double>> times_us;
    for (int round = 0; round < rounds; ++round) {
      for (size_t turn = 0; turn < names.size(); ++turn) {
        size_t at = (turn + static_cast<size_t>(round)) % names.size();
        times_us[names[at]].push_back(1e6 * seconds_of(contender(names[at]), call, 1, calls[at]));
      }
    }
    TunedRow row;
    row.by_default = row.fastest = {by_default, median(times_us[by_default])};
    for (const auto& [name, values] : times_us) {
      if (double time_us = median(values); time_us < row.fastest.time_us) row.fastest = {name, time_us};
    }
    return row;
  }

  static int calls_in(double seconds, double one_s, int most) {
    return static_cast<int>(std::clamp(seconds / one_s, 1.0, static_cast<double>(most)));
  }

  // What one call takes behind all that.
  double warm_up(Communicator& contender, const tutti_call_t& call) {
    double first_s = seconds_of(contender, call, kWarmup, 1);
    double later_s = seconds_of(contender, call, 0, calls_in(kWarmupSeconds, first_s, kMostWarmupCalls));
    return seconds_of(contender, call, 0, calls_in(kBatchSeconds, later_s, kMostCalls));
  }

  // Of one call, on the slowest rank.
  double seconds_of(Communicator& contender, const tutti_call_t& call, int warmup, int calls) {
    for (int i = 0; i < warmup; ++i) contender.run(call);
    comm_.meet();
    auto start = Clock::now();
    for (int i = 0; i < calls; ++i) contender.run(call);
    double mean_s = std::chrono::duration<double>(Clock::now() - start).count() / calls;
    return comm_.agree(mean_s, TUTTI_MAX);
  }

  // The communicator that runs this algorithm; made by all ranks in the same order.
  Communicator& contender(const std::string& algorithm) {
    std::unique_ptr<Communicator>& made = contenders_[algorithm];
    if (!made) {
      Options options = common_;
      options.algorithm = algorithm;
      made = std::make_unique<Communicator>(comm_, options);
    }
    return *made;
  }

  const TunedRow& report(const TunedRow& row, const CollectiveInfo& collective) {
    rows_ += 1;
    close_ += row.ratio() <= kClose;
    gaining_ += row.gains();
    if (row.size_bytes >= kLeastPredicted) {
      predicted_ += 1;
      foreseen_ += std::abs(row.predicted_us / row.by_default.time_us - 1) <= kForeseen;
    }
    print(fmt::format(" {:>15} {:>10}  {:<18} {:>10.2f} {:>10.2f}  {:<18} {:>10.2f} {:>6.2f}\n", collective.name,
                      collective.has_data() ? fmt::format("{}", row.size_bytes) : "", row.by_default.algorithm,
                      row.by_default.time_us, row.predicted_us, row.fastest.algorithm, row.fastest.time_us,
                      row.ratio()));
    return row;
  }

  void store() {
    print(fmt::format("# The default takes at most {:.0f} % longer than the fastest in {} of {} rows.\n",
                      (kClose - 1) * 100, close_, rows_));
    print(fmt::format("# It takes what was predicted, within {:.0f} %, in {} of {} rows of 1 KiB or more.\n",
                      kForeseen * 100, foreseen_, predicted_));
    if (comm_.rank() != 0) return;
    std::vector<tutti_tuned_t> lines;
    for (const auto& [collective, each] : found_) {
      lines.push_back({collective, each.up_to_bytes, each.algorithm.empty() ? nullptr : each.algorithm.c_str()});
    }
    std::string file = comm_.store_tuning(lines, options_.output);
    print(fmt::format("# Stored in {}: in {} of {} rows another algorithm than the default gains more than {:.0f} %.\n",
                      file, gaining_, rows_, (TunedRow::kLeastGain - 1) * 100));
  }

  void print(const std::string& text) const {
    if (comm_.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const TuneOptions& options_;
  const Options common_;
  Communicator comm_;
  Buffer send_;
  Buffer recv_;
  std::map<std::string, std::unique_ptr<Communicator>> contenders_;  // of the collective that is tuned
  std::vector<std::pair<tutti_collective_t, Crossover>> found_;
  int rows_ = 0;
  int close_ = 0;    // rows in which the default is near to the fastest
  int gaining_ = 0;  // rows in which another algorithm gains
  int predicted_ = 0;
  int foreseen_ = 0; // of those, where the prediction is near
};

}  // namespace

void run_tune(const TuneOptions& options) { Tuner(options).run(); }

}  // namespace tutti::bench
