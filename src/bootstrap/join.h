// How one process joins: meets the others, connects its part of the overlay.
#pragma once

#include "base/config.h"
#include "base/deadline.h"
#include "bootstrap/control.h"
#include "bootstrap/overlay.h"

namespace tutti::bootstrap {

// What a test may want otherwise.
struct JoinOptions {
  HostIdentity host = HostIdentity::here();
  bool unix_socket = true;
  int64_t silence_ms = 10'000;  // after which a neighbour on another host counts as lost
  uint16_t version = kWireVersion;
};

struct Joined {
  std::unique_ptr<Overlay> overlay;
  uint64_t job = 0;
  Secret token{};
};

// Blocks until all ranks have joined or `deadline`.
Result<Joined> join(const JoinInfo& info, const Config& config, const JoinOptions& options, Deadline deadline);

// The same as ControlPlane::join() with these options.
Result<std::unique_ptr<ControlPlane>> join_control_plane(const JoinInfo& info, const Config& config,
                                                         const JoinOptions& options, Deadline deadline);

}  // namespace tutti::bootstrap
