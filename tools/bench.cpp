// `tutti bench`: flags as in nccl-tests; the work is in benchmarks/.
#include <fmt/ranges.h>
#include <limits.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <optional>

#include "benchmarks/benchmark.h"
#include "benchmarks/collective.h"
#include "benchmarks/element.h"
#include "benchmarks/group.h"
#include "run/job.h"
#include "tool.h"

namespace tutti::tool {
namespace {

// Of every collective; then those of one with data, and examples.
constexpr const char* kFooter =
    "Without --ranks it uses the ranks of the launcher that started it (tutti run, mpirun, mpiexec, srun, torchrun).\n"
    "Time is the mean over the timed calls, joined over the ranks (-a).\n"
    "The exit status is 0 only when all results are right.\n"
    "A host's costs, by which tutti chooses, are measured before its first job (about half a second;\n"
    "TUTTI_CALIBRATION=off: not at all).\n";
constexpr const char* kDataFooter =
    "A row's size is that of {}; algbw is size per time, busbw = algbw * {}.\n"
    "Every rank knows by itself what it must get; #wrong counts elements that differ in any bit.\n";
constexpr const char* kExamples =
    "\n"
    "Examples:\n"
    "  tutti bench {0} --ranks 4\n"
    "  tutti bench {0} --ranks 8 --transport tcp{1}\n"
    "  mpirun -n 4 tutti bench {0}";

struct BenchFlags {
  explicit BenchFlags(const bench::CollectiveInfo& collective) { options.collective = collective.collective; }

