// The calibration file's contents.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "topology/inventory.h"

namespace tutti {

// What makes stored figures those of a machine, and of what measures them.
struct CalibratedMachine {
  std::string hostname;
  std::string architecture;
  std::string model;
  int logical_cpus = 0;
  std::string build;  // of tutti: kernels of a debug build are many times slower, and choose otherwise
  friend bool operator==(const CalibratedMachine&, const CalibratedMachine&) = default;
};
CalibratedMachine calibrated_machine(const Inventory& host);

struct Calibration {
  CalibratedMachine machine;
  Costs costs;
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

std::string to_json(const Calibration& calibration);
Result<Calibration> parse_calibration(std::string_view json);

}  // namespace tutti
