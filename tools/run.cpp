// `tutti run`: see run/job.h.
#include "run/job.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "tool.h"

namespace tutti::tool {
namespace {

constexpr const char* kFooter =
    "`--` comes before a COMMAND that begins with -. Rank 0 reads this process's standard input. The exit status is\n"
    "0 when every rank exits with 0, else the status of the first rank that fails (128 + signal number), 124 after\n"
    "--timeout, 126 or 127 when COMMAND cannot be executed or found. No process of the job outlives it. Under\n"
    "another launcher (mpirun, srun, ...) each `tutti run` is a job of its own, whose ranks do not see that\n"
    "launcher's variables.\n"
    "This host's costs, by which tutti chooses, are measured before its first job (about a second;\n"
    "TUTTI_CALIBRATION=off: not at all).\n"
    "\n"
    "Examples:\n"
    "  tutti run -n 4 ./my_program --size 10\n"
    "  tutti run -n 8 --bind spread -- tutti bench all_reduce -b 1M -e 64M\n"
    "  tutti run -n 2 --env TUTTI_TRANSPORT=tcp --no-prefix python3 train.py";

// CLI11 knows nothing of the command that comes after the options.
class Usage : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string line = CLI::Formatter::make_usage(app, std::move(name));
    return line.insert(line.find_last_not_of('\n') + 1, " [--] COMMAND [ARG...]");
  }
};

struct RunFlags {
  Job job;
  std::vector<std::string> after_dashes;
  std::string tag = "rank";
  std::string bind = "none";
  bool no_prefix = false;
  double grace_s = 3;
  double timeout_s = 0;
};

void check_assignments(const std::vector<std::string>& assignments) {
  for (const std::string& assignment : assignments) {
    size_t equals = assignment.find('=');
    if (equals == 0 || equals == std::string::npos) fail(kUsageError, "--env {}: expected NAME=VALUE", assignment);
  }
}

void run(const CLI::App& command, RunFlags& flags) {
  Job& job = flags.job;
  job.command = command.remaining();
  bool own_dashes = job.command.empty() && !flags.after_dashes.empty();  // else they belong to the command
  job.command.insert(job.command.end(), flags.after_dashes.begin() + own_dashes, flags.after_dashes.end());
  if (job.command.empty()) {
    fail(kUsageError, "no command was given; for example `tutti run -n {} ./my_program`", job.ranks);
  }
  if (!own_dashes && job.command.front().starts_with('-')) {
    fail(kUsageError, "{}", no_such_option(command, job.command.front()));
  }
  check_assignments(job.environment);
  job.tag_lines = flags.tag == "rank" && !flags.no_prefix;
  job.bind = flags.bind == "spread";
  job.grace_ms = std::llround(flags.grace_s * 1e3);
  job.timeout_ms = std::llround(flags.timeout_s * 1e3);
  auto names_file = [](const std::string& assignment) { return assignment.starts_with("TUTTI_CALIBRATION="); };
  bool ranks_have_their_own = std::any_of(job.environment.begin(), job.environment.end(), names_file);
  if (!ranks_have_their_own) calibrate_if_missing("tutti run");
  job.host_facts = host_facts();
  exit_with(run_job(job));
}

}  // namespace

void add_run(CLI::App& app, std::vector<std::string> after_dashes) {
  auto flags = std::make_shared<RunFlags>();
  flags->after_dashes = std::move(after_dashes);
  CLI::App* command = app.add_subcommand("run", "Start local ranks of COMMAND");
  command->prefix_command();
  command->add_option("-n,--ranks", flags->job.ranks, "Number of ranks")
      ->check(CLI::Range(1, kMaxLocalRanks))
      ->option_text("N=1");
  command->add_option("--tag", flags->tag, "What begins each line of output: rank (\"[3] \") or none")
      ->check(CLI::IsMember({"rank", "none"}))
      ->option_text("TAG=rank");
  command->add_flag("--no-prefix", flags->no_prefix, "The same as --tag none");
  command->add_option("--env", flags->job.environment, "Add to the ranks' environment; may be repeated")
      ->allow_extra_args(false)
      ->option_text("NAME=VALUE");
  command->add_option("--bind", flags->bind, "Cores of each rank: none (all), or spread (its share of them)")
      ->check(CLI::IsMember({"none", "spread"}))
      ->option_text("HOW=none");
  command->add_option("--grace", flags->grace_s, "Seconds between SIGTERM and SIGKILL when the job is ended")
      ->check(CLI::Range(0.0, 86400.0))
      ->option_text("SECONDS=3");
  command->add_option("--timeout", flags->timeout_s, "End the job after this many seconds (0: never)")
      ->check(CLI::Range(0.0, 1e7))
      ->option_text("SECONDS=0");
  command->formatter(std::make_shared<Usage>());
  command->footer(kFooter);
  command->callback([command, flags] { run(*command, *flags); });
}

}  // namespace tutti::tool
