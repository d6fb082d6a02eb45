#include "discovery/calibration_json.h"

#include "topology/describe.h"
#include "topology/json_document.h"
#include "topology/json_reader.h"

namespace tutti {
namespace {
constexpr std::string_view kFormat = "tutti.calibration";
constexpr int kVersion = 15;  // raise it when a figure comes or changes its meaning: older files are then measured anew

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr const char* kBuild = "sanitized";
#elif defined(__OPTIMIZE__)
constexpr const char* kBuild = "optimized";
#else
constexpr const char* kBuild = "unoptimized";
#endif
}  // namespace

template <typename V, Is<CalibratedMachine> T>
void describe(V& v, T& machine) {
  v.text("hostname", machine.hostname);
  v.text("architecture", machine.architecture);
  v.text("model", machine.model);
  v.number("logical_cpus", machine.logical_cpus, 0, kMaxCpus);
  v.text("build", machine.build);
}

template <typename V, Is<Calibration> T>
void describe(V& v, T& calibration) {
  v.object("machine", calibration.machine);
  v.object("costs", calibration.costs);
}

CalibratedMachine calibrated_machine(const Inventory& host) {
  return {host.hostname, host.cpu.architecture, host.cpu.model, host.cpu.logical_cpus, kBuild};
}

std::string to_json(const Calibration& calibration) { return write_document(calibration, kFormat, kVersion); }

Result<Calibration> parse_calibration(std::string_view json) {
  return read_document<Calibration>(json, kFormat, kVersion);
}

}  // namespace tutti
