// One row's call in one placement: its arguments, fresh inputs, and whether it left what it must.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.h"
#include "layout.h"
#include "pattern.h"
#include "tutti/tutti.h"

namespace tutti::bench {

class Trial {
 public:
  // In place both sides are in `recv`. The arguments outlive this, and the buffers hold the layout's total.
  Trial(const Layout& layout, const Pattern& pattern, int rank, Buffer& send, Buffer& recv, bool in_place);

  // What the call's buffers, counts and datatype are.
  void describe(tutti_call_t& call) const;

  // Writes the inputs of the call with this seed, and to the rest of the receive buffer what no call leaves there.
  void fill(uint64_t seed);
  // The same, and from now on bytes around the buffers are guarded.
  void guard(uint64_t seed);
  // After one call since guard(): elements that are not what they must be, in the send buffer too.
  uint64_t wrong() const;
  // And bytes that were changed around the buffers.
  uint64_t overwritten() const;

 private:
  std::byte* send_data() const;
  std::byte* recv_data() const;
  uint64_t wrong_inputs(uint64_t first, uint64_t end) const;

  const Layout& layout_;
  const Pattern& pattern_;
  int rank_;
  Buffer& send_;
  Buffer& recv_;
  bool in_place_;
  uint64_t element_bytes_;
  uint64_t send_used_;  // bytes of the Buffers
  uint64_t recv_used_;
  uint64_t seed_ = 0;
};

}  // namespace tutti::bench
