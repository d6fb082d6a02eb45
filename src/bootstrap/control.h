// The control plane: how ranks meet, agree, and later learn that one of them has gone. After join() no rank is special:
// every rank holds O(log n) authenticated connections (to rank +- 2^k), and any one rank may die without cutting the
// others off.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/deadline.h"
#include "base/status.h"
#include "tutti/tutti.h"

namespace tutti {

// Who this process is, and how it finds the others: from a unique id, or from the launcher's environment.
struct JoinInfo {
  int rank = 0;
  int nranks = 1;
  tutti_unique_id_t id{};  // address and secret; see bootstrap/unique_id.h
  std::string launcher;    // "tutti run", "torchrun", "Open MPI", "hydra", "Slurm", "unique id", "none"
};

// What the engine is told by the control plane, on the engine's thread.
struct ControlEvents {
  std::function<void(int rank, Status why)> on_lost;   // `rank` died or left without saying goodbye: once per rank
  // `rank` left in good order before others did. Neighbours hear of every one, others once they have sent it something
  // in vain.
  std::function<void(int rank)> on_left;
  std::function<void(int rank, Status why)> on_abort;  // `rank` aborted the communicator
  std::function<void(int rank, uint32_t type, std::span<const std::byte>)> on_message;
};

class ControlPlane {
 public:
  virtual ~ControlPlane() = default;

  // Meets the other ranks and connects the overlay. Blocks until all have joined or `deadline`; the error names the
  // ranks that are missing, or what differs between ranks (version, size, two processes with one rank).
  static Result<std::unique_ptr<ControlPlane>> join(const JoinInfo& info, const Config& config, Deadline deadline);

  virtual int rank() const = 0;
  virtual int nranks() const = 0;
  // 32 bytes known to the ranks of this communicator only, and a 64-bit number that tells it from others.
  virtual std::span<const std::byte> token() const = 0;
  virtual uint64_t job() const = 0;

  // Everyone's bytes in rank order (sizes may differ, at most 1 MiB each). Collective; only before start(). `what` is
  // for the error: "waiting for the topology of ranks 3, 5". After a passed deadline the ranks that came take half a
  // second to find out who did not.
  virtual Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine, std::string_view what,
                                                                 Deadline deadline) = 0;

  // From now on `events` are delivered on a thread of the control plane, which sleeps while nothing happens.
  virtual Status start(ControlEvents events) = 0;

  // Sends a message to any rank (routed over the overlay). Does not block; lost if that rank is gone. Any thread.
  virtual void send(int to, uint32_t type, std::span<const std::byte> payload) = 0;
  // Tells all ranks that the communicator is aborted. Any thread, does not block.
  virtual void abort(const Status& why) = 0;
  // Leaves in good order. Until `others`, if that is given, it first waits for all other ranks to leave too: those that
  // still exchange messages may need this one to pass them on. Events are delivered meanwhile; a rank that is lost or
  // an abort, also of this rank, ends the wait. Then it says goodbye, waits until the neighbours have heard it or
  // `deadline`, and closes. No events afterwards. kTimeout names the ranks that did not leave until `others`.
  virtual Status leave(std::optional<Deadline> others, Deadline deadline) = 0;
};

// Asks the environment who this process is. Without a launcher: rank 0 of 1. Contradictory variables, or several hosts
// without a channel for the secret, are errors that say what to do.
Result<JoinInfo> detect_launcher(const Config& config, Deadline deadline);

}  // namespace tutti
