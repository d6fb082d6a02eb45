// The analytic cost model: an algorithm says which work each rank does, the model says how long that takes on a
// Topology.
//
// time = hops * latency + turns on shared processors + pipeline fill + the slowest of
//   - each rank's own processor time (copies, reductions, per-message work),
//   - each host's processor time, divided among its processors (ranks that share one take turns),
//   - each host's network traffic, and that of its memory,
//   - where ranks sit on GPUs: what each wire between these and each of their memories carries.
// Integers throughout, so that every rank computes the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/footprint.h"
#include "planner/planner.h"
#include "planner/rates.h"
#include "planner/wire_load.h"

namespace tutti {

// What an algorithm predicts through slots, or by pulls if that is quicker and calls of this size find it out.
// `inputs.request` stands for its size class.
Prediction predict_quicker(Prediction (*predict)(const CostInputs& inputs, const PlanShape& shape),
                           const CostInputs& inputs, const PlanShape& shape);

// What a message costs beside its way: on mapped memory the sender stores the payload and the receiver reads it in
// place.
enum class Payload : uint8_t {
  kCopied,    // the sender copies it into a slot, or the receiver pulls it into one of its own
  kPartial,   // a reduction stores it straight into the slot, where it may be larger than its contributions
  kStored,    // computed or received, and stored `into` the receiver's output: a copy there, or pulled
  kDelivered, // from the sender's buffer to the receiver's: through a slot, or pulled
};

class Work {
 public:
  // `inputs` and `shape` outlive the Work.
  Work(const CostInputs& inputs, const PlanShape& shape);

  // `times` payloads of `bytes` each travel from `from` to `to`, slice by slice.
  void send(int from, int to, uint64_t bytes, Payload payload, int times = 1);
  // The same payload from `from` to every other rank, one behind the other: stored once for all that it shares memory
  // with, where its messages are as large as that takes (kLeastCommonBytes).
  void send_to_others(int from, uint64_t bytes, Payload payload);
  // `times` over `rank` combines `sources` pieces of `bytes` into one.
  void reduce(int rank, int sources, uint64_t bytes, int times = 1);
  // `rank` combines its own piece with those that all others have sent by send_to_others().
  void reduce_all(int rank, uint64_t bytes);
  // As reduce() where the pieces are partial results, or the one is.
  void reduce_partial(int rank, int sources, uint64_t bytes, int times = 1);

  // Slices that a chunk of `bytes` (over all channels) takes on one channel.
  uint64_t slices_of(uint64_t bytes) const;

  // So many messages over the links of the sends since the last call wait for each other one after the other.
  void end_phase(uint64_t hops);

  // `hops`: further messages that wait for each other one after the other. `fill`: how many of all carry their slice
  // while the ranks further on have nothing to do yet; elsewhere the ranks' own work covers the way.
  Prediction predict(uint64_t hops, uint64_t fill = 0) const;

