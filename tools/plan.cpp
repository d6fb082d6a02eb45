// `tutti plan`: what a communicator would run for a call, and why.
#include <cstdio>
#include <memory>

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
    "algbw is a rank's bytes per time, as in `tutti bench`.\n"
    "\n"
    "Examples:\n"
    "  tutti plan all_reduce --bytes 64M --ranks 8 --explain\n"
    "  tutti plan all_reduce --bytes 4K --ranks 3 --algorithm ring --steps\n"
    "  tutti plan all_reduce --bytes 1G --topology cluster.json --json\n"
    "  tutti plan all_reduce --validate my_plan.json";

struct PlanFlags {
  std::string collective = "all_reduce";
  std::string bytes = "1M";
  int ranks = 0;
  std::string datatype = "float32";
  std::string op = "sum";
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

// Rounds down, as the benchmark does, and says so.
uint64_t whole_elements(uint64_t bytes, tutti_datatype_t datatype) {
  uint64_t element_bytes = tutti_datatype_size(datatype), count = bytes / element_bytes;
  if (bytes % element_bytes != 0) {
    fmt::print(stderr, "tutti plan: {} bytes are no whole number of {}; planning for {} bytes\n", bytes,
               bench::info(datatype).alias, count * element_bytes);
  }
  return count;
}

void plan(const PlanFlags& flags) {
  if (flags.collective != "all_reduce") {
    fail(kUsageError, "there is no collective \"{}\" to plan for; there is all_reduce", flags.collective);
  }
  char* text = nullptr;
  if (!flags.validate.empty()) {
    require(tutti_plan_check_file(flags.validate.c_str(), flags.steps ? 1 : 0, &text));
    return print(text);
  }
  auto datatype = bench::datatype_named(flags.datatype);
  if (!datatype)
    fail(kUsageError, "--datatype {}: there is no such type; for example float32, bfloat16 or int64", flags.datatype);
  auto op = bench::op_named(flags.op);
  if (!op) fail(kUsageError, "--op {}: the operations are sum, prod, max, min and avg", flags.op);

  if (flags.topology.empty()) calibrate_if_missing("tutti plan");
  tutti_plan_query_t query{};
  query.struct_size = sizeof query;
  query.collective = TUTTI_ALL_REDUCE;
  query.datatype = *datatype;
  query.op = *op;
  query.count = whole_elements(parse_size("--bytes", flags.bytes), *datatype);
  query.nranks = flags.ranks;
  query.topology_file = flags.topology.empty() ? nullptr : flags.topology.c_str();
  query.algorithm = flags.algorithm.empty() ? nullptr : flags.algorithm.c_str();
  query.explain = flags.explain ? 1 : 0;
  query.steps = flags.steps ? 1 : 0;
  require(tutti_plan_text(&query, flags.json ? TUTTI_FORMAT_JSON : TUTTI_FORMAT_TREE, &text));
  print(text);
}

}  // namespace

void add_plan(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command =
      app.add_subcommand("plan", "Show which algorithm a call would use, its predicted time and its steps");
  command->add_option("collective", flags->collective, "The collective: all_reduce")
      ->option_text("COLLECTIVE=all_reduce");
  command
      ->add_option("-b,--bytes", flags->bytes,
                   "Size of each rank's message (K, M, G: powers of 1024), in whole elements")
      ->option_text("SIZE=1M");
  command
      ->add_option("-n,--ranks", flags->ranks,
                   "Number of ranks, unless FILE of --topology has ranks; without it 1, which needs no plan")
      ->check(CLI::Range(1, 65536))
      ->option_text("N");
  command->add_option("-d,--datatype", flags->datatype, "Type of the elements")->option_text("TYPE=float32");
  command->add_option("-o,--op", flags->op, "sum, prod, max, min or avg")->option_text("OP=sum");
  command->add_option("--topology", flags->topology, "Plan for the topology or recorded machine in this file")
      ->option_text("FILE");
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
