#include "planner/cost.h"

#include <algorithm>
#include <utility>

#include "plan/payload_sizes.h"
#include "planner/rates.h"
#include "planner/shape.h"
#include "topology/caches.h"
#include "topology/units.h"

namespace tutti {
namespace {

// An executor's step that sends or receives, without data: instructions of ours, which calibration has no part of to
// measure.
constexpr uint64_t kMessageNs = 10;
// The same where ranks take turns, since others have used the caches, as measured among 4 and 8 on 2 processors.
constexpr uint64_t kMessageInTurnsNs = 20;
// From when a message is there until its receiver, which waits for it, has gone on.
constexpr uint64_t kHopNs = 25;
// Of a message that an RDMA device moves, assumed: to tell the device of it and hear that it has left, and to take one.
constexpr uint64_t kPostNs = 150;
constexpr uint64_t kTakeNs = 100;
// So many slices to a peer are on the way at a time: one that is being sent, and one that is being received.
constexpr uint64_t kSlicesOnTheWay = 2;
// Of a GPU's kernels, assumed: from the call until it runs, and a step that sends or receives, without data.
constexpr uint64_t kLaunchNs = 4000;
constexpr uint64_t kGpuMessageNs = 100;
constexpr uint64_t kGpuHopNs = 180;
// What is staged waits for a copy between a GPU and its host.
constexpr uint64_t kStagingNs = 8000;

bool may_pull(const Topology& topology) {
  return std::any_of(topology.ranks.begin(), topology.ranks.end(), [&](const TopologyRank& rank) {
    const TopologyHost& host = topology.hosts[rank.host];
    return rank.gpu < 0 && host.ranks.size() > 1 && collectives_try_pulls(host.inventory.costs);
  });
}

}  // namespace

Prediction predict_quicker(Prediction (*predict)(const CostInputs& inputs, const PlanShape& shape),
                           const CostInputs& inputs, const PlanShape& shape) {
  Prediction through_slots = predict(inputs, shape);
  // Of the class that ends with kLeastTried all others are less.
  if (inputs.request.size_bytes() <= kLeastTried || !may_pull(inputs.topology)) return through_slots;
  CostInputs pulled{inputs.topology, inputs.request, inputs.tuning, true};
  Prediction by_pulls = predict(pulled, shape);
  return by_pulls.ns < through_slots.ns ? by_pulls : through_slots;
}

Work::Work(const CostInputs& inputs, const PlanShape& shape)
    : topology_(inputs.topology),
      shape_(shape),
      has_root_(has_root(inputs.request.collective)),
      growth_(shape.nranks > 2 ? growth_of_partial_results(inputs.request) : 1),
      rank_ns_(topology_.ranks.size()),
      sending_ns_(topology_.ranks.size()),
      lines_ns_(topology_.ranks.size()) {
  uint64_t bytes = inputs.request.size_bytes();
  int workers = bytes < kLeastSharedBytes ? 1 : std::min(shape.channels, workers_of(topology_, inputs.tuning));
  // Each channel goes over a device of its own, as far as there are any.
  int lanes = std::clamp(topology_.rdma_lanes(), 1, shape.channels);
  for (const TopologyHost& host : topology_.hosts) {
    hosts_.push_back(make_host(host, inputs.request, workers, lanes));
    hosts_.back().pulls = inputs.pulled && collectives_try_pulls(host.inventory.costs);
  }
  if (topology_.has_gpu_ranks()) {
    wires_.emplace(topology_);
    gpu_ns_.resize(topology_.ranks.size());
  }
  add_own_blocks(inputs.request);
  if (topology_.nranks() != 1) return;
  if (is_on_gpu(0)) {
    wires_->touch(0, saturating_mul(2, bytes));
  } else {
    rank_ns_[0] = kMessageNs + ns_for(bytes, hosts_[0].own_copy_bytes_per_s);
  }
}

Footprint Work::footprint_on(const TopologyHost& host, const Request& request) const {
  bool holds_root = has_root_ && &host == &topology_.hosts[topology_.ranks[request.root].host];
  RanksOfHost ranks{topology_.nranks(), static_cast<int>(host.ranks.size()), holds_root};
  return footprint_of(request.collective, request.size_bytes(), false, ranks);
}

// Calls reach three quarters of the traffic of copies, of which each byte is read and written: nine tenths where all
// ranks are as busy, and two thirds where a root is busier. What one rank does alone is a copy. Buffers of GPUs are
// elsewhere, and how many of the host's ranks have some is of no account here. Of several last-level caches the fullest
// stands for all.
uint64_t Work::memory_ns_of(const TopologyHost& host, const Footprint& footprint, const Residence& residence) const {
  if (host.ranks.size() < 2 || topology_.has_gpu_ranks()) return 0;
  uint64_t missing = share_of(footprint.all_bytes, residence.memory, Residence::kWhole);
  return ns_for(missing / 3 * 2, host.inventory.costs.memory_bytes_per_s.value);
}

Work::Host Work::make_host(const TopologyHost& host, const Request& request, int workers, int lanes) const {
  const Inventory& inventory = host.inventory;
  const Costs& costs = inventory.costs;
  Host made;
  made.cpus = inventory.cpu.usable();
  uint64_t ranks = std::max<uint64_t>(1, host.ranks.size());
  // Threads of a rank that have a processor each.
  uint64_t threads = std::clamp<uint64_t>(made.cpus / ranks, 1, static_cast<uint64_t>(workers));
  uint64_t active = std::min(ranks * threads, made.cpus);
  if (takes_turns(host)) {
    made.turn_ns = saturating_mul(ceil_div(ranks - made.cpus, made.cpus), costs.yield_ns.value);
  }

  uint64_t alone = std::max<uint64_t>(1, costs.copy_bytes_per_s.value);
  uint64_t copy = std::min(alone, std::max<uint64_t>(1, costs.memory_bytes_per_s.value / active));
  uint64_t reduce = share_of(costs.reduce_bytes_per_s.value, copy, alone);
  Footprint footprint = footprint_on(host, request);
  Residence residence = residence_of(host, footprint);
  made.memory_ns = memory_ns_of(host, footprint, residence);
  auto copy_rate = [&](uint64_t memory_rate) {
    uint64_t l2 = costs.cached_copy_bytes_per_s.value, last_level = costs.last_level_copy_bytes_per_s.value;
    return saturating_mul(threads, residence.rate(l2, last_level, memory_rate));
  };
  made.own_copy_bytes_per_s = copy_rate(copy);
  made.cached_copy_bytes_per_s = saturating_mul(threads, costs.cached_copy_bytes_per_s.value);
  made.reduce_bytes_per_s = saturating_mul(
      threads, residence.rate(costs.cached_bytes_per_s.value, costs.last_level_bytes_per_s.value, reduce));
  // What is staged is in the caches: of what lies in memory it costs half of a copy's traffic. Where the other core is
  // far away, what that has stored comes from there more slowly than from any cache.
  made.staging_bytes_per_s = copy_rate(saturating_mul(2, copy));
  auto slot_rate = [&](uint64_t bytes_per_s) {
    return std::min(made.staging_bytes_per_s, saturating_mul(threads, bytes_per_s));
  };
  // Of these, calibration's own buffers are in the last level.
  auto large_slot_rate = [&](const Figure& calibrated) {
    uint64_t last_level = costs.last_level_copy_bytes_per_s.value, l2 = costs.cached_copy_bytes_per_s.value;
    if (l2 <= last_level) return slot_rate(calibrated.value);
    uint64_t half_of_saved = saturating_mul(2, rate_without(last_level, l2));
    uint64_t from_l2 = std::max(calibrated.value, std::min(l2, rate_without(calibrated.value, half_of_saved)));
    return slot_rate(residence.rate(from_l2, calibrated.value, calibrated.value));
  };
  made.slots = {large_slot_rate(costs.slot_store_bytes_per_s), large_slot_rate(costs.slot_load_bytes_per_s)};
  made.small_slots = {slot_rate(costs.small_slot_store_bytes_per_s.value),
                      slot_rate(costs.small_slot_load_bytes_per_s.value)};
  made.small_below = small_below(host, request);
  made.others = std::max<uint64_t>(1, ranks - 1);
  made.others_apart = ranks - ceil_div(ranks, made.cpus);
  if (stays_in_caches(host, request)) {
    made.peers = made.others;
    made.peers_apart = made.others_apart;
    made.cpus_apart = made.cpus - 1;
  }
  made.settle_ns = costs.slot_settle_ns.value;
  made.takes_lines_back = are_near(inventory) && !takes_turns(host);
  made.memory_copy_bytes_per_s = copy;
  price_pulls(made, inventory, residence, threads);
  made.send_ns = costs.tcp_send_ns.value;
  made.receive_ns = costs.tcp_receive_ns.value;
  price_sockets(made, costs);
  made.l2_bytes = cache_bytes_per_cpu(inventory);
  made.network_bytes_per_s = host.network_bytes_per_s_over(lanes).value;
  return made;
}

void Work::price_pulls(Host& made, const Inventory& inventory, const Residence& residence, uint64_t threads) {
  const Costs& costs = inventory.costs;
  made.pull_ns = costs.pull_ns.value;
  uint64_t pull = costs.pull_bytes_per_s.value, pull_beyond_l2 = pull;
  if (cache_bytes_per_cpu(inventory) >= kPulledBytes) {
    // What was calibrated stayed in L2. Elsewhere it takes half of what a copy takes longer there.
    uint64_t longer = rate_without(costs.last_level_copy_bytes_per_s.value, costs.cached_copy_bytes_per_s.value);
    pull_beyond_l2 = rate_with(pull, saturating_mul(2, longer));
  }
  uint64_t pull_rate = residence.rate(pull, pull_beyond_l2, pull_beyond_l2);
  made.pull_bytes_per_s = std::min(made.own_copy_bytes_per_s, saturating_mul(threads, pull_rate));
}

void Work::price_sockets(Host& made, const Costs& costs) {
  // The calibrated streams are one block in the caches over and over. What lies in memory instead takes each end as
  // much longer as half a copy does.
  uint64_t uncached = rate_without(made.own_copy_bytes_per_s, made.cached_copy_bytes_per_s);
  // One direction alone is as fast as its sender, whose calls do most of the protocol for both ends.
  auto socket_rates = [uncached](const Figure& one, const Figure& both) {
    uint64_t receiving = rate_without(both.value, one.value);
    return SocketRates{rate_with(one.value, saturating_mul(2, uncached)),
                       rate_with(receiving, saturating_mul(2, uncached))};
  };
  made.sockets = socket_rates(costs.tcp_bytes_per_s, costs.tcp_both_bytes_per_s);
  made.large_sockets = socket_rates(costs.large_tcp_bytes_per_s, costs.large_tcp_both_bytes_per_s);
}

// Out of place a rank copies its own block as well. A broadcast's root does that slice by slice, each right after it
// was stored for the others, so that it is in the second-level cache.
void Work::add_own_blocks(const Request& request) {
  Collective collective = without_counts(request.collective);
  bool of_all = collective == TUTTI_ALL_TO_ALL || collective == TUTTI_ALL_GATHER;
  bool of_root = collective == TUTTI_BROADCAST || collective == TUTTI_GATHER || collective == TUTTI_SCATTER;
  if (!of_all && !of_root) return;
  uint64_t blocks = collective == TUTTI_BROADCAST ? 1 : topology_.nranks();
  for (int rank = 0; rank < topology_.nranks(); ++rank) {
    if (of_root && rank != request.root) continue;
    if (is_on_gpu(rank)) {
      wires_->touch(rank, saturating_mul(2, ceil_div(request.size_bytes(), blocks)));
      continue;
    }
    uint64_t copy_ns = ns_for(ceil_div(request.size_bytes(), blocks), host_of(rank).own_copy_bytes_per_s);
    if (collective == TUTTI_BROADCAST && !host_of(rank).pulls) {
      uint64_t cached_ns = ns_for(request.size_bytes(), host_of(rank).cached_copy_bytes_per_s);
      copy_ns = std::min(copy_ns, saturating_add(copy_ns, cached_ns) / 2);
    }
    rank_ns_[rank] = saturating_add(rank_ns_[rank], copy_ns);
  }
}

uint64_t Work::slices_of(uint64_t bytes) const {
  return std::max<uint64_t>(1, ceil_div(ceil_div(bytes, shape_.channels), shape_.slice_bytes));
}

uint64_t Work::socket_ns(Host& host, uint64_t messages, uint64_t bytes, uint64_t SocketRates::*end) {
  bool sends = end == &SocketRates::send_bytes_per_s;
  uint64_t call_ns = sends ? host.send_ns : host.receive_ns;
  PricedCalls& last = sends ? host.last_sent : host.last_received;
  if (messages == last.messages && bytes == last.bytes) return last.ns;
  uint64_t bytes_per_s = rate_between(host.sockets.*end, host.large_sockets.*end, bytes / messages);
  last = {messages, bytes, saturating_add(saturating_mul(messages, call_ns), ns_for(bytes, bytes_per_s))};
  return last.ns;
}

// What waits in sockets for its receiver has left the second-level caches where all ranks together have more on the way
// than these hold (unknown: they hold it). Then it costs what a copy in memory costs besides.
uint64_t Work::overflow_ns(const Host& host, uint64_t turns) {
  uint64_t on_the_way = host.window_bytes / std::max<uint64_t>(1, turns) / host.cpus;
  bool fits = host.l2_bytes == 0 || on_the_way <= host.l2_bytes;
  if (fits) return 0;
  uint64_t overflows = host.socket_bytes - share_of(host.socket_bytes, host.l2_bytes, on_the_way);
  return ns_for(overflows, host.memory_copy_bytes_per_s) / host.cpus;
}

void Work::send(int from, int to, uint64_t bytes, Payload payload, int times) {
  send(from, to, bytes, payload, times, Slot::kOwn);
}

void Work::send_to_others(int from, uint64_t bytes, Payload payload) {
  uint64_t messages = saturating_mul(slices_of(bytes), shape_.channels);
  bool may_share = bytes / messages >= kLeastCommonBytes;
  Slot slot = may_share ? Slot::kCommon : Slot::kOwn;
  for (int i = 1; i < topology_.nranks(); ++i) {
    bool is_in_slot = send(from, (from + i) % topology_.nranks(), bytes, payload, 1, slot);
    if (!is_in_slot || !may_share) continue;
    has_common_slots_ = has_common_slots_ || slot == Slot::kFilled;
    slot = Slot::kFilled;
  }
}

bool Work::send(int from, int to, uint64_t bytes, Payload payload, int times, Slot slot) {
  if (times <= 0) return false;
  TopologyLink link = wires_ ? wires_->link(from, to) : topology_.link(from, to);
  Host& sender = host_of(from);
  Host& receiver = host_of(to);
  uint64_t total_bytes = saturating_mul(bytes, times);
  if (payload == Payload::kPartial) total_bytes = saturating_mul(total_bytes, growth_);
  uint64_t slices = slices_of(bytes);
  uint64_t messages = saturating_mul(saturating_mul(slices, shape_.channels), times);
  ++sends_;
  most_slices_ = std::max(most_slices_, saturating_mul(slices, times));
  if (is_between_gpus(link.kind)) {
    send_between_gpus(from, to, messages, total_bytes, payload, link);
    return false;
  }
  if (wires_) wires_->send(from, to, total_bytes);  // to and from the host's memory
  auto message_ns = [](const Host& host) { return host.turn_ns > 0 ? kMessageInTurnsNs : kMessageNs; };
  uint64_t sender_ns = saturating_mul(messages, message_ns(sender));
  uint64_t receiver_ns = saturating_mul(messages, message_ns(receiver));
  uint64_t turn_ns = std::max(sender.turn_ns, receiver.turn_ns);
  turn_ns_ = std::max(turn_ns_, turn_ns);
  bool is_in_slot = false;
  if (link.mapped) {
    ++mapped_sends_;
    // The first slice's is part of the hop.
    uint64_t later = messages - static_cast<uint64_t>(times);
    receiver_ns = saturating_add(receiver_ns, saturating_mul(later, link.latency_ns.value));
    if (turn_ns > 0) fetch_lines(to, saturating_mul(link.latency_ns.value, static_cast<uint64_t>(times)));
    bool may_pull = receiver.pulls && link.pull && !is_on_gpu(from) && !is_on_gpu(to);
    is_in_slot = map(sender, receiver, may_pull, payload, messages, total_bytes, slot, sender_ns, receiver_ns);
  } else if (link.kind == LinkKind::kVerbs) {
    sender_ns = saturating_add(sender_ns, saturating_mul(messages, kPostNs));
    receiver_ns = saturating_add(receiver_ns, saturating_mul(messages, kTakeNs));
    // What a reduction computes lies where the device reads it. Else it takes ordinary buffers' copies, of which the
    // receiver has none where it has said where.
    bool is_computed = payload == Payload::kPartial || payload == Payload::kStored;
    bool is_stored = payload == Payload::kStored || payload == Payload::kDelivered;
    if (!is_computed) sender_ns = saturating_add(sender_ns, ns_for(total_bytes, sender.staging_bytes_per_s));
    if (is_stored && !shape_.rendezvous) {
      receiver_ns = saturating_add(receiver_ns, ns_for(total_bytes, receiver.staging_bytes_per_s));
    }
  } else {
    ++socket_sends_;
    uint64_t out_ns = socket_ns(sender, messages, total_bytes, &SocketRates::send_bytes_per_s);
    uint64_t in_ns = socket_ns(receiver, messages, total_bytes, &SocketRates::receive_bytes_per_s);
    sender_ns = saturating_add(sender_ns, out_ns);
    receiver_ns = saturating_add(receiver_ns, in_ns);
    sending_ns_[from] = saturating_add(sending_ns_[from], saturating_mul(messages, sender.send_ns));
    covered_hop_ns_ = std::max(covered_hop_ns_, sender.send_ns);
    uint64_t slices_bytes = saturating_mul(saturating_mul(kSlicesOnTheWay, shape_.slice_bytes), shape_.channels);
    uint64_t window = std::min(bytes, slices_bytes);
    sender.socket_bytes = saturating_add(sender.socket_bytes, total_bytes);
    sender.window_bytes = saturating_add(sender.window_bytes, saturating_mul(window, times));
  }
  if (topology_.ranks[from].host != topology_.ranks[to].host)
    sender.network_bytes = saturating_add(sender.network_bytes, total_bytes);
  // A socket's latency has the two ends' calls in it.
  bool is_socket = !link.mapped && link.kind != LinkKind::kVerbs;
  uint64_t calls_ns = is_socket ? saturating_add(sender.send_ns, receiver.receive_ns) : 0;
  uint64_t slice_ns = saturating_add(sender_ns, receiver_ns) / messages;
  message_ns_ = std::max(message_ns_, slice_ns - std::min(slice_ns, calls_ns));
  rank_ns_[from] = saturating_add(rank_ns_[from], sender_ns);
  rank_ns_[to] = saturating_add(rank_ns_[to], receiver_ns);
  uint64_t way_ns = saturating_add(link.latency_ns.value, kHopNs + kStagingNs * (is_on_gpu(from) + is_on_gpu(to)));
  // After its line the first of a payload's comes from the other core too, before any is fetched ahead. Its sender had
  // half of the way behind it, as measured beside near and far cores: it stores both, one right after the other.
  uint64_t value_bytes = payload == Payload::kPartial ? saturating_mul(bytes, growth_) : bytes;
  bool has_second = link.mapped && value_bytes > kInlineBytes;
  uint64_t second_way_ns = has_second ? link.latency_ns.value / 2 : 0;
  bool is_waited_for = has_second && is_in_slot && turn_ns == 0 && !is_on_gpu(from) && !is_on_gpu(to);
  uint64_t settle_ns = is_waited_for ? settling_ns(sender, total_bytes / messages) : 0;
  count_hop({saturating_add(way_ns, saturating_add(second_way_ns, settle_ns)), way_ns});
  bool is_measured = turn_ns == 0 && (link.mapped || is_socket) && !is_on_gpu(from) && !is_on_gpu(to);
  if (is_measured) ahead_ns_ = std::max(ahead_ns_, link.mapped ? kHopNs : link.latency_ns.value / 2);
  return is_in_slot;
}

void Work::fetch_lines(int rank, uint64_t ns) {
  const Host& host = host_of(rank);
  if (host.others_apart == 0) return;
  lines_ns_[rank] = saturating_add(lines_ns_[rank], share_of(ns, host.others_apart, host.others));
}

// A kernel stores into the receiver's memory, or loads from the sender's what it combines. Its threads wait for
// different messages at a time, and channels have their own.
void Work::send_between_gpus(int from, int to, uint64_t messages, uint64_t bytes, Payload payload,
                             const TopologyLink& link) {
  wires_->send(from, to, bytes);
  if (payload == Payload::kDelivered) wires_->touch(from, bytes);
  if (payload != Payload::kCopied) wires_->touch(to, bytes);  // else the reduction loads it, and counts it
  uint64_t steps_ns = saturating_mul(messages, kGpuMessageNs) / static_cast<uint64_t>(shape_.channels);
  for (int rank : {from, to}) gpu_ns_[rank] = saturating_add(gpu_ns_[rank], steps_ns);
  uint64_t slice_ns = ns_for(bytes / messages, link.bytes_per_s.value);
  message_ns_ = std::max(message_ns_, saturating_add(slice_ns, 2 * kGpuMessageNs));
  uint64_t way_ns = saturating_add(link.latency_ns.value, kGpuHopNs);
  count_hop({way_ns, way_ns});
}

void Work::count_hop(HopNs ns) {
  hop_ns_ = {std::max(hop_ns_.mutual, ns.mutual), std::max(hop_ns_.one_way, ns.one_way)};
}

void Work::reduce(int rank, int sources, uint64_t bytes, int times) {
  reduce(rank, sources, bytes, times, Slot::kOwn);
}

void Work::reduce_all(int rank, uint64_t bytes) {
  reduce(rank, topology_.nranks(), bytes, 1, has_common_slots_ ? Slot::kCommon : Slot::kOwn);
}

void Work::reduce(int rank, int sources, uint64_t bytes, int times, Slot slot) {
  if (times <= 0) return;
  uint64_t total_bytes = saturating_mul(bytes, times);
  if (is_on_gpu(rank)) return wires_->touch(rank, saturating_mul(total_bytes, static_cast<uint64_t>(sources) + 1));
  // All but this rank's own contribution come from other cores, and meanwhile that is read.
  const Host& host = host_of(rank);
  uint64_t messages = saturating_mul(saturating_mul(slices_of(bytes), shape_.channels), times);
  uint64_t arrivals_ns = saturating_mul(arrival_ns(host, messages, total_bytes, slot), sources - 1);
  rank_ns_[rank] = saturating_add(rank_ns_[rank], saturating_add(reading_ns(host, total_bytes), arrivals_ns));
}

void Work::reduce_partial(int rank, int sources, uint64_t bytes, int times) {
  reduce(rank, sources, saturating_mul(bytes, growth_), times);
}

// As measured among 4 and 8 ranks on 2 processors, of calls one after the other. A rank that waits for one other goes
// on after that one's turn, and the call takes one more, to begin with. One that waits for several gives its processor
// up twice in a hop, since not all of them have run by the first time. Each of these turns takes more than a yield, as
// its rank finds less in its caches: a quarter, or a tenth where all is in shared memory, whose lines are counted
// apart. What flows one way makes nobody wait for a rank that waits for it, so that each slice costs a turn, however
// far it goes, and one turn has several calls to make: where all is in shared memory an eighth of turns is left out.
uint64_t Work::turns_ns(uint64_t hops) const {
  if (hops == 0) return 0;
  bool is_in_shared_memory = mapped_sends_ == sends_;
  if (flows_one_way()) {
    uint64_t turns_ns = saturating_mul(turn_ns_, most_slices_);
    return is_in_shared_memory ? turns_ns - turns_ns / 8 : turns_ns;
  }
  bool waits_for_several = sends_ > saturating_mul(hops, rank_ns_.size());
  uint64_t turns = waits_for_several ? saturating_mul(2, hops) : saturating_add(hops, 1);
  uint64_t turns_ns = saturating_mul(turn_ns_, turns);
  return saturating_add(turns_ns, turns_ns / (is_in_shared_memory ? 10 : 4));
}

bool Work::flows_one_way() const { return has_root_ && !shape_.rendezvous && sends_ < rank_ns_.size(); }

bool Work::follows_without_waiting() const {
  auto takes_turns = [](const Host& host) { return host.turn_ns > 0; };
  return turn_ns_ > 0 && flows_one_way() && std::all_of(hosts_.begin(), hosts_.end(), takes_turns);
}

bool Work::is_filled_by_next() const {
  return follows_without_waiting() && most_slices_ == 1 && socket_sends_ == sends_;
}

void Work::end_phase(uint64_t hops) {
  ended_hops_ = saturating_add(ended_hops_, hops);
  for (auto flow : {&HopNs::mutual, &HopNs::one_way}) {
    ended_hops_ns_.*flow = saturating_add(ended_hops_ns_.*flow, saturating_mul(hops, hop_ns_.*flow));
    slowest_hop_ns_.*flow = std::max(slowest_hop_ns_.*flow, hop_ns_.*flow);
  }
  hop_ns_ = {};
}

uint64_t Work::with_others(size_t rank, uint64_t own_ns, uint64_t all_ns) const {
  uint64_t ranks = topology_.hosts[topology_.ranks[rank].host].ranks.size();
  uint64_t cpus = host_of(static_cast<int>(rank)).cpus;
  if (ranks <= cpus) return own_ns;
  uint64_t others_ns = all_ns - std::min(all_ns, own_ns);
  return saturating_add(own_ns, saturating_mul(others_ns, ranks - cpus) / (cpus * (ranks - 1)));
}

uint64_t Work::busy_ns(size_t rank) const {
  return flows_one_way() ? rank_ns_[rank] : saturating_add(rank_ns_[rank], lines_ns_[rank]);
}

Prediction Work::predict(uint64_t hops, uint64_t fill) const {
  uint64_t passed_hops = follows_without_waiting() && hops > 1 ? hops - 1 : 0;  // while others have their turns
  auto flow = flows_one_way() ? &HopNs::one_way : &HopNs::mutual;
  uint64_t hops_ns = saturating_add(ended_hops_ns_.*flow, saturating_mul(hops - passed_hops, hop_ns_.*flow));
  if (shape_.rendezvous) hops_ns = saturating_add(hops_ns, std::max(slowest_hop_ns_.*flow, hop_ns_.*flow));
  if (flows_one_way()) hops_ns -= std::min(hops_ns, ahead_ns_);
  hops = saturating_add(hops, ended_hops_ + (shape_.rendezvous ? 1 : 0));
  // A message's way over a socket begins with the call that sends it, and those of the busiest are counted already. Of
  // what flows one way the receiver does nothing meanwhile, unless others have its processor.
  bool is_covered = !flows_one_way() || turn_ns_ > 0;
  uint64_t covered_hops_ns = is_covered ? saturating_mul(hops - passed_hops, covered_hop_ns_) : 0;
  uint64_t busiest_ns = 0, latency_ns = hops_ns, network_ns = 0, memory_ns = 0;
  auto consider = [&](uint64_t ns, uint64_t sending_ns) {
    uint64_t exposed_ns = hops_ns - std::min({hops_ns, covered_hops_ns, sending_ns});
    uint64_t all_ns = saturating_add(ns, exposed_ns), most_ns = saturating_add(busiest_ns, latency_ns);
    if (std::pair(all_ns, ns) < std::pair(most_ns, busiest_ns)) return;
    busiest_ns = ns;
    latency_ns = exposed_ns;
  };
  // Hops that carry slices one after the other do so at the same time.
  uint64_t turns = hops - std::min(hops, fill);
  std::vector<uint64_t> host_ns(hosts_.size()), host_sending_ns(hosts_.size());
  for (size_t rank = 0; rank < rank_ns_.size(); ++rank) {
    size_t host = topology_.ranks[rank].host;
    host_ns[host] = saturating_add(host_ns[host], busy_ns(rank));
    host_sending_ns[host] = saturating_add(host_sending_ns[host], sending_ns_[rank]);
  }
  std::vector<uint64_t> overflows_ns(hosts_.size());
  for (size_t h = 0; h < hosts_.size(); ++h) {
    uint64_t cpus = hosts_[h].cpus;
    overflows_ns[h] = overflow_ns(hosts_[h], turns);
    consider(saturating_add(host_ns[h] / cpus, overflows_ns[h]), host_sending_ns[h] / cpus);
    network_ns = std::max(network_ns, ns_for(hosts_[h].network_bytes, hosts_[h].network_bytes_per_s));
    memory_ns = std::max(memory_ns, hosts_[h].memory_ns);
  }
  for (size_t rank = 0; rank < rank_ns_.size(); ++rank) {
    size_t host = topology_.ranks[rank].host;
    uint64_t left_ns = hosts_[host].turn_ns == 0 ? 0 : overflows_ns[host];
    consider(saturating_add(with_others(rank, busy_ns(rank), host_ns[host]), left_ns),
             with_others(rank, sending_ns_[rank], host_sending_ns[host]));
  }
  for (uint64_t ns : gpu_ns_) busiest_ns = std::max(busiest_ns, ns);
  WireLoad::Busiest wire = wires_ ? wires_->busiest() : WireLoad::Busiest();
  latency_ns = saturating_add(saturating_add(latency_ns, turns_ns(hops)), wires_ ? kLaunchNs : 0);
  uint64_t steady_ns = std::max({busiest_ns, network_ns, memory_ns, wire.ns});
  uint64_t fill_ns = is_filled_by_next() ? 0 : saturating_mul(message_ns_, fill);
  uint64_t exposed_ns = saturating_add(latency_ns, fill_ns);
  Prediction prediction;
  prediction.ns = std::max<uint64_t>(1, saturating_add(exposed_ns, steady_ns));
  auto percent = [&](uint64_t ns) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(ns) * 100 / prediction.ns);
  };
  if (exposed_ns > steady_ns) {
    std::string_view what = turn_ns_ > 0 ? "latency and turns" : "latency";
    prediction.bound = fmt::format("{} % {} of {}", percent(exposed_ns), what, count_text(hops, "hop"));
  } else if (wire.ns > std::max({busiest_ns, network_ns, memory_ns})) {
    prediction.bound = fmt::format("{} % {}", percent(wire.ns), wire.wire);
  } else if (memory_ns > std::max(busiest_ns, network_ns)) {
    prediction.bound = fmt::format("{} % memory traffic", percent(memory_ns));
  } else if (network_ns > busiest_ns) {
    prediction.bound = fmt::format("{} % network traffic", percent(network_ns));
  } else {
    prediction.bound = fmt::format("{} % copies and reductions", percent(busiest_ns));
  }
  return prediction;
}

}  // namespace tutti
