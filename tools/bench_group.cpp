// `tutti bench group`.
#include <memory>

#include "bench_flags.h"
#include "benchmarks/group.h"

namespace tutti::tool {
namespace {

struct GroupFlags : BenchFlags {
  GroupFlags() {
    min_bytes = "256";
    max_bytes = "64K";
  }
  bench::GroupOptions group;
};

void run(GroupFlags& flags, const std::vector<std::string>& arguments) {
  bench::GroupOptions& group = flags.group;
  group.min_bytes = parse_size("-b", flags.min_bytes);
  group.max_bytes = parse_size("-e", flags.max_bytes);
  bool in_order = group.min_bytes >= sizeof(float) && group.min_bytes <= group.max_bytes;
  if (!in_order) fail(kUsageError, "tensors have 4 bytes at least, and -b is no more than -e");
  start_ranks(flags, arguments);
  group.common = flags.options;
  if (!bench::run_group_benchmark(group)) exit_with(1);
}

}  // namespace

void add_group_bench(CLI::App* bench, const std::vector<std::string>& arguments) {
  auto flags = std::make_shared<GroupFlags>();
  CLI::App* command = bench->add_subcommand("group", "Small tensors all-reduced in a group, beside one by one");
  add_rank_flags(command, *flags, 1);
  command->add_option("--tensors", flags->group.tensors, "How many")
      ->check(CLI::Range(1, 100'000))
      ->option_text("N=200");
  command->add_option("-b,--minbytes", flags->min_bytes, "Of the smallest")->option_text("SIZE=256");
  command->add_option("-e,--maxbytes", flags->max_bytes, "Of the largest")->option_text("SIZE=64K");
  command->add_option("--rounds", flags->group.rounds, "Times of which the medians are taken, both ways in turns")
      ->check(CLI::Range(1, 100'000))
      ->option_text("N=30");
  add_transport_flag(command, *flags);
  command->footer("The exit status is 0 only when all sums are right.\n\nExample:\n  tutti bench group --ranks 2");
  command->callback([flags, arguments] { run(*flags, arguments); });
}

}  // namespace tutti::tool
