// Ranks on any hosts that have RDMA devices: InfiniBand, RoCE v1 and v2. docs/verbs.md has the protocol.
//
// Payloads are RDMA writes into the peer's exported memory; the line follows as a message on the same queue pair, which
// the receiver's poll() stores. A message's receive completes after all writes before it can be seen, whatever order
// the network or the memory controller prefers: so nothing here polls memory that a device writes.
#pragma once

#include <memory>
#include <string>

#include "transports/transport.h"

namespace tutti {

// Options "ib_*".
struct VerbsOptions {
  std::string library = "libibverbs.so.1";
  std::string device;      // "": the best; else "mlx5_0,mlx5_1:2"
  int gid_index = -1;      // -1: chosen with the peer
  int mtu_bytes = 0;       // 0: what both ports run at
  int service_level = 0;
  int traffic_class = 0;
  int pkey_index = 0;
  int timeout = 16;        // 4.096 us * 2^this
  int retries = 7;
  size_t regions = 1024;              // that callers share and that are registered at a time
  uint64_t region_bytes = 0;          // of all of them; 0: half of what this process may lock
  bool takes_device_memory = true;    // of GPUs, by dmabuf
  bool goes_over_tcp = false;         // on the connection by which the ends met, once no queue pair is left
};

// listen() opens the library and a device, and fails with a sentence where there is none that works. nullptr: tutti was
// built without it.
std::unique_ptr<Transport> make_verbs_transport(const TransportContext& context, const VerbsOptions& options);

}  // namespace tutti
