// The text form of a Plan: JSON with "shape" and, when asked for or read from a file, "parts".
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "plan/plan.h"

namespace tutti {

std::string to_json(const Plan& plan, bool with_parts);
// Errors have line and reason. The result is written out and not yet validated.
Result<Plan> parse_plan(std::string_view json);
// One step for people: "put output[3] -> rank 2 (into output[3])".
std::string to_text(const Step& step);

}  // namespace tutti
