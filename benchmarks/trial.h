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
  // After one call since guard(), which is done: elements that are not what they must be, in the send buffer too.
  uint64_t wrong();
  // And, after wrong(), bytes that were changed around the buffers.
  uint64_t overwritten() const;

 private:
  // Bytes from the start of the Buffer that has it.
  uint64_t send_at() const { return in_place_ ? layout_.send_first * element_bytes_ : 0; }
  uint64_t recv_at() const { return in_place_ ? layout_.recv_first * element_bytes_ : 0; }
  Buffer& sender() const { return in_place_ ? recv_ : send_; }
  std::byte* send_data() const { return static_cast<std::byte*>(sender().data()) + send_at(); }
  std::byte* recv_data() const { return static_cast<std::byte*>(recv_.data()) + recv_at(); }
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
