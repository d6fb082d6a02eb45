// The `tutti` command.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tool.h"
#include "tutti/tutti_topology.h"

namespace tutti::tool {
namespace {

void print_version() {
  int version = tutti_version();
  fmt::print("tutti {}.{}.{}\n", version / 10000, version / 100 % 100, version % 100);
}

void print_options() {
  char* text = nullptr;
  require(tutti_options_text(&text));
  std::fputs(text, stdout);
  tutti_text_free(text);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// Fails when a word where a subcommand belongs names none: CLI11 would only say that one is required.
void check_subcommands(const CLI::App& app, const std::string& path, std::span<const std::string> words) {
  auto known = app.get_subcommands({});
  if (known.empty() || words.empty() || words[0].empty() || words[0].front() == '-') return;
  std::string nearest;
  size_t best = 3;  // farther words are no typing errors
  for (const CLI::App* one : known) {
    if (one->get_name() == words[0]) return check_subcommands(*one, path + " " + words[0], words.subspan(1));
    size_t distance = edit_distance(words[0], one->get_name());
    if (distance < best) best = distance, nearest = one->get_name();
  }
  if (nearest.empty()) fail(kUsageError, "there is no subcommand \"{}\"; `{} --help` lists them", words[0], path);
  fail(kUsageError, "there is no subcommand \"{}\"; did you mean `{} {}`?", words[0], path, nearest);
}

std::string command_name(const CLI::App& app) {
  std::string name = "tutti";
  for (const CLI::App* used : app.get_subcommands()) {
    name += " " + used->get_name();
    for (const CLI::App* below : used->get_subcommands()) name += " " + below->get_name();
  }
  return name;
}

void add_commands(CLI::App& app, const std::vector<std::string>& arguments, std::vector<std::string> after_dashes) {
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("tutti {}.{}.{}", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                                                TUTTI_VERSION_PATCH));
  app.footer(
      "Examples:\n"
      "  tutti run -n 4 ./my_program        four local ranks of a program that uses tutti\n"
      "  tutti bench all_reduce --ranks 4   bandwidth table of four local ranks\n"
      "  tutti topo                         what tutti sees of this machine\n"
      "  tutti plan all_reduce --bytes 64M --ranks 8 --explain");
  add_run(app, std::move(after_dashes));
  add_bench(app, arguments);
  add_topo(app);
  add_plan(app);
  app.add_subcommand("options", "List all options (TUTTI_* variables) with meaning and current value")
      ->callback(print_options);
  app.add_subcommand("version", "Print the library's version")->callback(print_version);
}

int run(std::vector<std::string> arguments) {
  CLI::App app("tutti: collective communication for N ranks", "tutti");
  try {
    std::vector<std::string> after_dashes;
    if (!arguments.empty() && arguments.front() == "run") {  // CLI11 would mix up a command's own options after "--"
      auto dashes = std::find(arguments.begin(), arguments.end(), "--");
      after_dashes.assign(dashes, arguments.end());
      arguments.erase(dashes, arguments.end());
    }
    add_commands(app, arguments, std::move(after_dashes));
    check_subcommands(app, "tutti", arguments);
    std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 takes
    app.parse(std::move(arguments));
    return 0;
  } catch (const CLI::RuntimeError& ended) {  // exit_with()
    return ended.get_exit_code();
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    std::string name = command_name(app);
    fmt::print(stderr, "{}: {}; `{} --help` explains the usage\n", name, wrong.what(), name);
    return kUsageError;
  } catch (const Failure& failure) {
    fmt::print(stderr, "{}: {}\n", command_name(app), failure.what());
    return failure.status();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: out of memory; free memory, or raise the limit (ulimit -v)\n", command_name(app));
    return 1;
  } catch (const std::exception& unexpected) {
    fmt::print(stderr, "{}: {}\n", command_name(app), unexpected.what());
    return 1;
  }
}

// A standard stream that was closed would give its number to the next file that is opened.
void open_missing_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd) std::abort();
  }
}

}  // namespace
}  // namespace tutti::tool

int main(int argc, char** argv) {
  tutti::tool::open_missing_streams();
  int status = tutti::tool::run({argv + 1, argv + argc});
  if (std::fflush(stdout) != 0 && status == 0) {
    std::perror("tutti: cannot write standard output");
    return 1;
  }
  return status;
}
