// `tutti bench --tune`.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>

#include "bench_flags.h"
#include "benchmarks/collective.h"
#include "benchmarks/tune.h"
#include "run/outer_launcher.h"

namespace tutti::tool {
namespace {

constexpr const char* kFooter =
    "Each row is one size: what the planner chooses, and the fastest of all algorithms that can run. Times are those\n"
    "of the slowest rank; the algorithms take turns, so that what disturbs hits all. Where another algorithm gains\n"
    "more than 5 %, calls of as many ranks on as many such hosts run it from now on (TUTTI_TUNING=off: they do not).\n"
    "The file is on rank 0's host: where others do not share its home, copy it there.\n"
    "\n"
    "Examples:\n"
    "  tutti bench --tune --ranks 4\n"
    "  tutti bench --tune --ranks 2 --transport tcp --collective all_reduce,broadcast -e 1M\n"
    "  mpirun -n 8 tutti bench tune --output cluster.json   # mpirun has a --tune of its own";

struct TuneFlags : BenchFlags {
  TuneFlags() {
    min_bytes = "64";
    max_bytes = "64M";
  }
  std::vector<std::string> collectives;
  std::string output;
};

// Those whose plans also serve the forms with counts.
std::vector<std::string> tunable() {
  std::vector<std::string> names;
  for (const bench::CollectiveInfo& each : bench::collectives()) {
    if (!each.has_counts) names.emplace_back(each.name);
  }
  return names;
}

tutti_collective_t collective_named(const std::string& name) {
  std::vector<std::string> names = tunable();
  if (std::find(names.begin(), names.end(), name) != names.end()) return bench::collective_named(name)->collective;
  fail(kUsageError, "--collective {}: there are {}", name, fmt::join(names, ", "));
}

// What every program would then be measured with, and only those that have it set too would run as fast.
void check_environment() {
  struct Usual {
    std::string_view name, value;
  };
  constexpr Usual kUsual[] = {{"TUTTI_ALGORITHM", "automatic"}, {"TUTTI_DETERMINISTIC", "0"}, {"TUTTI_CHANNELS", "0"},
                              {"TUTTI_SLICE_BYTES", "0"}, {"TUTTI_PLAN_FILE", ""}};
  for (const Usual& usual : kUsual) {
    for (const std::string& variable : own_environment()) {
      if (!variable.starts_with(fmt::format("{}=", usual.name))) continue;
      std::string value = variable.substr(usual.name.size() + 1);
      bool is_usual = value.empty() || value == usual.value;
      if (!is_usual) fail(kUsageError, "{} would be part of what is measured; unset it, and tune again", variable);
    }
  }
}

// Now, and not after all has been measured. A file is replaced: what counts is its folder, or the first one above it
// that is there.
void check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) fail(kUsageError, "--output {}: it is a folder; name a file", path);
  fs::path at = fs::weakly_canonical(fs::absolute(path, unknown), unknown);  // a link's file is replaced, not the link
  bool is_device = fs::exists(at, unknown) && !fs::is_regular_file(at, unknown);
  if (!is_device) at = at.parent_path();
  while (!fs::exists(at, unknown) && at.has_relative_path()) at = at.parent_path();
  bool fits = (is_device || fs::is_directory(at, unknown)) && ::access(at.c_str(), W_OK) == 0;
  if (fits) return;
  fail(kUsageError, "--output {}: cannot write to {}; name a file where this user may write", path, at.string());
}

void run(const CLI::App& command, TuneFlags& flags, const std::vector<std::string>& arguments) {
  constexpr double kBuffers = 2;  // to send from, and to receive into
  parse_sizes(command, flags);
  parse_buffers(flags);
  bench::TuneOptions tune;
  for (const std::string& name : flags.collectives.empty() ? tunable() : flags.collectives) {
    tune.collectives.push_back(collective_named(name));
  }
  tune.output = flags.output;
  check_environment();
  bool starts_ranks = flags.ranks > 0 && !flags.as_rank;  // on this host
  if (starts_ranks && !flags.output.empty()) check_writable(flags.output);
  tune.common = flags.options;
  if (!flags.as_rank) check_fits(kBuffers * static_cast<double>(flags.options.max_bytes), flags.ranks);
  start_ranks(flags, arguments);
  bench::run_tune(tune);
}

}  // namespace

void add_tune_bench(CLI::App* bench, const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<TuneFlags>();
  CLI::App* command = bench->add_subcommand("tune", "Find and store which algorithm is the fastest at which size");
  command->alias("--tune");
  add_rank_flags(command, *flags, 2);
  add_size_flags(command, *flags);
  command->add_option("--collective", flags->collectives, fmt::format("Of {}", fmt::join(tunable(), ", ")))
      ->delimiter(',')
      ->option_text("LIST=all");
  command->add_option("--output", flags->output, "Store in this file, which TUTTI_TUNING may then name")
      ->option_text("FILE");
  add_memory_flag(command, *flags);
  add_transport_flag(command, *flags);
  command->footer(fmt::format("{}{}", kLauncherFooter, kFooter));
  command->callback([command, flags, arguments] { run(*command, *flags, arguments); });
}

}  // namespace tutti::tool
