// The C entry points that show what a communicator and the options hold.
#include <cstring>
#include <span>

#include "base/config.h"
#include "core/api_call.h"
#include "core/fused_calls.h"
#include "core/give_text.h"
#include "base/guard.h"
#include "core/handles.h"
#include "core/tuning_file.h"

namespace tutti {
namespace {

// Words such as "automatic" have no unit.
std::string with_unit(const std::string& value, std::string_view unit) {
  if (value.empty()) return "\"\"";
  bool is_number = value.find_first_not_of("0123456789") == value.npos;
  return is_number && !unit.empty() ? fmt::format("{} {}", value, unit) : value;
}

Status options_text(char** text) {
  Config config = TUTTI_TRY(Config::from_environment());
  const Config defaults;
  std::string lines;
  for (const OptionInfo& option : options()) {
    lines += fmt::format("{:<28} {} (default {}): {}\n", variable_name(option.name),
                         with_unit(value_of(config, option.name), option.unit),
                         with_unit(value_of(defaults, option.name), option.unit), option.meaning);
  }
  return give_text(lines, text);
}

// If the buffers are on GPUs that do calls among themselves. False: such a call goes another way.
Result<bool> fill_for_gpus(tutti_plan_info_t& info, Communicator& communicator, const CallArguments& arguments,
                           tutti_stream_t stream) {
  tutti_request request;
  request.arguments = arguments;
  GpuCalls* gpus = communicator.gpu_calls();
  bool is_own_op = reduces(arguments.collective) && !is_valid(arguments.op);  // or none at all
  if (stream == nullptr || gpus == nullptr || has_counts(arguments.collective) || is_own_op) return false;
  if (is_point_to_point(arguments.collective)) return false;
  // What is wrong with the call is wrong there too. Where its buffers are says nothing yet: they may be named later.
  TUTTI_TRY(geometry_of(arguments, communicator.rank(), communicator.nranks()));
  if (why_not_on_gpus(request) != nullptr) return false;
  info.transport = "gpu";
  if (gpus->programs() == nullptr) {
    info.algorithm = info.candidates = "fused";
    info.channels = 1;
    return true;
  }
  const GpuPrograms::Planned* planned = TUTTI_TRY(gpus->programs()->plan_for(shape_of(request)));
  info.algorithm = planned->plan.shape().algorithm.c_str();
  info.channels = planned->plan.shape().channels;
  info.predicted_ns = planned->predicted_ns;
  info.candidates = planned->candidates.c_str();
  return true;
}

Status plan_info(tutti_comm_t& comm, const tutti_call_t* call, tutti_plan_info_t* info) {
  if (call == nullptr || info == nullptr) {
    return error(Code::kInvalidArgument, "tutti_comm_plan_info: {} is NULL", call == nullptr ? "call" : "info");
  }
  if (info->struct_size < sizeof(size_t)) {
    return error(Code::kInvalidArgument, "tutti_comm_plan_info: set info.struct_size to sizeof(tutti_plan_info_t)");
  }
  Communicator& communicator = *comm.communicator;
  tutti_plan_info_t filled{};
  filled.struct_size = info->struct_size;
  filled.algorithm = filled.candidates = "copy";
  filled.transport = communicator.transports().c_str();
  if (communicator.nranks() > 1) {
    tutti_stream_t stream = nullptr;
    CallArguments arguments = TUTTI_TRY(arguments_of(call, "tutti_comm_plan_info", &stream));
    if (!TUTTI_TRY(fill_for_gpus(filled, communicator, arguments, stream))) {
      const Prepared* prepared = TUTTI_TRY(communicator.plan_for(arguments));
      filled.algorithm = prepared->algorithm.c_str();
      filled.channels = prepared->plan.shape().channels;
      filled.predicted_ns = prepared->predicted_ns;
      filled.candidates = prepared->candidates.c_str();
    }
  }
  std::memcpy(info, &filled, std::min(info->struct_size, sizeof filled));
  return {};
}

Status store_tuning_of(const tutti_comm_t* comm, const tutti_tuned_t* lines, size_t count, const char* path,
                       char** stored) {
  if (comm == nullptr || (lines == nullptr && count > 0)) {
    return error(Code::kInvalidArgument, "tutti_comm_store_tuning: {} is NULL", comm == nullptr ? "comm" : "lines");
  }
  if (comm->communicator->nranks() < 2) {
    return error(Code::kInvalidUsage, "one rank has nothing to choose; store a tuning from two ranks or more");
  }
  TuningTable table{tuned_ranks_of(comm->communicator->topology()), {}};
  for (const tutti_tuned_t& line : std::span(lines, count)) {
    bool follows = !table.collectives.empty() && table.collectives.back().collective == line.collective;
    if (!follows) table.collectives.push_back({line.collective, {}});
    std::string_view algorithm = line.algorithm == nullptr ? kPlannersChoice : line.algorithm;
    table.collectives.back().ranges.push_back({line.up_to_bytes, std::string(algorithm)});
  }
  // What is written is what can be read.
  if (auto checked = parse_tuning(to_json(table)); !checked.ok()) {
    return std::move(checked).status().within("tutti_comm_store_tuning");
  }
  std::string file = TUTTI_TRY(store_tuning(std::move(table), path == nullptr ? "" : path));
  return stored == nullptr ? Status() : give_text(file, stored);
}

}  // namespace
}  // namespace tutti

using namespace tutti;

tutti_status_t tutti_options_text(char** text) {
  return report(guarded([&] { return options_text(text); }));
}

tutti_status_t tutti_comm_topology_text(const tutti_comm_t* comm, tutti_format_t format, char** text) {
  if (comm == nullptr) return report(null_argument("tutti_comm_topology_text", "comm"));
  return comm->keep(guarded([&] { return give_text(comm->communicator->topology(), format, text); }));
}

tutti_status_t tutti_comm_plan_info(tutti_comm_t* comm, const tutti_call_t* call, tutti_plan_info_t* info) {
  return with_communicator(comm, "tutti_comm_plan_info", [&] { return plan_info(*comm, call, info); });
}

tutti_status_t tutti_comm_store_tuning(const tutti_comm_t* comm, const tutti_tuned_t* lines, size_t count,
                                       const char* path, char** stored) {
  Status status = guarded([&] { return store_tuning_of(comm, lines, count, path, stored); });
  return comm == nullptr ? report(status) : comm->keep(status);
}
