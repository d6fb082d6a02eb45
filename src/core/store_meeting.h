// How the ranks of a communicator find each other through a key-value store of the program's: rank 0 puts the unique id
// there, the others read it.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/status.h"

namespace tutti {

class StoreMeeting {
 public:
  // `store` outlives this.
  StoreMeeting(const tutti_store_t& store, std::string key) : store_(store), key_(std::move(key)) {}

  // Of rank 0: tells the id, or why there is none, so that nobody waits for it.
  Status tell(const Result<tutti_unique_id_t>& id);
  // Once the others have it.
  void take_away();

  // Of the others. Blocks until rank 0 has told it. Errors: rank 0's; the deadline has passed; the store's.
  Result<tutti_unique_id_t> learn(Deadline deadline);
  // A store may outlive the job: torchrun gives its own to the processes that it starts again, and what a killed rank 0
  // has put there leads nowhere. Blocks for some seconds; true: there is another id now.
  bool has_newer(Deadline deadline);

 private:
  // kTimeout: nothing is there yet.
  Result<std::string> get(int64_t timeout_ms) const;

  const tutti_store_t& store_;
  const std::string key_;
  std::string seen_;  // what learn() has found
};

}  // namespace tutti
