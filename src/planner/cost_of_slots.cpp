// What it costs to bring payloads over memory that ranks share: through slots, or pulled.
#include <algorithm>

#include "plan/payload_sizes.h"
#include "planner/cost.h"
#include "planner/rates.h"
#include "topology/caches.h"

namespace tutti {

// Where cores are near each other, or ranks take turns, messages of all sizes have few places (data_path_for()). These
// stay in the caches of both cores: as measured among 2 ranks those of up to 16 KiB, and among 4 and 8 on 2 processors
// all of calls of up to 64 KiB. So one of the next size class may be predicted to take less.
uint64_t Work::small_below(const TopologyHost& host, const Request& request) {
  if (stays_in_caches(host, request)) return UINT64_MAX;
  return are_near(host.inventory) ? 2 * kLeastSpreadBytes + 1 : kLeastSpreadBytes;
}

bool Work::stays_in_caches(const TopologyHost& host, const Request& request) {
  return takes_turns(host) && request.size_bytes() <= kLeastTried;
}

const Work::SlotRates& Work::slots_for(const Host& host, uint64_t message_bytes) {
  return message_bytes < host.small_below ? host.small_slots : host.slots;
}

uint64_t Work::pulling_ns(const Host& receiver, uint64_t messages, uint64_t bytes) {
  return saturating_add(saturating_mul(messages, receiver.pull_ns), ns_for(bytes, receiver.pull_bytes_per_s));
}

// One of what a reduction reads and writes, of which the calibrated one reads two and writes one.
uint64_t Work::reading_ns(const Host& host, uint64_t bytes) { return ns_for(bytes, host.reduce_bytes_per_s) / 3; }

// Of payloads of which `apart` of `peers` pass from one processor to another, at this rate.
uint64_t Work::in_turns_ns(const Host& host, uint64_t bytes, uint64_t bytes_per_s, uint64_t apart) {
  if (apart >= host.peers) return ns_for(bytes, bytes_per_s);
  uint64_t cached_bytes_per_s = std::max(bytes_per_s, host.cached_copy_bytes_per_s);
  uint64_t apart_bytes = std::min(bytes, share_of(bytes, apart, host.peers));
  return saturating_add(ns_for(apart_bytes, bytes_per_s), ns_for(bytes - apart_bytes, cached_bytes_per_s));
}

uint64_t Work::storing_ns(const Host& host, uint64_t messages, uint64_t bytes, Slot slot) {
  if (slot == Slot::kFilled) return 0;
  // What all others read has left for another processor whenever there is one.
  uint64_t for_all = host.cpus_apart > 0 ? host.peers : 0;
  uint64_t apart = slot == Slot::kOwn ? host.peers_apart : for_all;
  return in_turns_ns(host, bytes, slots_for(host, bytes / messages).store_bytes_per_s, apart);
}

uint64_t Work::loading_ns(const Host& host, uint64_t messages, uint64_t bytes, Slot slot) {
  uint64_t apart = slot == Slot::kOwn ? host.peers_apart : host.cpus_apart;
  return in_turns_ns(host, bytes, slots_for(host, bytes / messages).load_bytes_per_s, apart);
}

// What a reduction reads from another rank.
uint64_t Work::arrival_ns(const Host& host, uint64_t messages, uint64_t bytes, Slot slot) {
  return std::max(reading_ns(host, bytes), loading_ns(host, messages, bytes, slot));
}

// The last stores of a payload are still to be made when its sender has gone on: so many as its core keeps for later.
// Who takes turns is not there to wait for them, and who is ahead has them behind him. As measured it takes as long
// from half of what was calibrated on, and less and less of larger payloads, of which the sender itself waits for most.
uint64_t Work::settling_ns(const Host& sender, uint64_t message_bytes) {
  using Wide = unsigned __int128;
  if (message_bytes >= kLargePieceBytes) return 0;
  uint64_t kept = std::min(2 * message_bytes, kSettledBytes);
  uint64_t beyond = kLargePieceBytes - message_bytes;
  return static_cast<uint64_t>(Wide{sender.settle_ns} * kept / kSettledBytes * beyond / kLargePieceBytes);
}

bool Work::map(const Host& sender, const Host& receiver, bool may_pull, Payload payload, uint64_t messages,
               uint64_t bytes, Slot slot, uint64_t& sender_ns, uint64_t& receiver_ns) {
  uint64_t in_ns = storing_ns(sender, messages, bytes, slot);
  uint64_t out_ns = loading_ns(receiver, messages, bytes, slot);
  if (may_pull && payload != Payload::kPartial && bytes / messages >= kLeastPulled) {
    uint64_t pull_ns = pulling_ns(receiver, messages, bytes);
    // A result comes from the caches of the core that has just stored it, as what is in a slot does.
    if (payload == Payload::kStored) pull_ns = std::max(pull_ns, out_ns);
    // A reduction reads from a slot where that is, which is counted there; pulled, its caches have it by then.
    uint64_t arrival = payload == Payload::kCopied ? arrival_ns(receiver, messages, bytes, slot) : 0;
    uint64_t saved_ns = arrival - std::min(arrival, reading_ns(receiver, bytes));
    receiver_ns = saturating_add(receiver_ns, pull_ns - std::min(pull_ns, saved_ns));
    return false;
  }
  // What a reduction stores has been read already, which is half of a copy; it saves nothing where the core waits for
  // lines that the other one still has.
  bool is_computed = payload == Payload::kPartial || payload == Payload::kStored;
  bool is_read = is_computed && !sender.takes_lines_back;
  uint64_t read_ns = is_read ? ns_for(bytes, sender.own_copy_bytes_per_s) / 2 : 0;
  sender_ns = saturating_add(sender_ns, std::max(in_ns / 2, in_ns - std::min(in_ns, read_ns)));
  bool stays = payload == Payload::kStored || payload == Payload::kDelivered;
  if (stays) receiver_ns = saturating_add(receiver_ns, out_ns);
  return true;
}

}  // namespace tutti
