// Puts and signals into memory that is mapped here, and the bounds that hold on every transport.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>

#include "transports/common/doorbell.h"
#include "transports/common/link_state.h"
#include "transports/transport.h"

namespace tutti {

inline bool in_bounds(uint64_t memory_bytes, uint64_t offset, uint64_t size_bytes) {
  return offset <= memory_bytes && size_bytes <= memory_bytes - offset;
}
// What is wrong with a put of `size_bytes` to `to`, "" if nothing. A put of nothing needs no memory.
std::string put_problem(const RemoteSlice& to, uint64_t size_bytes);
// Whether a Line can be put there: inside the memory, and aligned.
inline bool takes_line(const RemoteSlice& signal) {
  return signal.memory != nullptr && in_bounds(signal.memory->size_bytes, signal.offset, sizeof(Line)) &&
         (reinterpret_cast<uintptr_t>(signal.memory->mapped) + signal.offset) % sizeof(Line) == 0;
}
// What is wrong with a Line there, "" if nothing.
std::string signal_problem(const RemoteSlice& signal);

// Words 1..7, then a release store of word 0. `at` is the aligned Line in the receiver's memory.
void store_line(std::byte* at, const Line& line);

// What one end of a link says of itself where both ends see it. Nobody constructs it: it begins as zeros.
struct alignas(64) AccessWords {
  uint32_t left = 0;  // 1: this end has aborted
  int32_t cpu = 0;    // where this end waited last, plus one; 0: it has not. Stored when that changes
  // How many threads of this end are in memory of the other end's caller. Apart from what that end looks at in every
  // access of its own, or each would take the line from the other's core.
  alignas(64) uint32_t busy = 0;
};

// The access half of a Link whose peer's memory is mapped; any number of threads. Each end first stores its own word,
// fences, and then reads the other's: of an abort and an access that begins, one sees the other.
class MappedAccess {
 public:
  // Both outlive this.
  void connect(AccessWords& mine, AccessWords& theirs) {
    theirs_ = &theirs;
    mine_.store(&mine, std::memory_order_release);
  }
  bool begin() noexcept;
  bool end() noexcept;
  bool peer_is_busy() const noexcept;
  // Any thread. Every thread whose caller goes on afterwards does this for itself.
  void leave() noexcept;
  // A hint, for those who wait: one end tells which processor it is on, the other looks.
  void tell_cpu(int cpu) noexcept;
  int peer_cpu() const noexcept;

 private:
  bool peer_has_left() const noexcept;
  void add_busy(uint32_t difference) noexcept;

  std::atomic<AccessWords*> mine_{nullptr};
  AccessWords* theirs_ = nullptr;
};

// The sending half of a Link whose peer's memory is mapped: puts are complete on return.
class MappedWriter {
 public:
  explicit MappedWriter(LinkState& state) : state_(state) {}

  // Where the peer sleeps; known once connected.
  void set_bell(Bell peer_bell) { peer_bell_ = peer_bell; }
  Result<PutResult> put(const RemoteSlice& to, std::span<const std::byte> from, const RemoteSlice& signal,
                        const Line& line);
  Result<PutResult> signal(const RemoteSlice& signal, const Line& line);
  uint64_t puts() const { return puts_; }

 private:
  LinkState& state_;
  Bell peer_bell_;
  uint64_t puts_ = 0;
};

}  // namespace tutti
