// Prints docs/options.md from the table of options; `--check FILE` says whether FILE is that page.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/config.h"

namespace {

std::string page() {
  std::string text =
      "# Options\n\n"
      "Every option is an environment variable, and a name for `tutti_config_set()`, which wins over the environment.\n"
      "Sizes take K, M and G (powers of 1024). An unknown `TUTTI_*` variable is a warning; a value that is not "
      "accepted\nis an error. This page is made from the table in `src/base/config.cpp`.\n\n"
      "| variable | name | default | accepts | meaning |\n"
      "|---|---|---|---|---|\n";
  const tutti::Config defaults;
  for (const tutti::OptionInfo& option : tutti::options()) {
    std::string value = tutti::value_of(defaults, option.name);
    text += fmt::format("| `{}` | `{}` | {} | {}{} | {} |\n", tutti::variable_name(option.name), option.name,
                        value.empty() ? "(empty)" : fmt::format("`{}`", value), tutti::accepted_values(option.name),
                        option.unit.empty() ? "" : fmt::format(" ({})", option.unit), option.meaning);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--check") {
    std::ifstream file(argv[2]);
    if (std::string(std::istreambuf_iterator<char>(file), {}) == page()) return 0;
    fmt::print(stderr, "{} is not what the options say; write it again with: {} > {}\n", argv[2], argv[0], argv[2]);
    return 1;
  }
  std::fputs(page().c_str(), stdout);
}
