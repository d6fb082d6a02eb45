// NCCL's description of a host, as it writes it to the file that NCCL_TOPO_DUMP_FILE names: the PCI tree of each NUMA
// node with GPUs, their NVLinks and network devices.
#pragma once

#include <string_view>

#include "base/status.h"
#include "topology/inventory.h"

namespace tutti {

// Whether the text is XML rather than JSON, by its first character.
bool looks_like_xml(std::string_view text);

// The host's GPUs in the order of their device numbers, network devices, NUMA nodes and processors; it has no name.
// What wires carry is by their generation; what is not in the file keeps its defaults. Elements and attributes that
// this version does not know are left out, as newer versions of NCCL write more of them. Errors: "line 7: <pci> ...":
// no such XML (xml_element.h); an attribute that is missing or out of range; an element in a place where it means
// nothing; several hosts; no GPU.
Result<Inventory> parse_nccl_xml(std::string_view text);

}  // namespace tutti
