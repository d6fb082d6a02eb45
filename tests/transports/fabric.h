// A small job for transport tests: ranks with one Transport each, whose Links and memory a test drives from as
// many threads as it likes.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "transports/transport.h"

namespace tutti::test {

using Factory = std::function<std::unique_ptr<Transport>(const TransportContext&)>;

// What the conformance suite runs on. make() gives the factory of one job.
struct Loopback {
  static Factory make();
};
struct Shm {
  static Factory make();
};
struct Tcp {
  static Factory make();
};
#if defined(TUTTI_TEST_VERBS_LIBRARY)
// On the library that the build names: a fake, which needs no device, or the machine's.
struct Verbs {
  static Factory make();
};
#endif
// What the interface allows, at its worst: puts held back, and kFull without need.
struct Hostile {
  static Factory make();
};

inline constexpr int64_t kPatienceMs = 20'000;  // far beyond what anything here takes

std::vector<std::byte> token_of(int seed);

struct Window {
  Fd fd;
  Mapping mapping;
  const LocalMemory* exported = nullptr;
  std::byte* at(uint64_t offset) const { return mapping.bytes().data() + offset; }
  Line* line(uint64_t offset) const { return reinterpret_cast<Line*>(at(offset)); }
};

// One rank. Members are used by one thread at a time.
class Node {
 public:
  Node(const Factory& factory, int rank, int nranks, uint64_t job, int token_seed = 1);

  // As the so many-th rank of one host.
  Status listen() {
    TUTTI_TRY(transport->listen());
    transport->place({.numa_nodes = {}, .turn = rank});
    return {};
  }
  // Opens the Link to `peer` and connects it.
  Status connect(int peer, const Blob& address, Deadline deadline);
  // Exports fresh zeroed memory; it stays until the Node ends.
  const Window& add_window(size_t size_bytes);
  Link& link(int peer) { return *links[peer]; }

  int rank;
  std::vector<std::byte> token;
  std::unique_ptr<Transport> transport;
  std::deque<Window> windows;
  std::vector<std::unique_ptr<Link>> links;
};

// Two or more ranks, all connected, each with one window of `window_bytes` known to all others.
class Job {
 public:
  Job(const Factory& factory, int nranks, size_t window_bytes);

  Node& node(int rank) { return *nodes_[rank]; }
  Link& link(int from, int to) { return nodes_[from]->link(to); }
  const Window& window(int rank) { return nodes_[rank]->windows[0]; }
  // `owner`'s window as `viewer` sees it.
  const RemoteMemory* remote(int viewer, int owner) { return remotes_[viewer][owner]; }
  RemoteSlice slice(int viewer, int owner, uint64_t offset) { return {remote(viewer, owner), offset}; }
  // The first error while making the job; ok if all ranks connected.
  const Status& status() const { return status_; }

 private:
  Status connect_all();
  Status share_all();

  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::vector<const RemoteMemory*>> remotes_;
  Status status_;
};

// Connects `link` to the rank at `address`, asleep while it waits, as a rank does. kTimeout
// tells what stood in the way.
Status connect(Link& link, const Blob& address, Deadline deadline);

// Connects `nodes` in the order the core uses, one thread per rank: pair (a, b) at step ((a + b) % n, min(a, b)).
std::vector<Status> connect_ranks(const std::vector<Node*>& nodes, Deadline deadline);

// Runs `work(rank)` on one thread per rank and returns the statuses.
std::vector<Status> on_threads(int nranks, const std::function<Status(int)>& work);

uint64_t counter_of(const Line* line);
// Polls `link` until the line's counter reaches `value`; an error of poll() or kTimeout otherwise.
Status await(Link& link, const Line* line, uint64_t value);
// The same with arm, recheck and poll(2), as a sleeping rank does.
Status await_asleep(Link& link, const Line* line, uint64_t value);
// Polls both until `done` says so.
Status await_until(const std::function<bool()>& done, const std::vector<Link*>& links);
// Retries while the Link is full.
Status put(Link& link, RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line);
Status signal(Link& link, RemoteSlice at, const Line& line);

// Bytes that differ by position and seed.
std::vector<std::byte> pattern(size_t size_bytes, uint64_t seed);

// Whether both have the same bytes; whether all are `value`. By one memcmp, which sanitizers look at once.
bool same(std::span<const std::byte> a, std::span<const std::byte> b);
bool is_all(std::span<const std::byte> bytes, std::byte value);

}  // namespace tutti::test
