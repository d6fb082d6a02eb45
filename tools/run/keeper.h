// The process between the launcher and the ranks: see job.h.
#pragma once

#include <sys/types.h>

#include <vector>

#include "fd.h"
#include "job.h"
#include "rank_process.h"
#include "tutti/tutti.h"

namespace tutti::tool {

// Messages on the sequenced-packet socket between launcher and keeper, one struct per packet.
struct Order {
  enum Kind : int32_t {
    kStart,            // start the ranks; `id` is theirs
    kSignalRanks,      // send `signal` to the ranks themselves
    kSignalGroup,      // send `signal` to whom the terminal would: every descendant in the ranks' process group
    kSignalAll,        // send `signal` to every descendant
    kKill,             // end every descendant with SIGKILL
  };
  Kind kind = kStart;
  int32_t signal = 0;
  tutti_unique_id_t id = {};
};

struct Report {
  enum Kind : int32_t {
    kStarted,          // rank `rank` is process `pid`
    kStartFailed,      // `status` is the errno of fork
    kExecFailed,       // `status` is the errno of exec; the rank's kExited follows
    kExited,           // `status` is a wait status
    kEmpty,            // no descendant is left; the keeper exits
  };
  Kind kind = kStarted;
  int32_t rank = -1;
  int32_t pid = 0;
  int32_t status = 0;
};

// The keeper's whole life; `launcher` is its end of the socket. Losing the launcher ends every
// descendant. Never returns.
[[noreturn]] void run_keeper(const Job& job, const Inherited& inherited, Fd launcher, std::vector<RankOutput> outputs);

// Ends every descendant of the calling process with SIGKILL and reaps it. Gives up after `limit_ms`, which only a
// process stuck in the kernel or owned by another user can cause; returns whether nothing is left.
bool kill_descendants(int64_t limit_ms);

}  // namespace tutti::tool
