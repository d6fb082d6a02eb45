// Any text is refused with a sentence or is a TuningTable that writes and reads back as itself.
#include "fuzz/input.h"
#include "planner/tuning_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  auto first = tutti::parse_tuning(tutti::fuzz::as_text(data, size_bytes));
  if (!first.ok()) {
    TUTTI_CHECK(!first.status().message().empty());
    return 0;
  }
  auto second = tutti::parse_tuning(tutti::to_json(*first));
  TUTTI_CHECK(second.ok() && *second == *first);
  return 0;
}
