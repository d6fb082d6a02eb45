#include "transports/verbs/link_memory.h"

namespace tutti {

// Of a memfd: what is shared stays where it is when the process forks.
Result<LinkMemory> LinkMemory::create(const VerbsDevice& device) {
  constexpr size_t kPage = 4096;
  size_t size_bytes = (kProbeAt + kProbeBytes + kPage - 1) / kPage * kPage;
  LinkMemory memory;
  Fd fd = TUTTI_TRY(create_memfd("tutti-verbs", size_bytes));
  memory.mapping_ = TUTTI_TRY(Mapping::create(fd.get(), size_bytes));
  auto own = memory.mapping_.bytes().first(kProbeAt);
  memory.own_ = TUTTI_TRY(Registration::create(device, own, Registration::By::kDevice));
  memory.probe_ = TUTTI_TRY(Registration::create(device, memory.probe(), Registration::By::kPeers));
  return memory;
}

}  // namespace tutti
