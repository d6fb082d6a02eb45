// The C boundary lets no exception through.
#pragma once

#include <exception>
#include <new>

#include "base/memory.h"

namespace tutti {

// Runs `body`, which returns a Status; what the standard library throws becomes one too.
template <typename Body>
Status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& failure) {
    return error(Code::kInternal, "unexpected exception: {}; please report this", failure.what());
  }
}

}  // namespace tutti
