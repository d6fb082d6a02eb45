// What the command lines of several benchmarks have in common.
#pragma once

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "benchmarks/options.h"
#include "tool.h"

namespace tutti::tool {

// As they were given; parse_sizes() and parse_buffers() fill `options` with what is not a plain value.
struct BenchFlags {
  bench::Options options;
  int ranks = 0;
  bool as_threads = false;  // of this process
  bool as_rank = false;     // this process is one of the ranks of --ranks
  std::string min_bytes = "8";
  std::string max_bytes = "128M";
  std::string step_bytes;
  std::string datatype = "float";
  std::string memory = "malloc";
  std::string device = "cpu";
};

// "sum, prod, ... or all"
template <typename Rows>
std::string choices(const Rows& rows) {
  return fmt::format("{} or all", fmt::join(names_of(rows), ", "));
}

// --ranks, of which there are `least` at least.
void add_rank_flags(CLI::App* command, BenchFlags& flags, int least);
// --threads, of a benchmark whose ranks may be that.
void add_threads_flag(CLI::App* command, BenchFlags& flags);
// -b, -e, -f, -i
void add_size_flags(CLI::App* command, BenchFlags& flags);
void add_datatype_flag(CLI::App* command, BenchFlags& flags);
void add_memory_flag(CLI::App* command, BenchFlags& flags);
void add_device_flag(CLI::App* command, BenchFlags& flags);
void add_transport_flag(CLI::App* command, BenchFlags& flags);
// -n, -w, -c, --seconds
void add_measuring_flags(CLI::App* command, BenchFlags& flags);
void add_json_flag(CLI::App* command, BenchFlags& flags);

void parse_sizes(const CLI::App& command, BenchFlags& flags);
// -d, --memory and --device
void parse_buffers(BenchFlags& flags);

// Fails when the buffers of local ranks, `bytes_per_rank` each, do not fit into this host.
void check_fits(double bytes_per_rank, int ranks);

// With --ranks: runs this same command line, which is `arguments`, on so many local ranks, and ends. Else returns: this
// process is a rank, or its threads are. Measures the host's costs before, unless it was started by --ranks.
void start_ranks(const BenchFlags& flags, const std::vector<std::string>& arguments);

// What every benchmark's --help says at its end.
inline constexpr const char* kLauncherFooter =
    "Without --ranks it uses the ranks of the launcher that started it (tutti run, mpirun, mpiexec, srun, torchrun).\n";
inline constexpr const char* kStatusFooter =
    "The exit status is 0 only when all results are right.\n"
    "A host's costs, by which tutti chooses, are measured before its first job (about a second;\n"
    "TUTTI_CALIBRATION=off: not at all).\n";

// Subcommands of `tutti bench`.
void add_group_bench(CLI::App* bench, const std::vector<std::string>& arguments);
void add_pair_bench(CLI::App* bench, const std::vector<std::string>& arguments);
void add_tune_bench(CLI::App* bench, const std::vector<std::string>& arguments);

}  // namespace tutti::tool
