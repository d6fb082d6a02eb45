#include "core/api_call.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "core/group.h"
#include "base/guard.h"
#include "core/handles.h"
#include "core/report.h"

namespace tutti {
namespace {

// A copy of the caller's struct, which may be of another size than ours.
Result<tutti_call_t> full_call(const tutti_call_t* call, std::string_view function) {
  if (call == nullptr) return null_argument(function, "call");
  tutti_call_t full{};
  if (call->struct_size < offsetof(tutti_call_t, count) + sizeof(call->count)) {
    return error(Code::kInvalidArgument, "{}: set call.struct_size to sizeof(tutti_call_t); it is {}", function,
                 call->struct_size);
  }
  std::memcpy(&full, call, std::min(call->struct_size, sizeof full));
  auto* bytes = reinterpret_cast<const char*>(call);
  if (call->struct_size > sizeof full &&
      std::any_of(bytes + sizeof full, bytes + call->struct_size, [](char b) { return b != 0; })) {
    return error(Code::kInvalidArgument, "{}: the call sets fields that this version of tutti ({}) does not know",
                 function, TUTTI_VERSION);
  }
  return full;
}

}  // namespace

Result<CallArguments> arguments_of(const tutti_call_t* given, std::string_view function, tutti_stream_t* stream) {
  tutti_call_t call = TUTTI_TRY(full_call(given, function));
  if (call.flags != 0) {
    return error(Code::kInvalidArgument, "{}: flags {:#x} are not known; set 0", function, call.flags);
  }
  if (stream == nullptr) TUTTI_TRY(check_stream(function, call.stream));
  if (stream != nullptr) *stream = call.stream;
  if (call.timeout_ms < 0) {
    return error(Code::kInvalidArgument, "{}: timeout_ms {} is negative", function, call.timeout_ms);
  }
  bool is_barrier = call.collective == TUTTI_BARRIER;
  bool is_direct = is_point_to_point(call.collective);
  return CallArguments{.collective = call.collective,
                       .datatype = is_barrier ? TUTTI_INT8 : call.datatype,
                       .op = reduces(call.collective) ? call.op : TUTTI_SUM,
                       .root = has_root(call.collective) ? call.root : -1,
                       .count = is_barrier ? 0 : call.count,
                       .input = static_cast<const std::byte*>(call.send_buffer),
                       .output = static_cast<std::byte*>(call.recv_buffer),
                       .send_counts = call.send_counts,
                       .send_displacements = call.send_displacements,
                       .recv_counts = call.recv_counts,
                       .recv_displacements = call.recv_displacements,
                       .timeout_ms = call.timeout_ms,
                       .peer = is_direct ? call.peer : -1,
                       .tag = is_direct ? call.tag : 0,
                       .message = call.collective == TUTTI_RECV ? call.message : nullptr,
                       .completed = call.completed,
                       .context = call.context};
}

Status check_host_buffers(tutti_comm_t& comm, std::string_view function, const CallArguments& arguments) {
  if (!comm.communicator->may_need_stream(arguments)) return {};
  if (!TUTTI_TRY(comm.communicator->need_stream({&arguments, 1}, nullptr))) return {};
  return error(Code::kInvalidArgument,
               "{}: a buffer is a device's; calls on device buffers are made by name, as tutti_all_reduce() is",
               function);
}

namespace {

// Makes calls that are one for the caller: at once, or at the end of the calling thread's group. `run` does so on the
// host.
template <typename Run>
Status run_calls(tutti_comm_t& comm, tutti_stream_t stream, std::span<const CallArguments> calls, Run&& run) {
  Communicator& communicator = *comm.communicator;
  Group& group = Group::of_thread();
  bool may_need = stream != nullptr;
  for (const CallArguments& arguments : calls) may_need = may_need || communicator.may_need_stream(arguments);
  Result<bool> needs = may_need ? communicator.need_stream(calls, stream) : false;
  if (!needs.ok()) {
    if (group.is_open()) group.refuse(comm, needs.status());
    return std::move(needs).status();
  }
  if (!group.is_open()) return *needs ? communicator.run_on_stream(calls, stream) : run();
  for (const CallArguments& arguments : calls) {
    TUTTI_TRY(group.add(comm, arguments, *needs ? std::optional(stream) : std::nullopt));
  }
  return {};
}

}  // namespace

tutti_status_t run_call(tutti_comm_t* comm, tutti_stream_t stream, const CallArguments& arguments) {
  if (comm == nullptr || comm->is_parents()) [[unlikely]] {
    return report(guarded([&] {
      std::string function = function_of(arguments.collective);
      return comm == nullptr ? null_argument(function, "comm") : refuse_after_fork(function);
    }));
  }
  return comm->keep(guarded([&] {
    return run_calls(*comm, stream, {&arguments, 1}, [&] { return comm->communicator->run(arguments); });
  }));
}

Status run_pair(tutti_comm_t& comm, tutti_stream_t stream, const CallArguments& send, const CallArguments& receive) {
  return run_calls(comm, stream, std::array{send, receive},
                   [&] { return comm.communicator->run_both(send, receive); });
}

}  // namespace tutti
