// A call as this rank makes it: its buffers, and what must be in them afterwards.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "buffer.h"
#include "call.h"
#include "layout.h"

namespace differential {

// What an element of a result may be.
struct Interval {
  double low;
  double high;
};

struct LocalCall {
  Call call;
  Layout layout;
  std::unique_ptr<Buffer> send_memory;  // null: NULL is passed
  std::unique_ptr<Buffer> recv_memory;  // null: NULL is passed, or in place, where both are in send_memory

  tutti_op_t op = kOwn;                 // of an own operation: while it exists
  uint64_t factor = 0;                  // the bits of what the operation multiplies this rank's contribution by
  tutti_prepared_t* prepared = nullptr; // null: it is started without

  // All bytes of the memory afterwards, with the guards; of results that may differ, any.
  std::vector<std::byte> send_wanted;
  std::vector<std::byte> recv_wanted;
  // Of results that may differ, by element of the receive buffer; else empty.
  std::vector<Interval> recv_allowed;

  // Of a barrier, by the host's clock.
  int64_t entered_ns = 0;
  int64_t left_ns = 0;

  std::byte* send();
  std::byte* recv();
  Buffer* recv_holder() { return layout.in_place ? send_memory.get() : recv_memory.get(); }
  // Where the receive buffer begins in `wanted()`, in bytes.
  size_t recv_begin();
  std::vector<std::byte>& wanted() { return layout.in_place ? send_wanted : recv_wanted; }
};

// Draws this rank's part, without data.
std::unique_ptr<LocalCall> local_part(const Call& call, const Job& job);

// Fills the buffers with what is this rank's in that round, and forgets what was wanted before.
void fill(LocalCall& local, const Job& job, int round);

// "in place in tutti_mem_alloc memory at 192".
std::string described(const LocalCall& local);

}  // namespace differential
