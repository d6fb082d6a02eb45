#include <cstdio>
#include <string_view>

#include "tool.h"
#include "tutti/tutti_topology.h"

namespace tutti::tool {

void calibrate_if_missing(const char* command) {
  char* note = nullptr;
  require(tutti_calibrate_if_missing(&note));
  if (*note != '\0') fmt::print(stderr, "{}: {}\n", command, note);
  tutti_text_free(note);
}

}  // namespace tutti::tool
