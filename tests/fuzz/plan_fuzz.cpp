// Any text is refused with a sentence or is a Plan that writes and reads back as itself; whatever Plan that is,
// validate() comes to an end.
#include "fuzz/input.h"
#include "plan/text.h"
#include "plan/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  auto plan = tutti::parse_plan(tutti::fuzz::as_text(data, size_bytes));
  if (!plan.ok()) {
    TUTTI_CHECK(!plan.status().message().empty());
    return 0;
  }
  std::string text = tutti::to_json(*plan, true);
  auto again = tutti::parse_plan(text);
  TUTTI_CHECK(again.ok() && tutti::to_json(*again, true) == text);
  auto verdict = tutti::validate(*plan);
  TUTTI_CHECK(verdict.ok() || !verdict.message().empty());
  return 0;
}
