#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "run/outer_launcher.h"
#include "tool.h"
#include "tutti/tutti_topology.h"

namespace tutti::tool {
namespace {

// While it lives hwloc loads no plugins, which takes it longer than all else and adds nothing that tutti asks it. For
// the only thread of a process.
class WithoutPlugins {
 public:
  WithoutPlugins() {
    auto names_folder = [](const std::string& variable) { return variable.starts_with("HWLOC_PLUGINS_PATH="); };
    std::vector<std::string> variables = own_environment();
    is_users_ = std::any_of(variables.begin(), variables.end(), names_folder);
    if (!is_users_) ::setenv("HWLOC_PLUGINS_PATH", "/dev/null", 1);
  }
  WithoutPlugins(const WithoutPlugins&) = delete;
  ~WithoutPlugins() {
    if (!is_users_) ::unsetenv("HWLOC_PLUGINS_PATH");
  }

 private:
  bool is_users_ = false;
};

}  // namespace

void calibrate_if_missing(const char* command) {
  WithoutPlugins without_plugins;
  char* note = nullptr;
  require(tutti_calibrate_if_missing(&note));
  if (*note != '\0') fmt::print(stderr, "{}: {}\n", command, note);
  tutti_text_free(note);
}

std::string host_facts() {
  WithoutPlugins without_plugins;
  char* text = nullptr;
  if (tutti_inventory_text(TUTTI_FORMAT_JSON, &text) != TUTTI_SUCCESS) return "";
  std::string facts = text;
  tutti_text_free(text);
  return facts;
}

}  // namespace tutti::tool
