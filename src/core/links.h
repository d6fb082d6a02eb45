// Links: one communicator's transports, its arena, and the peers it is connected to.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/fd.h"
#include "base/status.h"
#include "core/facts.h"
#include "core/failure.h"
#include "core/memory_registry.h"
#include "executor/call.h"
#include "executor/stream_layout.h"
#include "topology/topology.h"
#include "transports/loopback/hub.h"
#include "transports/transport.h"

namespace tutti {

class Links {
 public:
  // Opens the transports that `config` allows and shares the arena over them. Does not block.
  static Result<std::unique_ptr<Links>> create(const TransportContext& context, const Config& config,
                                               std::shared_ptr<LoopbackHub> hub);
  ~Links();

  // For the Facts of this rank.
  std::vector<TransportFacts> facts() const;
  // Everyone's facts and the Topology, before connect().
  void learn(std::vector<Facts> facts, const Topology& topology);

  // Connects those of `ranks` that are not connected yet. All ranks of the communicator that a rank connects to must do so at
  // the same time. Blocks until `deadline`, or until `failure` happens; `waits_for` is the rank that it waits for.
  Status connect(std::span<const int32_t> ranks, Deadline deadline, const Failure& failure, std::atomic<int>& waits_for);

  Peers& peers() { return peers_; }
  const StreamLayout& layout() const { return layout_; }
  // Whether a peer lives in this process, and so uses this rank's memory as it is.
  bool any_in_process() const;
  // The transport to `rank`: "shm".
  std::string_view transport_to(int rank) const;

  // Where `region` is for peers that can map it: shares it with all that are connected. None when no peer can map memory.
  Result<Window> share(const MemoryRegion& region, const std::byte* data);
  // Takes a region that was shared back from the peers.
  void forget(uint64_t key);

  // Any thread: wakes this rank if it sleeps, and makes every link fail from now on.
  void ring() noexcept;
  void abort() noexcept;

 private:
  struct Exported {
    const LocalMemory* memory = nullptr;
    std::shared_ptr<const void> owner;  // of the region, until it is released
  };
  struct Carrier {
    std::unique_ptr<Transport> transport;
    const LocalMemory* arena = nullptr;
    std::map<uint64_t, Exported> shared;  // by MemoryRegion::key
  };

  Links(const TransportContext& context, const Config& config);
  Status open_carrier(std::unique_ptr<Transport> transport);
  Carrier* carrier_to(int rank);
  Status connect_one(int rank, Deadline deadline, const Failure& failure);
  Status share_with(Carrier& carrier, Link& link);

  const int rank_;
  StreamLayout layout_;
  Fd arena_fd_;
  Mapping arena_;
  std::vector<Carrier> carriers_;          // best first
  std::vector<Facts> facts_;
  const Topology* topology_ = nullptr;
  std::mutex links_mutex_;                 // guards links_ against abort() from other threads
  std::vector<std::unique_ptr<Link>> links_;  // by rank
  Peers peers_;                            // by rank; refer to links_
};

}  // namespace tutti
