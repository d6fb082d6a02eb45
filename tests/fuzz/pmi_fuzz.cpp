// What launchers hand over as text: PMI-1 lines, Slurm's node lists.
#include "bootstrap/launch.h"
#include "bootstrap/pmi1.h"
#include "fuzz/input.h"

using namespace tutti::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  auto text = tutti::fuzz::as_text(data, size_bytes);
  if (auto fields = parse_pmi(text); fields.ok()) {
    for (const auto& [name, value] : *fields) TUTTI_CHECK(!name.empty() && value.find(' ') == std::string::npos);
  }
  TUTTI_CHECK(first_host(text).size() <= text.size());
  return 0;
}
