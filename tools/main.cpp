// The `tutti` command.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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

// Fails when a word where a subcommand belongs names none: CLI11 would only say that one is required.
void check_subcommands(const CLI::App& app, std::span<const std::string> words) {
  auto known = app.get_subcommands({});
  if (known.empty() || words.empty() || words[0].empty() || words[0].front() == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* one : known) {
    if (one->get_name() == words[0]) return check_subcommands(*one, words.subspan(1));
    names.push_back(one->get_name());
  }
  std::string near = nearest(words[0], names), path = path_of(app);
  if (near.empty()) fail(kUsageError, "there is no subcommand \"{}\"; `{} --help` lists them", words[0], path);
  fail(kUsageError, "there is no subcommand \"{}\"; did you mean `{} {}`?", words[0], path, near);
}

// The subcommand that was given, or the tool itself.
const CLI::App& command_given(const CLI::App& app) {
  auto used = app.get_subcommands();
  return used.empty() ? app : command_given(*used.front());
}

// What is wrong in the words that belong to no option: `command`'s own, else its subcommand's.
std::string describe_extras(const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  if (words.empty()) return describe_extras(*command.get_subcommands().front());
  auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with('-'); });
  if (option != words.end()) return no_such_option(command, *option);
  return fmt::format("\"{}\" is one argument too many; `{} --help` explains the usage", words.front(),
                     path_of(command));
}

void complain(const CLI::App& app, std::string_view sentence) {
  fmt::print(stderr, "{}: {}\n", path_of(command_given(app)), sentence);
}

void add_commands(CLI::App& app, const std::vector<std::string>& arguments, std::vector<std::string> after_dashes) {
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("tutti {}.{}.{}", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                                                TUTTI_VERSION_PATCH));
  add_run(app, std::move(after_dashes));
  add_bench(app, arguments);
  add_topo(app);
  add_plan(app);
  add_doctor(app);
  app.add_subcommand("options", "List all options (TUTTI_* variables) with meaning and current value")
      ->callback(print_options);
  app.add_subcommand("version", "Print the library's version")->callback(print_version);
  app.footer(  // last: subcommands that are added later would get it too
      "Examples:\n"
      "  tutti run -n 4 ./my_program        four local ranks of a program that uses tutti\n"
      "  tutti bench all_reduce --ranks 4   bandwidth table of four local ranks\n"
      "  tutti topo                         what tutti sees of this machine\n"
      "  tutti plan all_reduce --bytes 64M --ranks 8 --explain\n"
      "  tutti doctor                       what keeps the network hardware from working");
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
    check_subcommands(app, arguments);
    std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 takes
    app.parse(std::move(arguments));
    return 0;
  } catch (const CLI::RuntimeError& ended) {  // exit_with()
    return ended.get_exit_code();
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ExtrasError&) {
    complain(app, describe_extras(app));
    return kUsageError;
  } catch (const CLI::ParseError& wrong) {
    complain(app, fmt::format("{}; `{} --help` explains the usage", wrong.what(), path_of(command_given(app))));
    return kUsageError;
  } catch (const Failure& failure) {
    complain(app, failure.what());
    return failure.status();
  } catch (const std::bad_alloc&) {
    complain(app, "out of memory; free memory, or raise the limit (ulimit -v)");
    return 1;
  } catch (const std::exception& unexpected) {
    complain(app, unexpected.what());
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
