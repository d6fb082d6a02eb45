// What the C entry points of calls have in common. `function`: the entry point, for errors.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "core/arguments.h"

namespace tutti {

// "tutti_all_reduce"
inline std::string function_of(Collective collective) { return "tutti_" + std::string(name_of(collective)); }

// For entry points whose calls are made on the host's buffers alone.
inline Status check_stream(std::string_view function, tutti_stream_t stream) {
  if (stream == nullptr) return {};
  return error(Code::kInvalidArgument,
               "{}: calls on streams are made by name, as tutti_all_reduce() is; pass NULL for the stream, and buffers "
               "of the host",
               function);
}
// The same of the buffers. Errors: one is a device's.
Status check_host_buffers(tutti_comm_t& comm, std::string_view function, const CallArguments& arguments);

// Errors: the struct is not as tutti.h says; it has a stream, and `stream`, where that goes, is null. The arguments
// themselves are not looked at.
Result<CallArguments> arguments_of(const tutti_call_t* call, std::string_view function,
                                   tutti_stream_t* stream = nullptr);

// Makes the call, or keeps it for the end of the calling thread's group.
tutti_status_t run_call(tutti_comm_t* comm, tutti_stream_t stream, const CallArguments& arguments);
// A send and a receive as one call.
Status run_pair(tutti_comm_t& comm, tutti_stream_t stream, const CallArguments& send, const CallArguments& receive);

inline const std::byte* input(const void* buffer) { return static_cast<const std::byte*>(buffer); }
inline std::byte* output(void* buffer) { return static_cast<std::byte*>(buffer); }

}  // namespace tutti
