// Links: one communicator's transports, its arena, and the peers it is connected to.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/fd.h"
#include "base/progress.h"
#include "base/status.h"
#include "core/facts.h"
#include "core/memory_registry.h"
#include "core/waiting_cpu.h"
#include "executor/call.h"
#include "executor/stream_layout.h"
#include "topology/topology.h"
#include "tutti/tutti.h"
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

  // A step of connecting those of `ranks` that are not connected yet, which they must do too. Does
  // not block; kDone: all are.
  Result<Progress> connect(std::span<const int32_t> ranks);
  // The first of `ranks` that is not connected; -1 if all are.
  int first_unconnected(std::span<const int32_t> ranks) const;
  // What stood in the way of a connection so far: " to connect over tcp (10.0.0.2:4711: no answer)".
  std::string connect_report(int rank) const;

  // The ranks that are connected.
  Peers& peers() { return peers_; }
  // By channel of collectives.
  std::span<CommonSlots> common_slots() { return common_slots_; }
  const StreamLayout& layout() const { return layout_; }
  // Of the arena, and of the peers.
  tutti_comm_memory_t memory() const;
  // The transport to `rank`, or what its link has gone over to: "shm". Until it is connected, the one that it will be.
  std::string_view transport_to(int rank) const;

  // Where `region` is for peers that can map it or put into it: shares it with all that are connected, for the call
  // that is about to begin. None when no peer can.
  Result<Window> share(const MemoryRegion& region, const std::byte* data);
  // What the peers, or `rank` alone, may be told of memory in which their puts land without a copy until
  // land_no_more(), as far as their links can.
  static constexpr int kEveryRank = -1;
  Window land_in(std::span<std::byte> memory, int rank = kEveryRank);
  void land_no_more(const Window& landing, int rank = kEveryRank);
  bool has_peers_that_land() const { return peers_that_land_ > 0; }
  // Whether a peer reaches memory of this rank's caller: by mapping it, or because its puts land there.
  bool has_peers_in_memory() const { return peers_in_memory_ > 0; }
  // Whether `rank` waited last on the processor that this one waits on, and neither has another one to go to.
  bool shares_cpu_with(int rank);
  // While this one waits without spinning: goes where fewer of its host's `ranks` wait.
  void even_out(size_t ranks) { waiting_cpu_.even_out(ranks, peers_); }
  // Between the two a region that was shared stays where peers' puts reach it, whatever else is shared. Counted.
  void hold(uint64_t key);
  void let_go(uint64_t key);
  // The transport that reaches memory of GPUs by itself; null if there is none.
  Transport* device_transport() const;
  // Any thread. Whether, as far as is known, that joins this rank to all others.
  bool may_reach_all_device_memory() const { return reaches_all_device_memory_.load(std::memory_order_acquire); }
  // Any thread: whether the link to `rank` is one of it. Not before it is connected.
  bool reaches_device_memory(int rank) const { return reaches_device_memory_[rank].load(std::memory_order_acquire); }
  // To be asked as calls use it: a link that has gone over to TCP would wait for each copy, so from the next call on
  // what it sends of GPUs and receives there is staged.
  void look_at_carrier(int rank);
  // Where that is for a peer that puts into it, which knows of it from here on if its link reaches it. `told`: to whom
  // this was told before.
  Result<Window> share_device_memory(int rank, const LocalMemory& memory, const std::byte* data, std::set<int>& told);
  // Takes a region that was shared back from the peers.
  void forget(uint64_t key);

  // Announces on all links that this rank is about to sleep, and adds to `waits` what wakes it. The end of the result
  // takes it back.
  struct Disarm {
    void operator()(Links* links) const { links->disarm(); }
  };
  using Armed = std::unique_ptr<Links, Disarm>;
  Armed arm(WaitSet& waits);

  // Any thread: wakes this rank if it sleeps.
  void ring() noexcept;
  // Any thread: the same, and makes every link fail from now on.
  void abort() noexcept;
  // After abort(): waits until no peer is in memory of this rank's caller any more, for a fraction of a second at most:
  // a peer that is stopped or killed there never leaves it.
  void await_accesses() noexcept;

 private:
  struct Exported {
    const LocalMemory* memory = nullptr;
    std::shared_ptr<const void> owner;  // of the region, until it is released
  };
  struct Carrier {
    std::unique_ptr<Transport> transport;
    bool shares = false;                  // memory of the caller, too
    const LocalMemory* arena = nullptr;
    std::map<uint64_t, Exported> shared;  // by MemoryRegion::key
  };

  Links(const TransportContext& context, const Config& config);
  Status open_carrier(std::unique_ptr<Transport> transport, bool shares);
  // The one for ranks of other hosts, where there is a device; that there is none is an error only if it is a must.
  Status open_verbs(const TransportContext& context, const Config& config);
  Status export_over(Carrier& carrier, const MemoryRegion& region);
  Carrier* carrier_named(std::string_view name);
  // One end of a connection, from its first step on.
  struct End {
    std::unique_ptr<Link> link;
    Carrier* carrier = nullptr;
    const TransportFacts* peer = nullptr;  // what the peer said about that transport
    bool joined = false;                   // the link is connected; what is missing is the peer's arena
  };
  Status open(int rank, std::string_view transport);
  // After `why`, when both ends have found that their transport does not work: over TCP, if both have it.
  Status open_instead(int rank, const Status& why);
  Result<Progress> connect_one(int rank);
  Status share_with(Carrier& carrier, Link& link);
  void disarm();

  const int rank_;
  StreamLayout layout_;
  Fd wake_;                                // an eventfd, by which ring() reaches a rank without links too
  std::atomic<bool> rung_{false};          // since the last sleep
  Fd arena_fd_;
  std::shared_ptr<Mapping> arena_;         // also held by what carriers_ exported, and peers of this process found
  std::vector<Carrier> carriers_;          // best first
  std::vector<Facts> facts_;
  const Topology* topology_ = nullptr;
  std::mutex ends_mutex_;                  // guards ends_ against abort() from other threads
  std::vector<End> ends_;                  // by rank
  Peers peers_;                            // by rank; refer to ends_
  std::vector<CommonSlots> common_slots_;  // by channel; refer to peers_
  std::vector<std::atomic<bool>> reaches_device_memory_;  // by rank
  std::atomic<bool> reaches_all_device_memory_{false};    // the links that there are do, and the others would
  int peers_in_memory_ = 0;                // of peers_
  int peers_that_land_ = 0;                // of them
  uint64_t next_landing_ = 0;              // where in kLanding
  WaitingCpu waiting_cpu_;
};

}  // namespace tutti
