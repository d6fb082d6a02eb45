// `tutti doctor`: what keeps a host's network hardware from working, and what to do about it.
#include <cstdio>
#include <memory>
#include <string>

#include "tool.h"
#include "tutti/tutti_topology.h"

namespace tutti::tool {
namespace {

struct DoctorOptions {
  bool json = false;
  std::string topology;
};

void run_doctor(const DoctorOptions& options) {
  const char* file = options.topology.empty() ? nullptr : options.topology.c_str();
  char* text = nullptr;
  int32_t problems = 0;
  require(tutti_diagnosis_text(file, options.json ? TUTTI_FORMAT_JSON : TUTTI_FORMAT_TREE, &text, &problems));
  std::fputs(text, stdout);
  tutti_text_free(text);
  if (problems > 0) exit_with(1);
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor = app.add_subcommand("doctor", "Say what keeps the network hardware from working, and what to do");
  doctor->add_flag("--json", options->json, "Print JSON: host, problems (their number), findings");
  doctor
      ->add_option("--topology", options->topology, "Look at the host that `tutti topo --capture FILE` recorded")
      ->type_name("FILE");
  doctor->footer(
      "Exit status: 0 without a problem, though there may be notes; 1 with one; 2 for a wrong command line.\n"
      "Run it where the ranks run: limits and devices differ in containers and under batch systems.\n"
      "Examples:\n"
      "  tutti doctor\n"
      "  srun -N 2 tutti doctor --json");
  doctor->callback([options] { run_doctor(*options); });
}

}  // namespace tutti::tool
