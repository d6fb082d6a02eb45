// A Choice in words and as JSON. For one rank both say that there is nothing to choose: it copies.
#pragma once

#include <string>

#include "planner/planner.h"

namespace tutti {

struct ExplainOptions {
  bool candidates = false;   // all algorithms, with predicted times and reasons
  bool steps = false;        // of every rank
};

// For people, several lines.
std::string to_text(const Topology& topology, const Request& request, const Choice& choice,
                    const ExplainOptions& options);
// For programs: {"format": "tutti.choice", "version": 1, ...}; the candidates always, the plan's parts with `steps`.
std::string to_json(const Topology& topology, const Request& request, const Choice& choice,
                    const ExplainOptions& options);

// The steps of every rank, for people.
std::string steps_text(const Plan& plan);
// "1 channel, 8 chunks, slices of at most 64 KiB; sent by reference, stored directly"
std::string shape_text(const PlanShape& shape);

}  // namespace tutti
