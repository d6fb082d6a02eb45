// The JSON schema: for each struct its fields' names, types and ranges, once for reading and writing. A visitor is a
// JsonWriter or a JsonReader; `value` is const for the former.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "topology/cpu_list.h"
#include "topology/inventory.h"
#include "topology/wires.h"

namespace tutti {

inline constexpr uint64_t kAnyNumber = std::numeric_limits<uint64_t>::max();
inline constexpr uint64_t kLatestSecond = 253'402'300'799;  // since 1970: the end of the year 9999

template <typename T, typename U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

template <typename V, Is<HostIdentity> T>
void describe(V& v, T& identity) {
  v.text("boot_id", identity.boot_id);
  v.number("net_namespace", identity.net_namespace, 0, kAnyNumber);
  v.number("pid_namespace", identity.pid_namespace, 0, kAnyNumber);
  v.number("mount_namespace", identity.mount_namespace, 0, kAnyNumber);
  v.number("user_namespace", identity.user_namespace, 0, kAnyNumber);
}

template <typename V, Is<Cpu> T>
void describe(V& v, T& cpu) {
  v.text("architecture", cpu.architecture);
  v.text("model", cpu.model);
  v.number("packages", cpu.packages, 0, kMaxCpus);
  v.number("cores", cpu.cores, 0, kMaxCpus);
  v.number("logical_cpus", cpu.logical_cpus, 0, kMaxCpus);
  v.cpus("allowed_cpus", cpu.allowed_cpus);
}

template <typename V, Is<NumaNode> T>
void describe(V& v, T& node) {
  v.number("id", node.id, 0, kMaxCpus);
  v.cpus("cpus", node.cpus);
  v.number("memory_bytes", node.memory_bytes, 0, kAnyNumber);
}

template <typename V, Is<Cache> T>
void describe(V& v, T& cache) {
  v.number("level", cache.level, 1, 9);
  if constexpr (V::kReads) {
    if (!v.has("level")) v.refuse("level", "must be there: a cache is known by its level, from 1 to 9");
  }
  v.number("size_bytes", cache.size_bytes, 0, kAnyNumber);
  v.number("instances", cache.instances, 0, kMaxCpus);
  v.number("cpus_sharing", cache.cpus_sharing, 0, kMaxCpus);
}

// Facts that a host may well not have are written only where it has them.
template <typename V>
constexpr bool may_have(bool is_there) {
  return V::kReads || is_there;
}

template <typename V, Is<PciHop> T>
void describe(V& v, T& hop) {
  v.text("address", hop.address);
  if (may_have<V>(hop.generation != 0)) v.number("generation", hop.generation, 0, kLatestPcieGeneration);
  if (may_have<V>(hop.lanes != 0)) v.number("lanes", hop.lanes, 0, kMostPcieLanes);
  if (may_have<V>(hop.bytes_per_s.value != 0)) v.figure("bytes_per_s", hop.bytes_per_s);
  if constexpr (V::kReads) {
    if (!v.has("bytes_per_s")) hop.bytes_per_s = pcie_bytes_per_s(hop.generation, hop.lanes);
  }
}

template <typename V, Is<NvLink> T>
void describe(V& v, T& nvlink) {
  v.text("peer", nvlink.peer);
  v.flag("to_switch", nvlink.to_switch);
  v.number("links", nvlink.links, 1, kMostNvLinks);
  v.figure("bytes_per_s", nvlink.bytes_per_s);
  if constexpr (V::kReads) {
    if (!v.has("bytes_per_s")) v.refuse("bytes_per_s", "must be there: what one of the links carries in one direction");
  }
}

template <typename V, Is<Nic> T>
void describe(V& v, T& nic) {
  v.text("name", nic.name);
  v.text("pci_address", nic.pci_address);
  v.texts("addresses", nic.addresses);
  v.number("speed_mbps", nic.speed_mbps, 0, 1'000'000'000);
  v.number("mtu", nic.mtu, 0, std::numeric_limits<uint32_t>::max());
  v.number("numa_node", nic.numa_node, -1, kMaxCpus);
  v.flag("up", nic.up);
  v.flag("loopback", nic.loopback);
  if (may_have<V>(nic.rdma)) v.flag("rdma", nic.rdma);
  if (may_have<V>(!nic.pci_path.empty())) v.list("pci_path", nic.pci_path);
}

template <typename V, Is<Gpu> T>
void describe(V& v, T& gpu) {
  v.text("uuid", gpu.uuid);
  v.text("model", gpu.model);
  v.text("pci_address", gpu.pci_address);
  v.number("numa_node", gpu.numa_node, -1, kMaxCpus);
  v.number("memory_bytes", gpu.memory_bytes, 0, kAnyNumber);
  if (may_have<V>(gpu.compute_capability != 0)) v.number("compute_capability", gpu.compute_capability, 0, 10'000);
  if (may_have<V>(gpu.memory_bytes_per_s.value != 0)) v.figure("memory_bytes_per_s", gpu.memory_bytes_per_s);
  if (may_have<V>(!gpu.pci_path.empty())) v.list("pci_path", gpu.pci_path);
  if (may_have<V>(!gpu.nvlinks.empty())) v.list("nvlinks", gpu.nvlinks);
}

template <typename V, Is<Limits> T>
void describe(V& v, T& limits) {
  v.number("memory_bytes", limits.memory_bytes, 0, kAnyNumber);
  v.number("memory_limit_bytes", limits.memory_limit_bytes, 0, kAnyNumber);
  v.limit("memlock_bytes", limits.memlock_bytes);
  v.limit("open_files", limits.open_files);
  v.number("dev_shm_bytes", limits.dev_shm_bytes, 0, kAnyNumber);
  v.number("ptrace_scope", limits.ptrace_scope, 0, 3);
}

template <typename V, Is<Costs> T>
void describe(V& v, T& costs) {
  v.figure("copy_bytes_per_s", costs.copy_bytes_per_s);
  v.figure("reduce_bytes_per_s", costs.reduce_bytes_per_s);
  v.figure("cached_bytes_per_s", costs.cached_bytes_per_s);
  v.figure("last_level_bytes_per_s", costs.last_level_bytes_per_s);
  v.figure("cached_copy_bytes_per_s", costs.cached_copy_bytes_per_s);
  v.figure("last_level_copy_bytes_per_s", costs.last_level_copy_bytes_per_s);
  v.figure("memory_bytes_per_s", costs.memory_bytes_per_s);
  v.figure("streaming_bytes", costs.streaming_bytes);
  v.figure("cache_line_ns", costs.cache_line_ns);
  v.figure("slot_store_bytes_per_s", costs.slot_store_bytes_per_s);
  v.figure("slot_load_bytes_per_s", costs.slot_load_bytes_per_s);
  v.figure("small_slot_store_bytes_per_s", costs.small_slot_store_bytes_per_s);
  v.figure("small_slot_load_bytes_per_s", costs.small_slot_load_bytes_per_s);
  v.figure("slot_settle_ns", costs.slot_settle_ns);
  v.figure("wake_ns", costs.wake_ns);
  v.figure("yield_ns", costs.yield_ns);
  v.figure("pull_ns", costs.pull_ns);
  v.figure("pull_bytes_per_s", costs.pull_bytes_per_s);
  v.figure("tcp_ns", costs.tcp_ns);
  v.figure("tcp_send_ns", costs.tcp_send_ns);
  v.figure("tcp_receive_ns", costs.tcp_receive_ns);
  v.figure("tcp_bytes_per_s", costs.tcp_bytes_per_s);
  v.figure("tcp_both_bytes_per_s", costs.tcp_both_bytes_per_s);
  v.figure("large_tcp_bytes_per_s", costs.large_tcp_bytes_per_s);
  v.figure("large_tcp_both_bytes_per_s", costs.large_tcp_both_bytes_per_s);
  v.number("measured_at_s", costs.measured_at_s, 0, kLatestSecond);
}

template <typename V, Is<Inventory> T>
void describe(V& v, T& inventory) {
  v.text("hostname", inventory.hostname);
  v.text("kernel", inventory.kernel);
  if (may_have<V>(!inventory.fabric.empty())) v.text("fabric", inventory.fabric);
  if (may_have<V>(inventory.fabric_bytes_per_s.value != 0)) {
    v.figure("fabric_bytes_per_s", inventory.fabric_bytes_per_s);
  }
  v.object("identity", inventory.identity);
  v.object("cpu", inventory.cpu);
  v.list("numa_nodes", inventory.numa_nodes);
  v.list("caches", inventory.caches);
  v.list("nics", inventory.nics);
  v.list("gpus", inventory.gpus);
  v.text("gpu_note", inventory.gpu_note);
  if (may_have<V>(inventory.interconnect_bytes_per_s != Inventory().interconnect_bytes_per_s)) {
    v.figure("interconnect_bytes_per_s", inventory.interconnect_bytes_per_s);
  }
  v.object("limits", inventory.limits);
  v.object("costs", inventory.costs);
}

}  // namespace tutti
