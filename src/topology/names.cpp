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
  }
  return "?";
}

}  // namespace tutti
