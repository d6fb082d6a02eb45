#include "topology/inventory.h"
#include "topology/topology.h"

namespace tutti {

std::string_view name_of(Origin origin) {
  switch (origin) {
    case Origin::kDefault: return "default";
    case Origin::kSpec: return "spec";
    case Origin::kProbe: return "probe";
    case Origin::kUser: return "user";
  }
  return "?";
}

std::string_view name_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::kSelf: return "self";
    case LinkKind::kLoopback: return "loopback";
    case LinkKind::kShm: return "shm";
    case LinkKind::kTcp: return "tcp";
    case LinkKind::kVerbs: return "verbs";
    case LinkKind::kSameGpu: return "same gpu";
    case LinkKind::kNvlink: return "nvlink";
    case LinkKind::kNvswitch: return "nvswitch";
    case LinkKind::kPcieSwitch: return "pcie switch";
    case LinkKind::kHostBridge: return "host bridge";
    case LinkKind::kSockets: return "sockets";
    case LinkKind::kRdma: return "rdma";
  }
  return "?";
}

}  // namespace tutti
