// `tutti plan`: what a communicator would run for a call, and why.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "benchmarks/collective.h"
#include "benchmarks/element.h"
#include "tool.h"
#include "tutti/tutti_topology.h"

namespace tutti::tool {
namespace {

constexpr const char* kFooter =
    "Nothing runs: the plan follows from the topology, of this host or of a file (`tutti topo --capture`, `tutti topo "
    "--json`).\n"
    "The times come from the topology's costs (`tutti topo` shows them); this host's are measured first if none are "
    "stored.\n"
    "The size is what `tutti bench` calls so: of the vector, or of all ranks' blocks together; algbw is size per "
    "time.\n"
    "\n"
    "Examples:\n"
    "  tutti plan all_reduce --bytes 64M --ranks 8 --explain\n"
    "  tutti plan all_reduce --bytes 4K --ranks 3 --algorithm ring --steps\n"
    "  tutti plan broadcast --bytes 1M --ranks 8 --root 3\n"
    "  tutti plan all_reduce --bytes 1G --topology cluster.json --json\n"
    "  tutti plan all_reduce --bytes 1G --topology nccl_dump.xml --hosts 4 --explain\n"
    "  tutti plan all_reduce --bytes 1G --topology nccl_dump.xml --hosts 4 --ranks 128\n"
    "  tutti plan all_reduce --validate my_plan.json";

struct PlanFlags {
  std::string collective = "all_reduce";
  std::optional<std::string> bytes;
  int ranks = 0;
  int hosts = 0;
  std::string device;
  std::string datatype = "float32";
  std::optional<std::string> op;
  std::optional<int> root;
  std::string topology;
  std::string algorithm;
  std::string validate;
  bool explain = false;
  bool steps = false;
  bool json = false;
};

void print(char* text) {
  std::fputs(text, stdout);
  tutti_text_free(text);
}

const bench::CollectiveInfo& collective_of(const PlanFlags& flags) {
  if (auto* found = bench::collective_named(flags.collective)) return *found;
  std::vector<std::string> names = names_of(bench::collectives());
  std::string near = nearest(flags.collective, names);
  if (!near.empty()) fail(kUsageError, "there is no collective \"{}\"; did you mean {}?", flags.collective, near);
  fail(kUsageError, "there is no collective \"{}\"; there are {}", flags.collective, fmt::join(names, ", "));
}

void check_has(const bench::CollectiveInfo& collective, const PlanFlags& flags) {
  if (flags.op && !collective.reduces) {
    fail(kUsageError, "{} combines nothing; leave --op out", collective.name);
  }
  if (flags.root && !collective.has_root()) fail(kUsageError, "{} has no root; leave --root out", collective.name);
}

// As many as the topology that is planned for has.
int ranks_of(const PlanFlags& flags) {
  tutti_topology_query_t query{};
  query.struct_size = sizeof query;
  query.topology_file = flags.topology.empty() ? nullptr : flags.topology.c_str();
  query.nranks = flags.ranks;
  query.hosts = flags.hosts;
  query.place = place_of(flags.device);
  char* text = nullptr;
  require(tutti_topology_query_text(&query, TUTTI_FORMAT_JSON, &text));
  auto ranks = static_cast<int>(nlohmann::json::parse(text).at("ranks").size());
  tutti_text_free(text);
  return ranks;
}

// Elements of the vector or of each block. Rounds down as the benchmark does, but not to nothing, and says so.
uint64_t count_of(const bench::CollectiveInfo& collective, const PlanFlags& flags, tutti_datatype_t datatype) {
  if (!collective.has_data()) return 0;
  uint64_t bytes = parse_size("--bytes", flags.bytes.value_or("1M"));
  if (bytes == 0) return 0;
  int ranks = collective.in_blocks() ? ranks_of(flags) : 1;
  uint64_t count = std::max<uint64_t>(bench::count_of(collective, bytes, datatype, ranks), 1);
  uint64_t planned = count * collective.blocks(ranks) * tutti_datatype_size(datatype);
  if (flags.bytes && planned != bytes) {
    std::string per_block = collective.in_blocks() ? fmt::format(" in each of {} blocks", ranks) : "";
    fmt::print(stderr, "tutti plan: {} bytes are no whole number of {}{}; planning for {} bytes\n", bytes,
               bench::info(datatype).alias, per_block, planned);
  }
  return count;
}

tutti_plan_query_t query_of(const PlanFlags& flags) {
  const bench::CollectiveInfo& collective = collective_of(flags);
  check_has(collective, flags);
  auto datatype = bench::datatype_named(flags.datatype);
  if (!datatype)
    fail(kUsageError, "--datatype {}: there is no such type; for example float32, bfloat16 or int64", flags.datatype);
  auto op = bench::op_named(flags.op.value_or("sum"));
  if (!op) fail(kUsageError, "--op {}: the operations are {}", *flags.op, fmt::join(names_of(bench::ops()), ", "));
  tutti_plan_query_t query{};
  query.struct_size = sizeof query;
  query.collective = collective.collective;
  query.datatype = *datatype;
  query.op = *op;
  query.root = flags.root.value_or(0);
  query.count = count_of(collective, flags, *datatype);
  query.nranks = flags.ranks;
  query.hosts = flags.hosts;
  query.place = place_of(flags.device);
  query.topology_file = flags.topology.empty() ? nullptr : flags.topology.c_str();
  query.algorithm = flags.algorithm.empty() ? nullptr : flags.algorithm.c_str();
  query.explain = flags.explain ? 1 : 0;
  query.steps = flags.steps ? 1 : 0;
  return query;
}

void plan(const PlanFlags& flags) {
  char* text = nullptr;
  if (!flags.validate.empty()) {
    require(tutti_plan_check_file(flags.validate.c_str(), flags.steps ? 1 : 0, &text));
    return print(text);
  }
  tutti_plan_query_t query = query_of(flags);
  if (flags.topology.empty()) calibrate_if_missing("tutti plan");
  require(tutti_plan_text(&query, flags.json ? TUTTI_FORMAT_JSON : TUTTI_FORMAT_TREE, &text));
  print(text);
}

}  // namespace

void add_plan(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command =
      app.add_subcommand("plan", "Show which algorithm a call would use, its predicted time and its steps");
  command->add_option("collective", flags->collective,
                      fmt::format("One of {}", fmt::join(names_of(bench::collectives()), ", ")))
      ->option_text("COLLECTIVE=all_reduce");
  command
      ->add_option("-b,--bytes", flags->bytes,
                   "Size of the vector, or of all ranks' blocks together (K, M, G: powers of 1024)")
      ->option_text("SIZE=1M");
  command
      ->add_option("-n,--ranks", flags->ranks,
                   "Number of ranks, unless FILE of --topology has ranks; without it 1, which needs no plan")
      ->check(CLI::Range(1, 65536))
      ->option_text("N");
  command->add_option("-d,--datatype", flags->datatype, "Type of the elements")->option_text("TYPE=float32");
  command->add_option("-o,--op", flags->op, fmt::format("{}", fmt::join(names_of(bench::ops()), ", ")))
      ->option_text("OP=sum");
  command->add_option("--root", flags->root, "The root, where the collective has one")
      ->check(CLI::Range(0, 65535))
      ->option_text("RANK=0");
  command
      ->add_option("--topology", flags->topology, "Plan for the topology, recorded machine or NCCL dump in this file")
      ->option_text("FILE");
  add_placement(*command, flags->hosts, flags->device);
  command->add_option("--algorithm", flags->algorithm, "Use this algorithm instead of the fastest; --explain names all")
      ->option_text("NAME");
  command->add_flag("--explain", flags->explain, "All candidates, with predicted times and reasons");
  command->add_flag("--steps", flags->steps, "The steps of every rank");
  command->add_flag("--json", flags->json, "For programs; with --steps its \"plan\" is a plan file (docs/plans.md)");
  command->add_option("--validate", flags->validate, "Check a plan file instead: parse, validate and prove it")
      ->option_text("FILE");
  command->footer(kFooter);
  command->callback([flags] { plan(*flags); });
}

}  // namespace tutti::tool
