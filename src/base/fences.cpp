#include "base/fences.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tutti {
namespace {

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

const bool fences_for_all_threads = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

void heavy_fence() {
  full_fence();
  if (!fences_for_all_threads || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // A forked child may have to say anew that it wants them.
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

}  // namespace tutti
