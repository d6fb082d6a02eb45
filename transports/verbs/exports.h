// The memory that a rank has exported over verbs. Registering pins it, so that waits until a peer is to write there.
// Thread-safe.
#pragma once

#include <map>
#include <mutex>

#include "transports/common/export_table.h"
#include "transports/verbs/device.h"
#include "transports/verbs/wire.h"

namespace tutti {

class VerbsExports {
 public:
  const LocalMemory* add(std::span<std::byte> memory, int fd);
  void remove(const LocalMemory* memory);
  const ExportTable& table() const { return table_; }

  // Where `memory` is for peers' devices. Errors: it cannot be registered.
  Result<RemoteRange> range_of(const VerbsDevice& device, const LocalMemory& memory);
  // Of all that is exported: whether it can be.
  Status register_all(const VerbsDevice& device);

 private:
  struct Exported {
    std::span<std::byte> bytes;
    Registration registration;
  };
  Result<RemoteRange> range_of(const VerbsDevice& device, Exported& exported);

  ExportTable table_;
  std::mutex mutex_;
  std::map<uint32_t, Exported> exported_;  // by id
};

}  // namespace tutti
