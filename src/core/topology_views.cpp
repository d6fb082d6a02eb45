// The C entry points that show this host and topologies without a communicator.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/config.h"
#include "core/give_text.h"
#include "base/guard.h"
#include "core/report.h"
#include "core/topology_query.h"
#include "discovery/calibrate.h"
#include "discovery/diagnose.h"
#include "discovery/discover.h"
#include "discovery/live_system.h"
#include "discovery/machine.h"
#include "discovery/text_file.h"
#include "topology/topology.h"

namespace tutti {
namespace {

Status inventory_text(tutti_format_t format, char** text) {
  Config config = TUTTI_TRY(Config::from_environment());
  return give_text(TUTTI_TRY(discover_host(config)), format, text);
}

Status topology_text(const tutti_topology_query_t* given, tutti_format_t format, char** text) {
  if (given == nullptr || given->struct_size < offsetof(tutti_topology_query_t, nranks) + sizeof(given->nranks)) {
    return error(Code::kInvalidArgument, "tutti_topology_query_text: the query is NULL or its struct_size is not set");
  }
  tutti_topology_query_t query{};
  std::memcpy(&query, given, std::min(given->struct_size, sizeof query));
  Config config = TUTTI_TRY(Config::from_environment());
  TopologyQuery asked = TUTTI_TRY(topology_query(query.topology_file, query.nranks, query.hosts, query.place));
  return give_text(TUTTI_TRY(topology_for(config, asked)), format, text);
}

Status capture(const char* path) {
  if (path == nullptr || *path == '\0') return Status(Code::kInvalidArgument, "path is empty; name the file to write");
  Config config = TUTTI_TRY(Config::from_environment());
  Inventory host = TUTTI_TRY(discover_host(config));
  LiveSystem system;
  return write_text_file(path, to_json(TUTTI_TRY(record(system, host.costs))));
}

Status diagnosis_text(const char* machine_file, tutti_format_t format, char** text, int32_t* problems) {
  Diagnosis found;
  if (machine_file == nullptr) {
    LiveSystem system;
    found = TUTTI_TRY(diagnose(system));
  } else {
    auto machine = parse_machine(TUTTI_TRY(read_text_file(machine_file)));
    if (!machine.ok()) return std::move(machine).status().within(machine_file);
    found = TUTTI_TRY(diagnose(*machine));
  }
  if (problems != nullptr) *problems = static_cast<int32_t>(found.problems());
  return give_text(found, format, text);
}

Status calibrate_host(tutti_format_t format, char** text) {
  Config config = TUTTI_TRY(Config::from_environment());
  TUTTI_TRY(check_format(format));
  Inventory host = TUTTI_TRY(discover_live());
  host.costs = TUTTI_TRY(calibrate(config, host));
  return text == nullptr ? Status() : give_text(host, format, text);
}

Status calibrate_host_if_missing(char** note) {
  Config config = TUTTI_TRY(Config::from_environment());
  return give_text(TUTTI_TRY(calibrate_if_missing(config, TUTTI_TRY(discover_live()))).note, note);
}

}  // namespace
}  // namespace tutti

using namespace tutti;

tutti_status_t tutti_inventory_text(tutti_format_t format, char** text) {
  return report(guarded([&] { return inventory_text(format, text); }));
}

tutti_status_t tutti_topology_text(const char* topology_file, int nranks, tutti_format_t format, char** text) {
  tutti_topology_query_t query{};
  query.struct_size = sizeof query;
  query.topology_file = topology_file;
  query.nranks = nranks;
  return tutti_topology_query_text(&query, format, text);
}

tutti_status_t tutti_topology_query_text(const tutti_topology_query_t* query, tutti_format_t format, char** text) {
  return report(guarded([&] { return topology_text(query, format, text); }));
}

tutti_status_t tutti_topology_capture(const char* path) {
  return report(guarded([&] { return capture(path); }));
}

tutti_status_t tutti_diagnosis_text(const char* machine_file, tutti_format_t format, char** text, int32_t* problems) {
  return report(guarded([&] { return diagnosis_text(machine_file, format, text, problems); }));
}

tutti_status_t tutti_calibrate(tutti_format_t format, char** text) {
  return report(guarded([&] { return calibrate_host(format, text); }));
}

tutti_status_t tutti_calibrate_if_missing(char** note) {
  return report(guarded([&] { return calibrate_host_if_missing(note); }));
}