  bench::Options options;
  int ranks = 0;
  bool as_rank = false;
  std::string min_bytes = "8";
  std::string max_bytes = "128M";
  std::string step_bytes;
  std::string datatype = "float";
  std::string op = "sum";
  std::string root = "0";
  std::string memory = "malloc";
  std::string placement = "both";
  int check = 1;
  int average = 1;
  int blocking = 0;
};

// "sum, prod, ... or all"
template <typename Rows>
std::string choices(const Rows& rows) {
  return fmt::format("{} or all", fmt::join(names_of(rows), ", "));
}

std::vector<tutti_datatype_t> parse_datatypes(const std::string& text) {
  if (auto one = bench::datatype_named(text)) return {*one};
  if (text != "all") fail(kUsageError, "-d {}: expected {}", text, choices(bench::datatypes()));
  std::vector<tutti_datatype_t> all;
  for (const bench::DatatypeInfo& type : bench::datatypes()) all.push_back(type.datatype);
  return all;
}

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

void parse_sizes(const BenchFlags& flags, bool factor_given, bench::Options& options) {
  options.min_bytes = parse_size("-b", flags.min_bytes);
  options.max_bytes = parse_size("-e", flags.max_bytes);
  if (options.min_bytes > options.max_bytes) {
    fail(kUsageError, "-b {} is more than -e {}", flags.min_bytes, flags.max_bytes);
  }
  if (!flags.step_bytes.empty()) {
    options.step_bytes = parse_size("-i", flags.step_bytes);
    if (factor_given && options.step_factor > 1) {
      fail(kUsageError, "-f {:g} and -i {}: sizes grow by a factor or by bytes; leave one of them out",
           options.step_factor, flags.step_bytes);
    }
    options.step_factor = 1;
  }
  if (options.step_factor <= 1 && options.step_bytes == 0) {
    fail(kUsageError, "sizes would not grow; give a factor (-f) of more than 1 or a step in bytes (-i) of more than 0");
  }
}

bench::Options parse(const BenchFlags& flags, bool factor_given) {
  bench::Options options = flags.options;
  if (bench::info(options.collective).has_data()) {
    parse_sizes(flags, factor_given, options);
  } else {
    options.min_bytes = options.max_bytes = 0;
  }
  options.datatypes = parse_datatypes(flags.datatype);
  options.ops = parse_ops(flags.op);
  options.root = parse_root(flags.root);
  check_takes(options);
  options.memory = flags.memory == "tutti" ? bench::MemoryKind::kTutti : bench::MemoryKind::kMalloc;
  options.in_place = flags.placement != "out";
  options.out_of_place = flags.placement != "in";
  options.checks = flags.check;
  options.average = static_cast<bench::Average>(flags.average);
  options.blocking = flags.blocking != 0;
  return options;
}

std::string own_path() {
  char path[PATH_MAX];
  ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0 || size == ssize_t{sizeof path}) {
    fail(1, "cannot read /proc/self/exe; use `tutti run -n N tutti bench ...` instead");
  }
  return std::string(path, static_cast<size_t>(size));
}

// All ranks are on this host. Memory that is only reserved costs nothing until it is touched, and then the kernel ends
// whoever touches too much.
void check_fits(const bench::Options& options, int ranks) {
  constexpr double kBuffers = 2;  // to send from, and to receive into
  constexpr double kGiB = 1 << 30;
  struct sysinfo host {};
  if (::sysinfo(&host) != 0) return;
  double there = (static_cast<double>(host.totalram) + static_cast<double>(host.totalswap)) * host.mem_unit;
  double needed = kBuffers * ranks * static_cast<double>(options.max_bytes);
  if (needed <= there) return;
  fail(1, "the buffers of {} ranks take {:.1f} GiB, but this host has {:.1f} GiB; use a smaller -e or fewer ranks",
       ranks, needed / kGiB, there / kGiB);
}

// Runs this same command line on so many local ranks, and ends.
[[noreturn]] void run_on(int ranks, const std::vector<std::string>& arguments) {
  Job job;
  job.ranks = ranks;
  job.command = {own_path()};
  job.command.insert(job.command.end(), arguments.begin(), arguments.end());
  job.command.push_back("--as-rank");
  job.tag_lines = false;
  job.ranks_explain = true;
  job.name = "tutti bench";
  exit_with(run_job(job));
}

void run(const BenchFlags& flags, bool factor_given, const std::vector<std::string>& arguments) {
  bench::Options options = parse(flags, factor_given);
  if (!flags.as_rank) calibrate_if_missing("tutti bench");
  if (flags.ranks > 0 && !flags.as_rank) {
    check_fits(options, flags.ranks);
    run_on(flags.ranks, arguments);
  }
  if (!bench::run_benchmark(options)) exit_with(1);
}

void add_size_flags(CLI::App* command, BenchFlags& flags) {
  command->add_option("-b,--minbytes", flags.min_bytes, "Smallest size")->option_text("SIZE=8");
  command->add_option("-e,--maxbytes", flags.max_bytes, "Largest size")->option_text("SIZE=128M");
  command->add_option("-f,--stepfactor", flags.options.step_factor, "Multiply the size by this from row to row")
      ->check(CLI::Range(1.0, 1e6))
      ->option_text("FACTOR=4");
  command->add_option("-i,--stepbytes", flags.step_bytes, "Add this from row to row, instead of -f")
      ->option_text("SIZE");
}

void add_data_flags(CLI::App* command, BenchFlags& flags) {
  const bench::CollectiveInfo& collective = bench::info(flags.options.collective);
  if (collective.reduces) {
    command->add_option("-o,--op", flags.op, choices(bench::ops()))->option_text("OP=sum");
  }
  if (collective.has_root()) {
    command->add_option("-r,--root", flags.root, "The root, or all: each rank in turn")->option_text("RANK=0");
  }
  command->add_option("-d,--datatype", flags.datatype, choices(bench::datatypes()))->option_text("TYPE=float");
  command->add_option("--placement", flags.placement, "Result out of place, in place, or both: out, in, both")
      ->check(CLI::IsMember({"out", "in", "both"}))
      ->option_text("WHERE=both");
  command->add_option("--memory", flags.memory, "Buffers from malloc, or from tutti_mem_alloc: malloc, tutti")
      ->check(CLI::IsMember({"malloc", "tutti"}))
      ->option_text("KIND=malloc");
}

void add_library_flags(CLI::App* command, BenchFlags& flags) {
  command->add_option("--transport", flags.options.transport, "Use only this transport: shm, tcp")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->option_text("NAME");
  command
      ->add_option("--algorithm", flags.options.algorithm,
                   fmt::format("Run this algorithm, not the planner's choice (`tutti plan {} --explain` names all)",
                               bench::info(flags.options.collective).name))
      ->option_text("NAME");
  command->add_flag("--deterministic", flags.options.deterministic,
                    "With TUTTI_DETERMINISTIC=1 (`tutti options`), whose cost is then seen");
}

void add_measuring_flags(CLI::App* command, BenchFlags& flags) {
  command->add_option("-n,--iters", flags.options.iterations, "Timed calls; 0: 20 to 2000, as many as fit into 0.1 s")
      ->check(CLI::Range(0, 1'000'000))
      ->option_text("N=0");
  command->add_option("-w,--warmup_iters", flags.options.warmup, "Calls before the timed ones")
      ->check(CLI::Range(0, 1'000'000))
      ->option_text("N=5");
  command->add_option("-c,--check", flags.check, "Calls whose results are verified; 0: none")
      ->check(CLI::Range(0, 1'000'000))
      ->option_text("N=1");
  command->add_option("-z,--blocking", flags.blocking, "1: all ranks meet before every timed call (outside the time)")
      ->check(CLI::Range(0, 1))
      ->option_text("0|1=0");
  command->add_option("-a,--average", flags.average, "Time over the ranks: 0 rank 0's, 1 mean, 2 min, 3 max")
      ->check(CLI::Range(0, 3))
      ->option_text("HOW=1");
  command->add_option("--seconds", flags.options.seconds, "Most time for the timed calls of one size and placement")
      ->check(CLI::Range(0.001, 1e6))
      ->option_text("SECONDS=1");
  command
      ->add_option("--json", flags.options.json_file, "Write the results, with min, median and max, to this file too")
      ->option_text("FILE");
}

std::string footer_of(const bench::CollectiveInfo& collective) {
  std::string text = kFooter;
  if (collective.has_data()) {
    std::string_view size = collective.in_blocks() ? "all ranks' blocks together" : "the vector";
    text += fmt::format(kDataFooter, size, collective.bus_factor.text);
  }
  return text + fmt::format(kExamples, collective.name, collective.has_data() ? " -b 1K -e 16M -f 2 -d double" : "");
}

void add_collective(CLI::App* bench, const bench::CollectiveInfo& collective,
                    const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<BenchFlags>(collective);
  CLI::App* command = bench->add_subcommand(std::string(collective.name), std::string(collective.summary));
  command->add_option("--ranks", flags->ranks, "Start this many local ranks")
      ->check(CLI::Range(1, kMaxLocalRanks))
      ->option_text("N");
  command->add_flag("--as-rank", flags->as_rank)->group("");  // hidden: this process is one of the ranks of --ranks
  if (collective.has_data()) {
    add_size_flags(command, *flags);
    add_data_flags(command, *flags);
  }
  add_library_flags(command, *flags);
  add_measuring_flags(command, *flags);
  command->footer(footer_of(collective));
  command->callback([command, flags, arguments] {
    auto* factor = command->get_option_no_throw("--stepfactor");
    run(*flags, factor != nullptr && factor->count() > 0, arguments);
  });
}

struct GroupFlags {
  bench::GroupOptions options;
  int ranks = 0;
  bool as_rank = false;
  std::string min_bytes = "256";
  std::string max_bytes = "64K";
};

void run_group(GroupFlags& flags, const std::vector<std::string>& arguments) {
  flags.options.min_bytes = parse_size("-b", flags.min_bytes);
  flags.options.max_bytes = parse_size("-e", flags.max_bytes);
  bool in_order = flags.options.min_bytes >= sizeof(float) && flags.options.min_bytes <= flags.options.max_bytes;
  if (!in_order) fail(kUsageError, "tensors have 4 bytes at least, and -b is no more than -e");
  if (!flags.as_rank) calibrate_if_missing("tutti bench");
  if (flags.ranks > 0 && !flags.as_rank) run_on(flags.ranks, arguments);
  if (!bench::run_group_benchmark(flags.options)) exit_with(1);
}

void add_group(CLI::App* bench, const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<GroupFlags>();
  CLI::App* command = bench->add_subcommand("group", "Small tensors all-reduced in a group, beside one by one");
  command->add_option("--ranks", flags->ranks, "Start this many local ranks")
      ->check(CLI::Range(1, kMaxLocalRanks))
      ->option_text("N");
  command->add_flag("--as-rank", flags->as_rank)->group("");
  command->add_option("--tensors", flags->options.tensors, "How many")
      ->check(CLI::Range(1, 100'000))
      ->option_text("N=200");
  command->add_option("-b,--minbytes", flags->min_bytes, "Of the smallest")->option_text("SIZE=256");
  command->add_option("-e,--maxbytes", flags->max_bytes, "Of the largest")->option_text("SIZE=64K");
  command->add_option("--rounds", flags->options.rounds, "Times of which the medians are taken, both ways in turns")
      ->check(CLI::Range(1, 100'000))
      ->option_text("N=30");
  command->add_option("--transport", flags->options.common.transport, "Use only this transport: shm, tcp")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->option_text("NAME");
  command->footer("The exit status is 0 only when all sums are right.\n\nExample:\n  tutti bench group --ranks 2");
  command->callback([flags, arguments] { run_group(*flags, arguments); });
}

}  // namespace

void add_bench(CLI::App& app, std::vector<std::string> arguments) {
  CLI::App* bench = app.add_subcommand("bench", "Measure and check a collective");
  bench->require_subcommand(1);
  bench->footer("Example:\n  tutti bench all_reduce --ranks 4   (`tutti bench all_reduce --help` has more)");
  for (const bench::CollectiveInfo& collective : bench::collectives()) add_collective(bench, collective, arguments);
  add_group(bench, arguments);
}

}  // namespace tutti::tool
