// Readers of a Plan that say whether it is right. Both are pure and need no transport.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "plan/plan.h"

namespace tutti {

struct ValidateOptions {
  // How many slices each chunk has; 0: so many that every lag and slot fills and drains, and then from one to as many,
  // each chunk its own.
  uint64_t slices = 0;
  int slots = 4;              // messages that a stream holds before its sender waits
};

// Bounds; every Put has its Wait with the same `into` and the other way round; a temp or arrival is written before it
// is read; nothing reads and writes one chunk in a step; no deadlock with `slots` messages per stream. The error names
// rank, channel, section and step. Ranks run until they block; puts and waits are deterministic (a Kahn network), so
// what one order of running shows holds for every order.
Status validate(const Plan& plan, const ValidateOptions& options = {});

// Which ranks have one buffer for input and output.
enum class InPlace : uint8_t { kNone, kAll, kSome };

struct CheckOptions {
  uint64_t slices = 3;
  bool equal_slices = true;       // of all chunks; else each has its own number of them, up to `slices`
  int slots = 4;
  InPlace in_place = InPlace::kNone;
  // As far as the shape permits it for a rank: payloads are read when the receiver uses them, not when they are sent,
  // and `into` messages land in the receiver's output when they are sent.
  bool use_permissions = false;
  uint64_t seed = 1;  // of the adversarial schedule: which rank runs next, how long a message stays under way
};

// Runs the Plan on symbolic values, twice back to back: every chunk that a rank's output holds must be what the
// collective means (of this call, not of the other): the data of one rank, or every rank's contribution exactly once,
// finished once; and the same expression on every rank. Nobody leaves a barrier before all have entered it. Validates
// first.
Status check_symbolically(const Plan& plan, const CheckOptions& options = {});

// Everything before a Plan of unknown origin may run: validates it, and checks it symbolically in and out of place with
// the permissions that its shape claims, under a few schedules. Time grows with ranks * steps: seconds for hundreds of
// ranks.
Status prove(const Plan& plan, int slots);

}  // namespace tutti
