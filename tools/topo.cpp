// `tutti topo`: what tutti knows of this host, of a file's machine, or of all ranks of a job.
#include <cstdio>
#include <memory>
#include <string>

#include "tool.h"
#include "tutti/tutti_topology.h"

namespace tutti::tool {
namespace {

struct TopoOptions {
  bool json = false;
  bool calibrate = false;
  std::string capture;
  std::string topology;
  int ranks = 0;
  int hosts = 0;
  std::string device;

  tutti_format_t format() const { return json ? TUTTI_FORMAT_JSON : TUTTI_FORMAT_TREE; }
};

void print_and_free(char* text) {
  std::fputs(text, stdout);
  tutti_text_free(text);
}

void print_calibration(const TopoOptions& options) {
  char* text = nullptr;
  require(tutti_calibrate(options.format(), &text));
  print_and_free(text);
}

void capture(const TopoOptions& options) {
  require(tutti_topology_capture(options.capture.c_str()));
  fmt::print("recorded this host in {}; `tutti topo --topology {}` shows it\n", options.capture, options.capture);
}

void print_described(const TopoOptions& options) {
  tutti_topology_query_t query{};
  query.struct_size = sizeof query;
  query.topology_file = options.topology.empty() ? nullptr : options.topology.c_str();
  query.nranks = options.ranks;
  query.hosts = options.hosts;
  query.place = place_of(options.device);
  char* text = nullptr;
  require(tutti_topology_query_text(&query, options.format(), &text));
  print_and_free(text);
}

void print_host(const TopoOptions& options) {
  char* text = nullptr;
  require(tutti_inventory_text(options.format(), &text));
  print_and_free(text);
}

// Ends a communicator on every way out.
struct Leave {
  void operator()(tutti_comm_t* comm) const { tutti_comm_destroy(comm); }
};

// Under a launcher the ranks tell each other, and rank 0 shows all; alone there is only this host to show.
void print_job(const TopoOptions& options) {
  tutti_comm_t* raw = nullptr;
  require(tutti_comm_init_from_environment(&raw, nullptr));
  std::unique_ptr<tutti_comm_t, Leave> comm(raw);
  int rank = 0;
  int size = 1;
  require(tutti_comm_rank(raw, &rank));
  require(tutti_comm_size(raw, &size));
  if (size == 1) return print_host(options);
  if (rank != 0) return;
  char* text = nullptr;
  if (tutti_comm_topology_text(raw, options.format(), &text) != TUTTI_SUCCESS) fail(1, "{}", tutti_last_error(raw));
  print_and_free(text);
}

void run_topo(const TopoOptions& options) {
  if (options.calibrate) return print_calibration(options);
  if (options.topology.empty()) calibrate_if_missing("tutti topo");
  if (!options.capture.empty()) return capture(options);
  bool is_described = !options.topology.empty() || options.ranks != 0 || options.hosts != 0 || !options.device.empty();
  if (is_described) return print_described(options);
  print_job(options);
}

}  // namespace

void add_topo(CLI::App& app) {
  auto options = std::make_shared<TopoOptions>();
  CLI::App* topo =
      app.add_subcommand("topo", "Show hosts, ranks and links with bandwidth, latency and where each figure is from");
  topo->add_flag("--json", options->json, "Print JSON (schema: docs/topology.md) instead of a tree");
  auto* capture =
      topo->add_option("--capture", options->capture, "Record this host in FILE, to be shown and planned for anywhere")
          ->type_name("FILE");
  auto* topology = topo->add_option("--topology", options->topology,
                                    "Show what FILE describes: a topology, an inventory, a recorded host, or what NCCL "
                                    "wrote to NCCL_TOPO_DUMP_FILE")
                       ->type_name("FILE");
  auto* ranks = topo->add_option("--ranks", options->ranks, "Show N ranks on one host")
                    ->type_name("N")
                    ->check(CLI::Range(1, 1 << 20));
  add_placement(*topo, options->hosts, options->device);
  auto* calibrate =
      topo->add_flag("--calibrate", options->calibrate,
                     "Measure this host's costs anew (about a second) and store them for all later jobs");
  capture->excludes(topology)->excludes(ranks)->excludes(calibrate);
  calibrate->excludes(topology)->excludes(ranks);
  topo->footer(
      "Under a launcher (tutti run, mpirun, mpiexec, srun, torchrun) rank 0 shows the whole job.\n"
      "Costs that are not stored yet for this host are measured first; TUTTI_CALIBRATION=off uses defaults instead.\n"
      "Examples:\n"
      "  tutti topo\n"
      "  tutti run -n 4 -- tutti topo --json\n"
      "  tutti topo --capture node.json && tutti topo --topology node.json --ranks 8\n"
      "  tutti topo --topology nccl_dump.xml --hosts 4 --json > cluster.json");
  topo->callback([options] { run_topo(*options); });
}

}  // namespace tutti::tool