 private:
  struct SlotRates {
    uint64_t store_bytes_per_s = 1;
    uint64_t load_bytes_per_s = 1;
  };
  // What a system call on a socket costs besides the call, of one core.
  struct SocketRates {
    uint64_t send_bytes_per_s = 1;
    uint64_t receive_bytes_per_s = 1;
  };
  // What one end does for a payload, as it was priced last.
  struct PricedCalls {
    uint64_t messages = 0;
    uint64_t bytes = 0;
    uint64_t ns = 0;
  };
  struct Host {
    uint64_t cpus = 1;
    // Of one rank: with its share of the memory's bandwidth, or within its caches.
    uint64_t own_copy_bytes_per_s = 1;  // between its own buffers
    uint64_t cached_copy_bytes_per_s = 1;
    uint64_t staging_bytes_per_s = 1;   // into memory that a device moves, or out of it
    SlotRates slots;                    // into slots that another core reads, or out of those that it stores into
    SlotRates small_slots;              // of messages whose places stay in the caches of both cores
    uint64_t small_below = 0;           // which are those of less
    uint64_t others = 1;                // ranks, of which so many are on other processors where they take turns
    uint64_t others_apart = 1;
    // What passes through a slot comes from another processor's caches. Where ranks take turns, and caches hold it all,
    // that is so of as many payloads of `peers` as are from ranks of other processors, and of what all read in one slot
    // once for each of these: who has the processor next finds it there.
    uint64_t peers = 1;
    uint64_t peers_apart = 1;
    uint64_t cpus_apart = 1;
    bool takes_lines_back = false;      // to store into a slot, from the core that has read it
    uint64_t settle_ns = 0;             // of a slot's last stores, of kSettledBytes
    uint64_t memory_copy_bytes_per_s = 1;
    uint64_t memory_ns = 0;             // to read and write what of the callers' buffers is in no cache
    uint64_t reduce_bytes_per_s = 1;
    bool pulls = false;                 // its ranks do, from others of it
    uint64_t pull_ns = 0;
    uint64_t pull_bytes_per_s = 1;
    uint64_t send_ns = 1;               // of one system call on a socket that sends
    uint64_t receive_ns = 1;            // and of one that receives
    SocketRates sockets;                // of messages of up to kTcpBlockBytes
    SocketRates large_sockets;          // of kLargeTcpBlockBytes and more
    PricedCalls last_sent, last_received;  // most of a call are alike, and each takes divisions
    uint64_t l2_bytes = 0;              // of a processor; 0: unknown
    uint64_t socket_bytes = 0;          // that its ranks send over sockets, in all
    uint64_t window_bytes = 0;          // of these, what may be on the way in each hop, over all hops
    uint64_t turn_ns = 0;               // until a waiting rank gets its turn, 0 when each has its own processor
    uint64_t network_bytes_per_s = 1;
    uint64_t network_bytes = 0;
  };

  // Of a hop, where ranks wait for some that wait for them, and where all flows one way and senders are ahead.
  struct HopNs {
    uint64_t mutual = 0;
    uint64_t one_way = 0;
  };
  void count_hop(HopNs ns);

