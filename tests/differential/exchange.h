// What messages an exchange has and how they are received, the same on all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "call.h"

namespace differential {

// Ranks are those of the communicator.
struct Message {
  size_t communicator = 0;  // of Jobs
  int source = 0;
  int dest = 0;
  int tag = 0;
  const Datatype* datatype = nullptr;
  uint64_t count = 0;
};

constexpr int kNotDetermined = -1;

struct Receive {
  size_t communicator = 0;
  int dest = 0;                  // the rank that receives
  int source = TUTTI_ANY_SOURCE;
  int tag = TUTTI_ANY_TAG;
  int message = kNotDetermined;  // the one that it gets
  const Datatype* datatype = nullptr;
  uint64_t room = 0;

  bool accepts(const Message& each) const;
};

// What some ranks of an exchange block in, after they have started what others could wait for. If one blocked in a send
// while another one did in a receive, they could wait for each other.
enum class Blocking { kNowhere, kInSends, kInReceives, kInSendReceives, kInAGroup };

struct Exchange {
  std::vector<Message> messages;  // each rank sends its own in this order
  std::vector<Receive> receives;  // as many; each rank calls its own in this order
  std::vector<Call> collectives;  // in between
  // Each rank sends and receives one message in each of several rounds.
  bool in_rounds = false;
  Blocking blocking = Blocking::kNowhere;
  int times = 1;                  // how often all of it is made, on other data

  // Whether a message of the next time could be taken for one of this time.
  bool has_any_source() const;
};

// Case `number`, alike on all ranks.
Exchange draw_exchange(uint64_t seed, uint64_t number, const Job& job);

}  // namespace differential
