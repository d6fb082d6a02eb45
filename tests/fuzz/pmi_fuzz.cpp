// What launchers hand over as text or bytes: PMI-1 lines, Slurm's node lists, unique ids.
#include <algorithm>
#include <cstring>

#include "bootstrap/launch.h"
#include "bootstrap/pmi1.h"
#include "bootstrap/unique_id.h"
#include "fuzz/input.h"

using namespace tutti::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  auto text = tutti::fuzz::as_text(data, size_bytes);
  if (auto fields = parse_pmi(text); fields.ok()) {
    for (const auto& [name, value] : *fields) TUTTI_CHECK(!name.empty() && value.find(' ') == std::string::npos);
  }
  TUTTI_CHECK(first_host(text).size() <= text.size());
  tutti_unique_id_t id{};
  std::memcpy(id.bytes, data, std::min(size_bytes, sizeof(id.bytes)));
  if (auto decoded = decode_unique_id(id); decoded.ok())
    TUTTI_CHECK(decode_unique_id(encode(*decoded)).value() == *decoded);
  return 0;
}