  // Whether the sender stores a payload for this receiver alone, for others too, or has for an earlier one, with whom
  // it shares the slot.
  enum class Slot : uint8_t { kOwn, kCommon, kFilled };
  // Both say whether the payload went into a slot.
  bool send(int from, int to, uint64_t bytes, Payload payload, int times, Slot slot);
  // Adds what it costs both ends to bring payloads over mapped memory.
  static bool map(const Host& sender, const Host& receiver, bool may_pull, Payload payload, uint64_t messages,
                  uint64_t bytes, Slot slot, uint64_t& sender_ns, uint64_t& receiver_ns);
  static uint64_t pulling_ns(const Host& receiver, uint64_t messages, uint64_t bytes);
  static uint64_t small_below(const TopologyHost& host, const Request& request);
  // All of such a call, its slots included, while ranks take turns on processors.
  static bool stays_in_caches(const TopologyHost& host, const Request& request);
  static const SlotRates& slots_for(const Host& host, uint64_t message_bytes);
  static uint64_t reading_ns(const Host& host, uint64_t bytes);
  static uint64_t in_turns_ns(const Host& host, uint64_t bytes, uint64_t bytes_per_s, uint64_t apart);
  static uint64_t storing_ns(const Host& host, uint64_t messages, uint64_t bytes, Slot slot);
  static uint64_t loading_ns(const Host& host, uint64_t messages, uint64_t bytes, Slot slot);
  static uint64_t settling_ns(const Host& sender, uint64_t message_bytes);
  static uint64_t arrival_ns(const Host& host, uint64_t messages, uint64_t bytes, Slot slot);
  void reduce(int rank, int sources, uint64_t bytes, int times, Slot slot);
  void add_own_blocks(const Request& request);
  void send_between_gpus(int from, int to, uint64_t messages, uint64_t bytes, Payload payload,
                         const TopologyLink& link);
  bool is_on_gpu(int rank) const { return topology_.ranks[rank].gpu >= 0; }
  static uint64_t socket_ns(Host& host, uint64_t messages, uint64_t bytes, uint64_t SocketRates::*end);
  static uint64_t overflow_ns(const Host& host, uint64_t turns);
  // What giving up the processor to others costs, where ranks share one.
  uint64_t turns_ns(uint64_t hops) const;
  // Along a tree or a star, from the root or to it, without telling anybody first where it goes.
  bool flows_one_way() const;
  // Where all ranks take turns, of calls one after the other that flow one way a single hop is waited for: while the
  // messages of one are on their way, ranks have those of others to do.
  bool follows_without_waiting() const;
  // And over sockets, where messages wait in the kernel, the next call fills what one of a single slice leaves idle.
  bool is_filled_by_next() const;
  Host make_host(const TopologyHost& host, const Request& request, int workers, int lanes) const;
  Footprint footprint_on(const TopologyHost& host, const Request& request) const;
  uint64_t memory_ns_of(const TopologyHost& host, const Footprint& footprint, const Residence& residence) const;
  static void price_pulls(Host& made, const Inventory& inventory, const Residence& residence, uint64_t threads);
  static void price_sockets(Host& made, const Costs& costs);
  Host& host_of(int rank) { return hosts_[topology_.ranks[rank].host]; }
  const Host& host_of(int rank) const { return hosts_[topology_.ranks[rank].host]; }
  // Of messages that come one after the other, as many as are from ranks on other processors.
  void fetch_lines(int rank, uint64_t ns);
  // What a rank does. Where it takes turns it fetches the line of each message from another processor, one by one, when
  // its turn has come, as measured also that of which the hop has a way; of what flows one way those of several calls
  // are there then, and come at the same time.
  uint64_t busy_ns(size_t rank) const;
  // The same with its part of what the others of its host do where they take turns: as much of it as keeps all
  // processors equally busy if all ranks have as much to do.
  uint64_t with_others(size_t rank, uint64_t own_ns, uint64_t all_ns) const;

  const Topology& topology_;
  const PlanShape& shape_;
  const bool has_root_;
  const uint64_t growth_;    // of partial results; two ranks have none
  std::vector<Host> hosts_;
  std::vector<uint64_t> rank_ns_;
  std::vector<uint64_t> sending_ns_;  // of that, in system calls that send
  std::vector<uint64_t> lines_ns_;    // to fetch messages' lines in turns, which not all calls wait for (busy_ns())
  // Of topologies with ranks on GPUs.
  std::optional<WireLoad> wires_;
  std::vector<uint64_t> gpu_ns_;  // what the rank's kernel has to do beside moving data
  uint64_t turn_ns_ = 0;       // the longest of the hosts whose processors send or receive
  bool has_common_slots_ = false;  // send_to_others() has filled slots that several ranks read
  uint64_t sends_ = 0;         // pairs of ranks, each as often as it has payloads of another kind
  uint64_t mapped_sends_ = 0;  // those through shared memory
  uint64_t socket_sends_ = 0;  // and over sockets
  uint64_t most_slices_ = 1;   // from one to the other in one of these
  HopNs hop_ns_;               // the slowest link's, of this phase
  uint64_t ended_hops_ = 0;    // of earlier ones
  HopNs ended_hops_ns_;
  HopNs slowest_hop_ns_;
  // Of calls one after the other in which some only send, and are ahead of their receivers: these find a message in
  // shared memory there, and wait for about half of one's way over a socket, as measured.
  uint64_t ahead_ns_ = 0;
  // So much of a hop is a system call of the sender, while its receiver has calls of its own to make.
  uint64_t covered_hop_ns_ = 0;
  uint64_t message_ns_ = 0;    // the slowest slice from a sender's memory to its receiver's
};

}  // namespace tutti
