// A send or a receive as this rank makes it: its buffer, and what was received.
#pragma once

#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "buffer.h"
#include "exchange.h"

namespace differential {

// Before anything was received.
constexpr tutti_message_t kNoMessage = {-7, -7, 7};

struct Transfer {
  bool receives = false;
  size_t communicator = 0;
  int peer = 0;                    // of a receive: or TUTTI_ANY_SOURCE
  int tag = 0;                     // of a receive: or TUTTI_ANY_TAG
  const Datatype* datatype = nullptr;
  uint64_t count = 0;              // of a receive: the room that there is
  bool asks = true;                // of a receive: which message it got; it must, if others could have come
  std::unique_ptr<Buffer> memory;  // null: NULL is passed

  std::vector<std::byte> before;   // all bytes of the memory, with the guards, when the call is made
  std::vector<std::byte> after;    // and as soon as it is complete
  tutti_message_t message = kNoMessage;
  // Of a receive of MPI.
  std::vector<std::byte> mpi_data;
  tutti_message_t mpi_message = kNoMessage;

  tutti_prepared_t* prepared = nullptr;  // null: it is started without

  std::byte* data() { return memory == nullptr ? nullptr : memory->data(); }
};

Transfer sending(const Message& message, Random& own);
Transfer receiving(const Receive& receive, Random& own);

// Fills the buffer, and forgets what was received before.
void fill(Transfer& transfer, Random& own);
// The call is complete: keeps what is in the buffer, which is changed then, as a caller may do.
void take(Transfer& transfer, Random& own);

// Makes all of this rank's transfers with MPI on copies, in order. Every rank calls it.
void ask_mpi(std::vector<Transfer>& transfers, const Jobs& jobs);

// With tutti: by the function of the call's name; by tutti_start(), or tutti_start_prepared() where it was prepared.
tutti_status_t run_blocking(Transfer& transfer, tutti_comm_t* comm);
tutti_status_t start(Transfer& transfer, tutti_comm_t* comm, tutti_request_t** request);
tutti_status_t prepare(Transfer& transfer, tutti_comm_t* comm);
// Both by tutti_send_recv().
tutti_status_t run_blocking(Transfer& send, Transfer& receive, tutti_comm_t* comm);

// "recv of up to 33 float32 from rank 2 with any tag, malloc + 192".
std::string described(const Transfer& transfer);

}  // namespace differential
