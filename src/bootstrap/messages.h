// What the processes of a job say to each other, as values with encode and decode. Every decode is bounded and takes
// any bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bootstrap/crypto.h"
#include "bootstrap/endpoint.h"

namespace tutti::bootstrap {

// Of the bootstrap's messages and of the arenas' layout (executor/stream_layout.h, executor/message.h).
constexpr uint16_t kWireVersion = 10;
constexpr size_t kMaxHello = 512;                 // before a peer has proven anything it may send this much
constexpr size_t kMaxMessage = (1u << 20) + 256;  // afterwards: 1 MiB of payload and our own header
constexpr int kMaxRanks = 1 << 20;

enum class MessageType : uint32_t {
  // To and from the meeting point.
  kHello = 1,
  kNeighbours = 2,
  kReady = 3,    // the sender's overlay is connected
  kGo = 4,       // everyone's is
  kRefused = 5,  // a Notice: the meeting failed
  kFailed = 6,   // a Notice: the sender cannot go on
  // Between neighbours of the overlay.
  kLink = 16,
  kLinkOk = 17,
  kBlock = 18,
  kHere = 19,
  kLost = 20,
  kAbort = 21,
  kUser = 22,
  kGoodbye = 23,
  kGoodbyeHeard = 24,
  kBeat = 25,
  kSuspect = 26,  // a Notice: the rank does not answer; who knows that it left in good order says so
  kLeft = 27,     // a Notice: the rank left in good order
};

// Who a process is, as it says when it meets the others: fixed size, and the first fields keep their place in every
// version.
struct Hello {
  uint16_t version = kWireVersion;
  int32_t rank = 0;
  int32_t nranks = 0;
  int64_t pid = 0;
  int64_t timeout_ms = 0;  // how long the sender will wait for the others
  std::array<std::byte, 16> secret_check{};
  HostIdentity host;
  std::string host_name;            // cut at 63 bytes
  std::vector<Endpoint> endpoints;  // where the others may connect; at most kMaxEndpoints

  static constexpr size_t kMaxEndpoints = 12;
  // "pid 10 on node7".
  std::string who() const;
  // The endpoints that a process on `from` can use, unix sockets first.
  std::vector<Endpoint> reachable_from(const HostIdentity& from) const;
  friend bool operator==(const Hello&, const Hello&) = default;
};
Bytes encode(const Hello& hello);
// Errors: kInvalidUsage with a sentence for all ranks when a tutti of another version sent it, kRemote when none did.
Result<Hello> decode_hello(ByteView bytes);

// What the meeting point tells a rank when all have arrived.
struct Neighbours {
  uint64_t job = 0;
  Secret token{};
  std::vector<Hello> hellos;  // of the rank's neighbours in the overlay
};
Bytes encode(const Neighbours& neighbours);
Result<Neighbours> decode_neighbours(ByteView bytes);

// The first message on a link of the overlay.
struct LinkHello {
  int32_t from = 0;
  int32_t to = 0;
  uint64_t job = 0;
  Secret token{};
};
Bytes encode(const LinkHello& link);
Result<LinkHello> decode_link(ByteView bytes);

// News about `rank`, or from it: an error's code and sentence.
struct Notice {
  int32_t rank = -1;
  Code code = Code::kRemote;
  std::string text;

  Status status() const { return Status(code, text); }
};
Bytes encode(const Notice& notice);
Result<Notice> decode_notice(ByteView bytes);

// One rank's part of an all_gather, or with empty bytes (kHere) its word that it is in that call.
struct Block {
  uint32_t sequence = 0;
  int32_t origin = 0;
  Bytes bytes;
};
Bytes encode(uint32_t sequence, int32_t origin, ByteView bytes);
Result<Block> decode_block(ByteView bytes);

// A message on its way to any rank. `path` holds the ranks that it has visited, so that it never walks in circles.
struct Parcel {
  int32_t from = 0;
  int32_t to = 0;
  uint32_t type = 0;
  std::vector<int32_t> path;
  Bytes payload;

  static constexpr size_t kMaxHops = 48;
};
Bytes encode(const Parcel& parcel);
Result<Parcel> decode_parcel(ByteView bytes);

}  // namespace tutti::bootstrap
