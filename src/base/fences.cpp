#include "base/fences.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tutti {
namespace {

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

constexpr int kMadeForAll = MEMBARRIER_CMD_GLOBAL_EXPEDITED;

// Here, while the process has few threads, it takes no time.
[[maybe_unused]] const bool kHasJoined = join_fences_across_processes();

}  // namespace

const bool kFencesForAllThreads = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

void heavy_fence() {
  full_fence();
  if (!kFencesForAllThreads || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // A forked child may have to say anew that it wants them.
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool join_fences_across_processes() {
  return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && membarrier(kMadeForAll);
}

void heavy_fence_across_processes() {
  full_fence();
  membarrier(kMadeForAll);
}

}  // namespace tutti
