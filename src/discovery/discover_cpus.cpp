#include <algorithm>

#include "discovery/facts.h"

namespace tutti {
namespace {

std::vector<int> cpus_of(hwloc_const_bitmap_t set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) cpus.push_back(cpu);
  return cpus;
}

// All objects of one kind, also where they are not on one level of the tree.
template <typename Visit>
void for_each(hwloc_topology_t topology, hwloc_obj_type_t type, Visit&& visit) {
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) visit(object);
}

int count_of(hwloc_topology_t topology, hwloc_obj_type_t type, int fallback) {
  int count = hwloc_get_nbobjs_by_type(topology, type);
  return count > 0 ? count : fallback;
}

std::string model_of(hwloc_topology_t topology) {
  std::string model;
  auto look = [&](hwloc_obj_t object) {
    const char* name = hwloc_obj_get_info_by_name(object, "CPUModel");
    if (model.empty() && name != nullptr) model = name;
  };
  for_each(topology, HWLOC_OBJ_PACKAGE, look);
  look(hwloc_get_root_obj(topology));
  size_t last = model.find_last_not_of(' ');
  model.resize(last == std::string::npos ? 0 : last + 1);
  return model;
}

// Caches that are alike are one entry: hybrid processors have two kinds on one level.
void add_cache(std::vector<Cache>& caches, int level, hwloc_obj_t object) {
  Cache cache{level, object->attr->cache.size, 1, hwloc_bitmap_weight(object->cpuset)};
  auto alike = std::find_if(caches.begin(), caches.end(), [&](const Cache& each) {
    return each.level == level && each.size_bytes == cache.size_bytes && each.cpus_sharing == cache.cpus_sharing;
  });
  if (alike == caches.end()) {
    caches.push_back(cache);
  } else {
    ++alike->instances;
  }
}

}  // namespace

void discover_cpus(hwloc_topology_t topology, Inventory& inventory) {
  Cpu& cpu = inventory.cpu;
  cpu.logical_cpus = count_of(topology, HWLOC_OBJ_PU, static_cast<int>(cpu.allowed_cpus.size()));
  cpu.cores = count_of(topology, HWLOC_OBJ_CORE, cpu.logical_cpus);
  cpu.packages = count_of(topology, HWLOC_OBJ_PACKAGE, 1);
  cpu.model = model_of(topology);
  for_each(topology, HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t node) {
    inventory.numa_nodes.push_back(
        {static_cast<int>(node->os_index), cpus_of(node->cpuset), node->attr->numanode.local_memory});
  });
  constexpr hwloc_obj_type_t kLevels[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE};
  int level = 0;
  for (hwloc_obj_type_t type : kLevels) {
    ++level;
    for_each(topology, type, [&](hwloc_obj_t cache) { add_cache(inventory.caches, level, cache); });
  }
}

}  // namespace tutti
