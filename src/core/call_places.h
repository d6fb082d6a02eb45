// CallPlaces: places in a ring of memory for what calls on a GPU use. When there is no more room the oldest leave, each
// once the last call that has used it is done.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/check.h"
#include "device/device.h"

namespace tutti {

class CallPlaces {
 public:
  // What has a place there, or none. It outlives the CallPlaces, or the last call of take().
  struct Holder {
    std::optional<uint64_t> offset;
    uint32_t last_use = 0;  // by which call; its owner says so
  };

  explicit CallPlaces(uint64_t size_bytes) : size_bytes_(size_bytes) {}

  // Gives `holder`, which has none, a place. `done`: the last call that is. False: not before more calls are done.
  bool take(Holder& holder, uint64_t size_bytes, uint32_t done) {
    TUTTI_CHECK(size_bytes > 0 && size_bytes <= size_bytes_ && !holder.offset);
    if (next_ + size_bytes > size_bytes_) {
      if (!make_room(next_, size_bytes_, done)) return false;
      next_ = 0;
    }
    if (!make_room(next_, next_ + size_bytes, done)) return false;
    places_.push_back({next_, next_ + size_bytes, &holder});
    holder.offset = next_;
    next_ += size_bytes;
    return true;
  }

 private:
  struct Place {
    uint64_t begin = 0;
    uint64_t end = 0;
    Holder* holder = nullptr;
  };

  // The oldest place is the next one in the ring.
  bool make_room(uint64_t begin, uint64_t end, uint32_t done) {
    while (!places_.empty() && places_.front().begin < end && begin < places_.front().end) {
      Holder& oldest = *places_.front().holder;
      if (comes_before(done, oldest.last_use)) return false;
      oldest.offset.reset();
      places_.pop_front();
    }
    return true;
  }

  const uint64_t size_bytes_;
  std::deque<Place> places_;  // the oldest first
  uint64_t next_ = 0;
};

}  // namespace tutti
