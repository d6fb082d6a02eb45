// What a profiler of the program's is told.
#include <utility>

#include "core/communicator.h"

namespace tutti {

Status Communicator::set_profiler(const tutti_profiler_t* profiler) {
  auto refuse = [] {
    return error(Code::kInvalidUsage, "tutti_comm_set_profiler: calls are under way; wait for them first");
  };
  if (has_calls()) return refuse();
  if (gpu_calls_) gpu_calls_->tell_ended();
  Turn turn = take_turn();
  if (has_calls() || active_ != nullptr) return refuse();
  {
    std::lock_guard lock(profiler_mutex_);
    if (calls_told_ > 0) return refuse();  // by GPUs, which may also come to one of a graph just now
    profiler_ = profiler != nullptr ? *profiler : tutti_profiler_t{};
    has_profiler_.store(profiler != nullptr, std::memory_order_relaxed);
  }
  // Calls that are made again would be known, and told to nobody.
  for (Blocking* call : {&collective_, &send_, &receive_}) call->may_be_repeated = false;
  return {};
}

std::optional<void*> Communicator::tell_begin(const tutti_request& request, uint64_t sequence, const char* algorithm) {
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
  std::lock_guard lock(profiler_mutex_);
  if (!has_profiler()) return {};
  ++calls_told_;
  return profiler_.begin(profiler_.context, &call);
}

void Communicator::tell_end(void* begun, Code code) {
  std::lock_guard lock(profiler_mutex_);
  profiler_.end(profiler_.context, begun, static_cast<tutti_status_t>(code));
  --calls_told_;
}

void Communicator::tell_profiler(tutti_request& request, uint64_t sequence, const char* algorithm) {
  if (!request.is_told) request.profiled = tell_begin(request, sequence, algorithm);
}

}  // namespace tutti
