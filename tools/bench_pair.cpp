// `tutti bench latency` and `tutti bench bandwidth`.
#include <memory>

#include "bench_flags.h"
#include "benchmarks/pair.h"

namespace tutti::tool {
namespace {

constexpr const char* kLatencyFooter =
    "Ranks 0 and 1 measure, others sleep. A call is a blocking send there and one back; time is half of it.\n";
constexpr const char* kBandwidthFooter =
    "Ranks 0 and 1 measure, others sleep. A call is a window of messages that rank 0 starts at once, and a short\n"
    "answer of rank 1 when it has received all; time is that of one message.\n";
constexpr const char* kFooter =
    "algbw is size per time, busbw the same; #wrong counts elements that differ in any bit.\n";

struct PairFlags : BenchFlags {
  explicit PairFlags(bench::PairMeasure measure) {
    max_bytes = "8M";
    pair.measure = measure;
  }
  bench::PairOptions pair;
};

void run(const CLI::App& command, PairFlags& flags, const std::vector<std::string>& arguments) {
  constexpr double kBuffers = 2;  // to send from, and to receive into
  parse_sizes(command, flags);
  parse_buffers(flags);
  if (flags.ranks > 0) check_fits(kBuffers * bench::kLargestPairMessages * flags.options.max_bytes, 2);
  start_ranks(flags, arguments);
  flags.pair.common = flags.options;
  if (!bench::run_pair_benchmark(flags.pair)) exit_with(1);
}

void add(CLI::App* bench, bench::PairMeasure measure, const char* name, const char* summary, const char* footer,
         const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<PairFlags>(measure);
  CLI::App* command = bench->add_subcommand(name, summary);
  add_rank_flags(command, *flags, 2);
  add_size_flags(command, *flags);
  add_datatype_flag(command, *flags);
  if (measure == bench::PairMeasure::kBandwidth) {
    command->add_option("--window", flags->pair.window, "Messages under way at once")
        ->check(CLI::Range(1, 100'000))
        ->option_text("N=64");
  }
  add_memory_flag(command, *flags);
  add_transport_flag(command, *flags);
  add_measuring_flags(command, *flags);
  add_json_flag(command, *flags);
  command->footer(fmt::format("{}{}{}{}\nExamples:\n  tutti bench {} --ranks 2\n  mpirun -n 2 tutti bench {} -e 64K",
                              kLauncherFooter, footer, kFooter, kStatusFooter, name, name));
  command->callback([command, flags, arguments] { run(*command, *flags, arguments); });
}

}  // namespace

void add_pair_bench(CLI::App* bench, const std::vector<std::string>& arguments) {
  add(bench, bench::PairMeasure::kLatency, "latency", "How long a message takes from rank to rank", kLatencyFooter,
      arguments);
  add(bench, bench::PairMeasure::kBandwidth, "bandwidth", "Bytes and messages per second from rank to rank",
      kBandwidthFooter, arguments);
}

}  // namespace tutti::tool
