// How far one step of something resumable came.
#pragma once

#include <cstdint>

namespace tutti {

enum class Progress : uint8_t {
  kDone,
  kMoved,    // did something, and goes on when it is asked again
  kBlocked,  // did nothing: waits for a peer
};

}  // namespace tutti
