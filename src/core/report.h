// The calling thread's last error that belongs to no communicator: what tutti_last_error(NULL) gives.
#pragma once

#include <string>
#include <string_view>

#include "base/guard.h"
#include "base/status.h"

namespace tutti {

// Keeps the sentence and returns the code for the C caller.
tutti_status_t report(const Status& status) noexcept;
const char* reported();
// A sentence of a communicator for the calling thread, until the next one.
const char* give_sentence(std::string sentence);

// "tutti_start: call is NULL". Entry points say so before anything of theirs is guarded.
inline Status null_argument(std::string_view function, std::string_view argument) noexcept {
  return guarded([&] { return error(Code::kInvalidArgument, "{}: {} is NULL", function, argument); });
}

}  // namespace tutti
