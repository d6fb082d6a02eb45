#include "bench_flags.h"

#include <limits.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <regex>
#include <sstream>

#include "benchmarks/element.h"
#include "run/job.h"

namespace tutti::tool {
namespace {

std::vector<tutti_datatype_t> parse_datatypes(const std::string& text) {
  if (auto one = bench::datatype_named(text)) return {*one};
  if (text != "all") fail(kUsageError, "-d {}: expected {}", text, choices(bench::datatypes()));
  std::vector<tutti_datatype_t> all;
  for (const bench::DatatypeInfo& type : bench::datatypes()) all.push_back(type.datatype);
  return all;
}

std::vector<std::string> parse_devices(const std::string& text) {
  static const std::regex is_device("cpu|cuda(:[0-9]{1,4})?");
  std::vector<std::string> devices;
  std::istringstream words(text + ",");
  for (std::string device; std::getline(words, device, ',');) {
    devices.push_back(device);
    if (std::regex_match(device, is_device)) continue;
    fail(kUsageError,
         "--device {}: expected cpu, cuda, or cuda:0, or several of them for the ranks in turn: cuda:0,cpu", text);
  }
  return devices;
}

std::string own_path() {
  char path[PATH_MAX];
  ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0 || size == ssize_t{sizeof path}) {
    fail(1, "cannot read /proc/self/exe; use `tutti run -n N tutti bench ...` instead");
  }
  return std::string(path, static_cast<size_t>(size));
}

}  // namespace

void add_rank_flags(CLI::App* command, BenchFlags& flags, int least) {
  command->add_option("--ranks", flags.ranks, "Start this many local ranks")
      ->check(CLI::Range(least, kMaxLocalRanks))
      ->option_text("N");
  command->add_flag("--as-rank", flags.as_rank)->group("");  // hidden
}

void add_threads_flag(CLI::App* command, BenchFlags& flags) {
  command->add_flag("--threads", flags.as_threads, "The ranks of --ranks are threads of one process")
      ->needs("--ranks");
}

void add_size_flags(CLI::App* command, BenchFlags& flags) {
  command->add_option("-b,--minbytes", flags.min_bytes, "Smallest size")->option_text("SIZE=" + flags.min_bytes);
  command->add_option("-e,--maxbytes", flags.max_bytes, "Largest size")->option_text("SIZE=" + flags.max_bytes);
  command->add_option("-f,--stepfactor", flags.options.step_factor, "Multiply the size by this from row to row")
      ->check(CLI::Range(1.0, 1e6))
      ->option_text("FACTOR=4");
  command->add_option("-i,--stepbytes", flags.step_bytes, "Add this from row to row, instead of -f")
      ->option_text("SIZE");
}

void add_datatype_flag(CLI::App* command, BenchFlags& flags) {
  command->add_option("-d,--datatype", flags.datatype, choices(bench::datatypes()))->option_text("TYPE=float");
}

void add_memory_flag(CLI::App* command, BenchFlags& flags) {
  command
      ->add_option("--memory", flags.memory,
                   "Buffers from malloc, from tutti_mem_alloc, or registered: malloc, tutti, registered")
      ->check(CLI::IsMember({"malloc", "tutti", "registered"}))
      ->option_text("KIND=malloc");
}

void add_device_flag(CLI::App* command, BenchFlags& flags) {
  command
      ->add_option("--device", flags.device,
                   "Where buffers are: cpu, cuda (each rank its own GPU of the host, as far as there are), cuda:0 "
                   "(that one); several for the ranks in turn: cuda:0,cpu")
      ->option_text("DEVICE=cpu");
}

void add_transport_flag(CLI::App* command, BenchFlags& flags) {
  command->add_option("--transport", flags.options.transport, "Use only this transport: shm, tcp, verbs")
      ->check(CLI::IsMember({"shm", "tcp", "verbs"}))
      ->option_text("NAME");
}

