#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tool.h"
#include "tutti/tutti_topology.h"

namespace tutti::tool {
namespace {

// While it lives hwloc loads no plugins, which takes it longer than all else and adds nothing that tutti asks it. For
// the only thread of a process.
class WithoutPlugins {
 public:
  WithoutPlugins() : is_users_(std::getenv(kFolder) != nullptr) {
    if (!is_users_) ::setenv(kFolder, "/dev/null", 1);
  }
  WithoutPlugins(const WithoutPlugins&) = delete;
  ~WithoutPlugins() {
    if (!is_users_) ::unsetenv(kFolder);
  }

 private:
  static constexpr const char* kFolder = "HWLOC_PLUGINS_PATH";
  bool is_users_;
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
