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

inline Status check_stream(std::string_view function, tutti_stream_t stream) {
  if (stream == nullptr) return {};
  return error(Code::kInvalidArgument, "{}: host buffers take no stream; pass NULL (device buffers are not supported)",
               function);
}

// Errors: the struct is not as tutti.h says. The arguments themselves are not looked at.
Result<CallArguments> arguments_of(const tutti_call_t* call, std::string_view function);

// Makes the call, or keeps it for the end of the calling thread's group.
tutti_status_t run_call(tutti_comm_t* comm, tutti_stream_t stream, const CallArguments& arguments);

inline const std::byte* input(const void* buffer) { return static_cast<const std::byte*>(buffer); }
inline std::byte* output(void* buffer) { return static_cast<std::byte*>(buffer); }

}  // namespace tutti
