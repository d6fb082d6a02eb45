// What a profiler of the program's is told. All of it with the turn.
#include <utility>

#include "core/communicator.h"

namespace tutti {

Status Communicator::set_profiler(const tutti_profiler_t* profiler) {
  auto refuse = [] {
    return error(Code::kInvalidUsage, "tutti_comm_set_profiler: calls are under way; wait for them first");
  };
  if (has_calls()) return refuse();
  Turn turn = take_turn();
  if (has_calls() || active_ != nullptr) return refuse();
  has_profiler_ = profiler != nullptr;
  profiler_ = has_profiler_ ? *profiler : tutti_profiler_t{};
  // Calls that are made again would be known, and told to nobody.
  for (Blocking* call : {&collective_, &send_, &receive_}) call->may_be_repeated = false;
  return {};
}

void Communicator::tell_begin(tutti_request& request, uint64_t sequence, const char* algorithm) {
  const CallArguments& arguments = request.arguments;
  tutti_profiled_call_t call{.struct_size = sizeof call,
                             .comm_id = id_,
                             .rank = rank_,
                             .nranks = nranks_,
                             .collective = arguments.collective,
                             .datatype = arguments.datatype,
                             .op = is_own(arguments.op) ? request.own_op.number : arguments.op,
                             .root = arguments.root,
                             .peer = arguments.peer,
                             .tag = arguments.tag,
                             .sequence = sequence,
                             .send_bytes = request.geometry.input_bytes,
                             .recv_bytes = request.geometry.output_bytes,
                             .algorithm = algorithm};
  request.profiled = profiler_.begin(profiler_.context, &call);
}

void Communicator::tell_end(tutti_request& request) {
  void* begun = *std::exchange(request.profiled, std::nullopt);
  profiler_.end(profiler_.context, begun, static_cast<tutti_status_t>(request.result.code()));
}

}  // namespace tutti
