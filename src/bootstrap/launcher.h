// From what the environment says to a unique id that all ranks of the job share.
#pragma once

#include "base/config.h"
#include "base/deadline.h"
#include "bootstrap/control.h"
#include "bootstrap/launch.h"
#include "bootstrap/unique_id.h"

namespace tutti::bootstrap {

// At least 32 bytes that only their owner can read, made into a secret.
Result<Secret> read_secret_file(const std::string& path);

// The id that a launch with channel kFd, kSecretFile or kOneHost leads to. Does not block, but for name resolution.
Result<UniqueId> id_of(const Launch& launch, const Config& config);

// Rank 0 makes an id and the others get it through the launcher (kPmix, kPmi1). Blocks until all ranks call it or
// `deadline`. A launcher does this once per process: later calls return the same id, whose meeting point serves again.
Result<JoinInfo> exchange_id(const Launch& launch, const Config& config, Deadline deadline);

}  // namespace tutti::bootstrap
