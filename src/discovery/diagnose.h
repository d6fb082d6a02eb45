// What keeps tutti from working well on a host: `tutti doctor`. Each finding says what is so and what to do about it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "discovery/system_view.h"

namespace tutti {

struct Machine;

struct Finding {
  enum class Level : uint8_t {
    kNote,     // works, and could work better
    kProblem,  // does not work as the hardware would
  };
  Level level = Level::kNote;
  std::string topic;   // "locked memory"
  std::string fact;    // a sentence without its full stop
  std::string remedy;  // another one
  friend bool operator==(const Finding&, const Finding&) = default;
};
std::string_view name_of(Finding::Level level);  // "note", "problem"

struct Diagnosis {
  std::string hostname;
  std::vector<Finding> findings;
  size_t problems() const;
};

// Errors: the machine does not even say what it is.
Result<Diagnosis> diagnose(SystemView& system);

// The same of a recorded machine.
Result<Diagnosis> diagnose(const Machine& machine);

// "problem  locked memory: ...". A host without findings gets one line that says so.
std::string to_tree(const Diagnosis& diagnosis);
std::string to_json(const Diagnosis& diagnosis);

// The part about RDMA.
std::vector<Finding> diagnose_rdma(SystemView& system, const ProcessFacts& process);

}  // namespace tutti
