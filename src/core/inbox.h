// Inbox: receives for which no message has come, and messages for which no receive has. Finds which belong together.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "core/request.h"
#include "executor/buffer_pool.h"

namespace tutti {

// What a rank learns of a message when it comes. The data are here, or still with the sender.
struct Arrival {
  int source = -1;
  int tag = 0;
  Datatype datatype = TUTTI_INT8;
  uint64_t size_bytes = 0;
  const std::byte* data = nullptr;   // when it is here
  tutti_request* local = nullptr;    // a send of this rank to itself whose data are with the caller
  uint32_t offer = 0;                // the sender's number of a message whose data it still has
  Window window;                     // where this rank may read them,
  uint64_t address = 0;              // or pull them; neither: the sender sends them when it is asked
};

class Inbox {
 public:
  // A receive that waits from now on.
  void post(tutti_request& receive) { posted_.push_back(&receive); }
  // The first receive that the message belongs to, which waits no more; null when there is none.
  tutti_request* match(const Arrival& arrival);

  // A message that no receive has asked for; what is here of its data is copied.
  void keep(const Arrival& arrival);
  struct Kept {
    Arrival arrival;
    BufferPool::Buffer data;
  };
  // The first message that belongs to the receive, which is kept no more.
  std::optional<Kept> take(const tutti_request& receive);

  // Whether a receive waits that only `rank` can end.
  bool waits_for(int rank) const;
  size_t kept() const { return kept_.size(); }
  uint64_t kept_bytes() const;
  // The first of them: "tag 3 of rank 1 (16 bytes)".
  std::string kept_text() const;
  // Forgets all receives and messages.
  void clear();

 private:
  std::vector<tutti_request*> posted_;  // both in the order in which they came
  std::list<Kept> kept_;
  std::list<Kept> spare_;               // nodes for kept_, so that keeping a message now and then allocates nothing
};

}  // namespace tutti
