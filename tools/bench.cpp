// `tutti bench`: flags as in nccl-tests; the work is in benchmarks/.
#include <charconv>
#include <memory>
#include <optional>

#include "bench_flags.h"
#include "benchmarks/benchmark.h"
#include "benchmarks/collective.h"
#include "benchmarks/element.h"

namespace tutti::tool {
namespace {

constexpr const char* kTimeFooter = "Time is the mean over the timed calls, joined over the ranks (-a).\n";
// Of collectives with data.
constexpr const char* kDataFooter =
    "A row's size is that of {}; algbw is size per time, busbw = algbw * {}.\n"
    "Every rank knows by itself what it must get; #wrong counts elements that differ in any bit.\n";
constexpr const char* kExamples =
    "\n"
    "Examples:\n"
    "  tutti bench {0} --ranks 4\n"
    "  tutti bench {0} --ranks 8 --transport tcp{1}\n"
    "  mpirun -n 4 tutti bench {0}";

struct CollectiveFlags : BenchFlags {
  explicit CollectiveFlags(const bench::CollectiveInfo& collective) { options.collective = collective.collective; }

  std::string op = "sum";
  std::string root = "0";
  std::string placement = "both";
  int average = 1;
  int blocking = 0;
};

std::vector<tutti_op_t> parse_ops(const std::string& text) {
  if (auto one = bench::op_named(text)) return {*one};
  if (text != "all") fail(kUsageError, "-o {}: expected {}", text, choices(bench::ops()));
  std::vector<tutti_op_t> all;
  for (const bench::OpInfo& op : bench::ops()) all.push_back(op.op);
  return all;
}

// Of "all" those are left out that do not go together.
void check_takes(const bench::Options& options) {
  for (tutti_datatype_t datatype : options.datatypes) {
    for (tutti_op_t op : options.ops) {
      if (bench::info(op).takes(bench::info(datatype))) return;
    }
  }
  fail(kUsageError, "-o {} is an operation of integers, and {} is none; name another with -d",
       bench::info(options.ops.front()).name, bench::info(options.datatypes.front()).name);
}

std::optional<int> parse_root(const std::string& text) {
  if (text == "all") return std::nullopt;
  int root = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), root);
  bool is_number = failure == std::errc() && end == text.data() + text.size();
  if (!is_number || root < 0) fail(kUsageError, "-r {}: expected a rank, such as 0, or all", text);
  return root;
}

void parse(const CLI::App& command, CollectiveFlags& flags) {
  bench::Options& options = flags.options;
  if (bench::info(options.collective).has_data()) {
    parse_sizes(command, flags);
  } else {
    options.min_bytes = options.max_bytes = 0;
  }
  parse_buffers(flags);
  options.ops = parse_ops(flags.op);
  options.root = parse_root(flags.root);
  check_takes(options);
  options.in_place = flags.placement != "out";
  options.out_of_place = flags.placement != "in";
  options.average = static_cast<bench::Average>(flags.average);
  options.blocking = flags.blocking != 0;
}

void run(const CLI::App& command, CollectiveFlags& flags, const std::vector<std::string>& arguments) {
  constexpr double kBuffers = 2;  // to send from, and to receive into
  parse(command, flags);
  if (!flags.as_rank) check_fits(kBuffers * static_cast<double>(flags.options.max_bytes), flags.ranks);
  start_ranks(flags, arguments);
  if (flags.as_threads) flags.options.threads = flags.ranks;
  if (!bench::run_benchmark(flags.options)) exit_with(1);
}

void add_data_flags(CLI::App* command, CollectiveFlags& flags) {
  const bench::CollectiveInfo& collective = bench::info(flags.options.collective);
  if (collective.reduces) {
    command->add_option("-o,--op", flags.op, choices(bench::ops()))->option_text("OP=sum");
  }
  if (collective.has_root()) {
    command->add_option("-r,--root", flags.root, "The root, or all: each rank in turn")->option_text("RANK=0");
  }
  add_datatype_flag(command, flags);
  command->add_option("--placement", flags.placement, "Result out of place, in place, or both: out, in, both")
      ->check(CLI::IsMember({"out", "in", "both"}))
      ->option_text("WHERE=both");
  add_memory_flag(command, flags);
}

void add_library_flags(CLI::App* command, CollectiveFlags& flags) {
  add_device_flag(command, flags);
  add_transport_flag(command, flags);
  command
      ->add_option("--algorithm", flags.options.algorithm,
                   fmt::format("Run this algorithm, not the planner's choice (`tutti plan {} --explain` names all)",
                               bench::info(flags.options.collective).name))
      ->option_text("NAME");
  command->add_flag("--deterministic", flags.options.deterministic,
                    "With TUTTI_DETERMINISTIC=1 (`tutti options`), whose cost is then seen");
}

// Of calls that all ranks make.
void add_timing_flags(CLI::App* command, CollectiveFlags& flags) {
  command->add_option("-z,--blocking", flags.blocking, "1: all ranks meet before every timed call (outside the time)")
      ->check(CLI::Range(0, 1))
      ->option_text("0|1=0");
  command->add_option("-a,--average", flags.average, "Time over the ranks: 0 rank 0's, 1 mean, 2 min, 3 max")
      ->check(CLI::Range(0, 3))
      ->option_text("HOW=1");
}

std::string footer_of(const bench::CollectiveInfo& collective) {
  std::string text = fmt::format("{}{}{}", kLauncherFooter, kTimeFooter, kStatusFooter);
  if (collective.has_data()) {
    std::string_view size = collective.in_blocks() ? "all ranks' blocks together" : "the vector";
    text += fmt::format(kDataFooter, size, collective.bus_factor.text);
  }
  return text + fmt::format(kExamples, collective.name, collective.has_data() ? " -b 1K -e 16M -f 2 -d double" : "");
}

void add_collective(CLI::App* bench, const bench::CollectiveInfo& collective,
                    const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<CollectiveFlags>(collective);
  CLI::App* command = bench->add_subcommand(std::string(collective.name), std::string(collective.summary));
  add_rank_flags(command, *flags, 1);
  add_threads_flag(command, *flags);
  if (collective.has_data()) {
    add_size_flags(command, *flags);
    add_data_flags(command, *flags);
  }
  add_library_flags(command, *flags);
  add_measuring_flags(command, *flags);
  add_timing_flags(command, *flags);
  add_json_flag(command, *flags);
  command->footer(footer_of(collective));
  command->callback([command, flags, arguments] { run(*command, *flags, arguments); });
}

}  // namespace

void add_bench(CLI::App& app, std::vector<std::string> arguments) {
  CLI::App* bench = app.add_subcommand("bench", "Measure and check a collective, or sends and receives, or tune");
  bench->require_subcommand(1);
  bench->footer("Example:\n  tutti bench all_reduce --ranks 4   (`tutti bench all_reduce --help` has more)");
  // Their many options take a third of the time that another command needs in all.
  if (arguments.empty() || arguments.front() != "bench") return;
  for (const bench::CollectiveInfo& collective : bench::collectives()) add_collective(bench, collective, arguments);
  add_pair_bench(bench, arguments);
  add_group_bench(bench, arguments);
  add_tune_bench(bench, arguments);
}

}  // namespace tutti::tool
