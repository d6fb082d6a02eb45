// The C entry points that show plans without a communicator.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/config.h"
#include "core/arguments.h"
#include "core/give_text.h"
#include "base/guard.h"
#include "core/prepared.h"
#include "core/report.h"
#include "core/tuning_file.h"
#include "core/topology_query.h"
#include "plan/text.h"
#include "planner/explain.h"
#include "planner/gpu_tuning.h"
#include "planner/planner.h"

namespace tutti {
namespace {

Status check_ranks(int nranks) {
  if (nranks >= 0 && nranks <= kMaxPlanRanks) return {};
  return error(Code::kInvalidArgument, "{} ranks are not possible; the most is {}", nranks, kMaxPlanRanks);
}

Result<Request> request_of(const tutti_plan_query_t& query) {
  if (!is_valid(query.collective))
    return error(Code::kInvalidArgument, "collective {} does not exist", static_cast<int>(query.collective));
  if (!is_valid(query.datatype))
    return error(Code::kInvalidArgument, "datatype {} does not exist", static_cast<int>(query.datatype));
  if (!is_valid(query.op))
    return error(Code::kInvalidArgument, "operation {} does not exist", static_cast<int>(query.op));
  TUTTI_TRY(check_ranks(query.nranks));
  if (query.count > uint64_t{1} << 60)
    return error(Code::kInvalidArgument, "{} elements are more than any memory holds", query.count);
  Request request;
  request.collective = query.collective;
  request.datatype = query.datatype;
  request.op = query.op;
  request.count = query.count;
  return request;
}

// What depends on the number of ranks.
Status complete(Request& request, int root, int nranks) {
  CallArguments call{.collective = without_counts(request.collective),
                     .datatype = request.datatype,
                     .op = request.op,
                     .root = has_root(request.collective) ? root : -1,
                     .count = request.count};
  request.root = call.root;
  request.count = TUTTI_TRY(geometry_of(call, 0, nranks)).plan_count;
  if (has_private_counts(request.collective)) request.count = count_of_unknown_blocks(request.datatype, nranks);
  return {};
}

Status plan_text(const tutti_plan_query_t* given, tutti_format_t format, char** text) {
  if (given == nullptr || given->struct_size < offsetof(tutti_plan_query_t, count) + sizeof(given->count)) {
    return error(Code::kInvalidArgument, "tutti_plan_text: the query is NULL or its struct_size is not set");
  }
  TUTTI_TRY(check_format(format));
  tutti_plan_query_t query{};
  std::memcpy(&query, given, std::min(given->struct_size, sizeof query));
  Request request = TUTTI_TRY(request_of(query));
  Config config = TUTTI_TRY(Config::from_environment());
  Tuning tuning = tuning_from(config);
  if (query.algorithm != nullptr) tuning.algorithm = query.algorithm;
  TopologyQuery asked = TUTTI_TRY(topology_query(query.topology_file, query.nranks, query.hosts, query.place));
  Topology topology = TUTTI_TRY(topology_for(config, asked));
  TUTTI_TRY(check_ranks(topology.nranks()));
  TUTTI_TRY(complete(request, query.root, topology.nranks()));
  tuning.measured = TUTTI_TRY(load_tuning(config, topology)).collectives;
  if (are_calls_of_gpus(topology, request.collective)) tuning = tuning_for_gpus(std::move(tuning), request);
  Choice choice = TUTTI_TRY(choose(topology, request, tuning));
  ExplainOptions options{query.explain != 0, query.steps != 0};
  bool json = format == TUTTI_FORMAT_JSON;
  return give_text(json ? to_json(topology, request, choice, options) : to_text(topology, request, choice, options),
                   text);
}

Status check_file(const char* path, bool steps, char** text) {
  if (path == nullptr || *path == '\0')
    return Status(Code::kInvalidArgument, "path is empty; name the plan file to check");
  Config config = TUTTI_TRY(Config::from_environment());
  Plan plan = TUTTI_TRY(read_plan_file(path, static_cast<int>(config.slots)));
  const PlanShape& shape = plan.shape();
  std::string described = fmt::format(
      "{} is a valid plan: {} by \"{}\", {} ranks\n  shape  {}\n  proven with {} slots, in and out of place\n", path,
      name_of(shape.collective), shape.algorithm, shape.nranks, shape_text(shape), config.slots);
  return give_text(steps ? described + steps_text(plan) : described, text);
}

}  // namespace
}  // namespace tutti

using namespace tutti;

tutti_status_t tutti_plan_text(const tutti_plan_query_t* query, tutti_format_t format, char** text) {
  return report(guarded([&] { return plan_text(query, format, text); }));
}

tutti_status_t tutti_plan_check_file(const char* path, int steps, char** text) {
  return report(guarded([&] { return check_file(path, steps != 0, text); }));
}