void add_measuring_flags(CLI::App* command, BenchFlags& flags) {
  command->add_option("-n,--iters", flags.options.iterations, "Timed calls; 0: 20 to 2000, as many as fit into 0.1 s")
      ->check(CLI::Range(0, 1'000'000))
      ->option_text("N=0");
  command->add_option("-w,--warmup_iters", flags.options.warmup, "Calls before the timed ones")
      ->check(CLI::Range(0, 1'000'000))
      ->option_text("N=5");
  command->add_option("-c,--check", flags.options.checks, "Calls whose results are verified; 0: none")
      ->check(CLI::Range(0, 1'000'000))
      ->option_text("N=1");
  command->add_option("--seconds", flags.options.seconds, "Most time for the timed calls of one size (and placement)")
      ->check(CLI::Range(0.001, 1e6))
      ->option_text("SECONDS=1");
}

void add_json_flag(CLI::App* command, BenchFlags& flags) {
  command
      ->add_option("--json", flags.options.json_file, "Write the results, with min, median and max, to this file too")
      ->option_text("FILE");
}

void parse_sizes(const CLI::App& command, BenchFlags& flags) {
  bench::Options& options = flags.options;
  options.min_bytes = parse_size("-b", flags.min_bytes);
  options.max_bytes = parse_size("-e", flags.max_bytes);
  if (options.min_bytes > options.max_bytes) {
    fail(kUsageError, "-b {} is more than -e {}", flags.min_bytes, flags.max_bytes);
  }
  if (!flags.step_bytes.empty()) {
    options.step_bytes = parse_size("-i", flags.step_bytes);
    if (command.count("--stepfactor") > 0 && options.step_factor > 1) {
      fail(kUsageError, "-f {:g} and -i {}: sizes grow by a factor or by bytes; leave one of them out",
           options.step_factor, flags.step_bytes);
    }
    options.step_factor = 1;
  }
  if (options.step_factor <= 1 && options.step_bytes == 0) {
    fail(kUsageError, "sizes would not grow; give a factor (-f) of more than 1 or a step in bytes (-i) of more than 0");
  }
}

void parse_buffers(BenchFlags& flags) {
  flags.options.datatypes = parse_datatypes(flags.datatype);
  flags.options.devices = parse_devices(flags.device);
  if (flags.device != "cpu" && flags.memory != "malloc") {
    fail(kUsageError, "--memory {} is memory of the host, and --device {} is not; leave one of them out", flags.memory,
         flags.device);
  }
  flags.options.memory = flags.memory == "tutti"        ? bench::MemoryKind::kTutti
                         : flags.memory == "registered" ? bench::MemoryKind::kRegistered
                                                        : bench::MemoryKind::kMalloc;
}

// All ranks are on this host. Memory that is only reserved costs nothing until it is touched, and then the kernel ends
// whoever touches too much.
void check_fits(double bytes_per_rank, int ranks) {
  constexpr double kGiB = 1 << 30;
  struct sysinfo host {};
  if (::sysinfo(&host) != 0) return;
  double there = (static_cast<double>(host.totalram) + static_cast<double>(host.totalswap)) * host.mem_unit;
  double needed = bytes_per_rank * ranks;
  if (needed <= there) return;
  fail(1, "the buffers of {} ranks take {:.1f} GiB, but this host has {:.1f} GiB; use a smaller -e or fewer ranks",
       ranks, needed / kGiB, there / kGiB);
}

void start_ranks(const BenchFlags& flags, const std::vector<std::string>& arguments) {
  if (flags.as_rank) return;
  calibrate_if_missing("tutti bench");
  if (flags.ranks == 0 || flags.as_threads) return;
  Job job;
  job.ranks = flags.ranks;
  job.command = {own_path()};
  job.command.insert(job.command.end(), arguments.begin(), arguments.end());
  job.command.push_back("--as-rank");
  job.tag_lines = false;
  job.ranks_explain = true;
  job.name = "tutti bench";
  job.host_facts = host_facts();
  exit_with(run_job(job));
}

}  // namespace tutti::tool
