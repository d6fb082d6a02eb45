// The boundary between the executor and the wire: one-sided puts that end in a signal.
//
// A signal is one 64-byte line in the receiver's exported memory. Its word 0 is a counter with a single writer and
// monotonically growing values; words 1..7 are free for the executor. When the receiver reads the new word 0 (acquire),
// it also sees words 1..7 and the payload of every put before it on the same link and channel.
//
// Ownership: a Transport belongs to one rank of one communicator and outlives its Links. One thread at a time advances
// a Link (put, signal, poll, arm, disarm), and one at a time connects the Links of one Transport; ownership may pass
// between threads. abort() is for any thread, and so are signal(), pull() and the access pair where needs_poll() is
// false: each channel's by one thread at a time.
// Blocking: nothing here blocks.
// Errors: once a Link has failed, every later call returns the same Status, which names the peer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "topology/inventory.h"
#include "topology/host_place.h"
#include "transports/device_memory.h"

namespace tutti {

using Blob = std::vector<std::byte>;  // opaque, exchanged by the bootstrap, at most kMaxBlobBytes
inline constexpr size_t kMaxBlobBytes = 4096;

// One cache line; word 0 is the counter.
struct alignas(64) Line {
  uint64_t words[8] = {};
};
static_assert(sizeof(Line) == 64);

// What a Link over this transport can do; the same on both ends.
struct LinkTraits {
  bool mappable = false;           // shared() memory of the peer can be loaded from and stored to
  bool pullable = false;           // Link::pull and Link::push work: proven at connect
  bool places = false;             // a put into shared() memory of the peer lands there without a copy by the peer
  bool lands = false;              // and one into any memory of the peer's, from its land_in() on
  uint64_t max_put_bytes = UINT64_MAX;
  friend bool operator==(const LinkTraits&, const LinkTraits&) = default;
};

// The id of the memory that a Transport exports first: its Links' own messages lie there, so it is released after the
// last of them, and who reads kArena of a peer may do so as long as the Link lives.
inline constexpr uint32_t kArena = 1;
// By this id a Link finds all that the peer's puts may land in by land_in(), and more: it has any size.
inline constexpr uint32_t kLanding = UINT32_MAX;

// Memory of this rank that peers may write (and, if mappable, read). Made by Transport::export_memory.
struct LocalMemory {
  uint32_t id = 0;                 // 1, 2, 3, ... in the order of export: never reused by its Transport
  std::span<std::byte> bytes;
  int fd = -1;                     // the memfd that backs it from offset 0, -1 if none; borrowed
  std::shared_ptr<const void> owner = {};  // keeps `bytes` alive; none: the caller does, until release()
  const DeviceMemory* device = nullptr;  // whose it is, if it is a GPU's; borrowed
};

// Ids of a GPU's memory count from here on, so that they are apart from those of other memory.
inline constexpr uint32_t kFirstDeviceId = uint32_t{1} << 31;

// The peer's memory as a Link knows it.
struct RemoteMemory {
  uint32_t id = 0;
  size_t size_bytes = 0;
  std::byte* mapped = nullptr;     // non-null exactly when loads and stores reach it
};

struct RemoteSlice {
  const RemoteMemory* memory = nullptr;
  uint64_t offset = 0;
};

// The channel of what is not part of a plan.
inline constexpr int kNoChannel = -1;

// Who wakes a rank, without a fence of its own: threads of this process, or other processes.
enum class Signallers : uint8_t { kThreads, kProcesses };

// What a sleeping rank waits on. Kept from sleep to sleep, so that going to sleep allocates nothing.
class WaitSet {
 public:
  // Allocates for so many descriptors.
  void reserve(size_t descriptors) { fds_.reserve(descriptors); }
  void clear() {
    fds_.clear();
    longest_ms_ = -1;
    is_over_ = false;
    fences_threads_ = false;
    fences_processes_ = false;
  }
  void add(int fd, short events);  // a repeated fd is added once
  // A timer: the sleep ends after `ms` at the latest.
  void wake_within(int ms) { longest_ms_ = at_most(ms); }
  // What would end the sleep has happened: there is none.
  void wake_now() { is_over_ = true; }
  // Who is to wake this thread makes no fence between a signal and a look whether it sleeps: it has to.
  void need_fence(Signallers of) { (of == Signallers::kThreads ? fences_threads_ : fences_processes_) = true; }
  // After the last arm(), before everything is looked at once more.
  void fence() const;
  // Sleeps in poll(2) for at most `at_most_ms` (-1: as long as it takes). False when nothing but time has passed.
  bool sleep(int at_most_ms) { return poll_for(at_most(at_most_ms)); }
  // The same, but where signallers are other processes, the fence for whom has a gap (base/fences.h), it looks once
  // more, after a millisecond: `look` says whether what is waited for has come.
  template <class Look>
  bool sleep(int at_most_ms, const Look& look) {
    constexpr int kLookAgainMs = 1;
    int rest_ms = at_most(at_most_ms);
    if (fences_processes_) {
      int first_ms = rest_ms < 0 ? kLookAgainMs : std::min(rest_ms, kLookAgainMs);
      if (poll_for(first_ms) || look()) return true;
      if (rest_ms >= 0) rest_ms -= first_ms;
      if (rest_ms == 0) return false;
    }
    return poll_for(rest_ms);
  }

 private:
  // No more than the timers allow, -1 being for ever.
  int at_most(int ms) const {
    return ms < 0 || longest_ms_ < 0 ? std::max(ms, longest_ms_) : std::min(ms, longest_ms_);
  }
  bool poll_for(int ms);

  std::vector<pollfd> fds_;
  int longest_ms_ = -1;  // or for ever
  bool is_over_ = false;
  bool fences_threads_ = false;
  bool fences_processes_ = false;
};

enum class PutResult : uint8_t {
  kDone,  // taken; where needs_poll(), part of it may leave only in later poll()s, so go on polling
  kFull,  // nothing was taken; poll and try again
};

class Link {
 public:
  virtual ~Link() = default;

  virtual int peer() const = 0;
  virtual LinkTraits traits() const = 0;
  // The name of the transport that puts go over from now on, where the link has gone over to another one: "tcp"; or "".
  virtual std::string_view carried_by() const { return {}; }

  // A step of joining the two ends: both ranks call it, with the other's Transport::address(), until it is kDone. A
  // checked pattern crosses both ways. kBlocked: sleep on what arm() adds. A step after which that is another thing
  // must say kMoved, or its caller sleeps on what never comes. Errors name the peer and what failed: unreachable, wrong
  // token, not tutti.
  virtual Result<Progress> connect(std::span<const std::byte> peer_address) = 0;
  // What stood in the way so far, for the sentence at a deadline: "10.0.0.2:4711: no answer".
  // Empty: nothing but the peer.
  virtual std::string connect_report() const = 0;
  // After connect() has failed: whether the peer's connect() fails too, and both may so try another transport.
  virtual bool both_gave_up() const { return false; }

  // Makes `memory` known to the peer. Does not wait for the peer. The memory stays exported until Transport::release.
  // Errors: the link has failed; or, the link being as before, a device cannot take the memory, which the peer then
  // never finds.
  virtual Status share(const LocalMemory& memory) = 0;
  // The peer's memory `id`; nullptr while it has not arrived, which on some transports only poll() changes, and again
  // once the peer has released it. Owned by the Link; valid until this end has polled after the release, kArena and
  // kLanding until the end: a peer that releases those breaks the link.
  virtual const RemoteMemory* find(uint32_t id) = 0;

  // From now on the peer's puts to kLanding land in that memory of this rank's, from offset `at` on. Others, which are
  // elsewhere in kLanding, stay. Only where traits().lands.
  virtual void land_in(uint64_t /*at*/, std::span<std::byte> /*memory*/) {}
  // No more in what is at `at`. All that was to come there has come: what is on its way breaks the link.
  virtual void land_no_more(uint64_t /*at*/) {}
  // The payload of the peer's put that stores `number` into word 0 of `signal`, a Line of exported memory, goes to
  // `place` instead of where it was put, if it has just as many bytes and has not begun to come. One at a time for each
  // `signal`. `place` stays until divert_no_more(), or until the link has failed or was aborted. Only where
  // traits().lands.
  virtual void divert(const Line& /*signal*/, uint64_t /*number*/, std::span<std::byte> /*place*/) {}
  // No more. Whether a payload went there: one that is on its way breaks the link.
  virtual bool divert_no_more(const Line& /*signal*/) { return false; }

  // Writes `from` to `to`, then `line` to the Line at `signal`. All ranges are bounds-checked against the shared
  // memory. The source must stay unchanged until poll() has counted this put. An empty `from` is allowed. `channel`: of
  // the plan; a link of several lanes (Transport::lanes()) sends each channel's payloads over its own one.
  virtual Result<PutResult> put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line,
                                int channel = kNoChannel) = 0;
  // Memory of at least so many bytes to compose a payload in, which a put of that channel then sends without a copy:
  // the caller's until a put has it as its source, and the Link's again from when poll() has counted that put. nullptr:
  // there is none now, or it makes no difference here.
  virtual std::byte* stage(size_t /*size_bytes*/, int /*channel*/) { return nullptr; }
  // The line alone. On mapped memory: words 1..7, release store of word 0, and the peer's doorbell only if the peer
  // sleeps (no fence in between where the sleeper makes it: Doorbell); so it also publishes whatever this thread stored
  // into the peer's mapped memory before, and orders nothing else.
  virtual Result<PutResult> signal(RemoteSlice signal, const Line& line) = 0;
  // The same for what the peer can do without for a while: where every message costs a system call, it may leave with
  // the next put or signal, or with the second poll() from here. has_pending() does not count it.
  virtual Result<PutResult> signal_soon(RemoteSlice at, const Line& line) { return signal(at, line); }
  // What is put, signalled and shared between these two may leave only with the second one, so that a device is told
  // of all of it at once. No poll() and no sleep comes between them. Where that saves nothing it leaves as ever.
  virtual void begin_batch() {}
  virtual void end_batch() {}

  // Reads the peer's private memory at its address `from`: only when traits().pullable. Complete on return.
  virtual Status pull(std::span<std::byte> to, uint64_t from) = 0;
  // Writes the peer's private memory at its address `to`: only when traits().pullable. Complete on return, but seen by
  // the peer only with what is signalled from then on.
  virtual Status push(std::span<const std::byte> from, uint64_t to) = 0;

  // Progress both ways: applies what has arrived, sends what is pending, sets *puts_completed to the number of puts
  // (since connect) whose source may be reused. A peer that left or died is an error here.
  virtual Status poll(uint64_t* puts_completed) = 0;
  // False when poll() never does anything but count (mapped memory): the executor then skips it while it spins.
  virtual bool needs_poll() const = 0;
  // Whether something that was taken has not left yet, but for signals that may wait: only poll() moves it, and the
  // peer may wait for it.
  virtual bool has_pending() const = 0;

  // Before sleeping: announces the sleep and adds what to wait on. The caller then calls WaitSet::fence(), checks every
  // line once more, sleeps in poll(2), and calls disarm(), which without arm() does nothing.
  virtual void arm(WaitSet& waits) = 0;
  virtual void disarm() = 0;

  // Memory of the peer's caller, mapped, pulled or pushed into, is used only between these two. False: the peer has
  // aborted, and its caller has that memory back; nothing was begun then, and there is nothing to end. Of end_access():
  // what was read may be anything. Several threads may each be between their two.
  virtual bool begin_access() noexcept = 0;
  virtual bool end_access() noexcept = 0;
  // Whether the peer is between those two. After abort() this rank's caller may have its memory back once it is not.
  virtual bool is_accessed() const noexcept = 0;

  // A hint for ranks of one host that wait for each other: this rank tells on which processor it waits, and asks on
  // which one the peer waited last; -1: unknown. Other transports have nothing to tell.
  virtual void tell_cpu(int) noexcept {}
  virtual int peer_cpu() const noexcept { return -1; }

  // Any thread, idempotent: every later call returns `kAborted` promptly. The peer sees an error in its poll(), and in
  // every begin_access() and end_access() from when this returns.
  virtual void abort() noexcept = 0;
};

// What a transport is given to make itself.
struct TransportContext {
  int rank = 0;
  int nranks = 0;
  uint64_t job = 0;                                 // tells communicators apart in names
  std::span<const std::byte> token;                 // 32 secret bytes of this communicator, known to all its ranks only
  std::string interface;                            // option "interface": "" or a name or address to force
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;
  // Whether two ranks on these hosts can be linked: pure and symmetric. `same_process`: both ranks live in one process.
  virtual std::optional<LinkTraits> reach(const Inventory& self, const Inventory& peer, bool same_process) const = 0;

  // Opens whatever peers connect to; called once before address(). Does not block for peers.
  virtual Status listen() = 0;
  virtual Blob address() const = 0;
  // How many devices of this rank its Links use side by side, each for its channels; since listen().
  virtual int lanes() const { return 1; }
  // Told once, before the first open().
  virtual void place(const HostPlace& /*own*/) {}

  // Pins or registers once for all peers. `fd`: the memfd behind `memory`, or -1; a mappable transport needs one. The
  // caller keeps the memory alive until release(). `owner`, if any, keeps it alive, too: peers that use it as it is
  // hold that until they find it released, or as long as their Links, so that what they store does no harm when this
  // rank is gone. The result is owned by the Transport.
  virtual Result<const LocalMemory*> export_memory(std::span<std::byte> memory, int fd,
                                                   std::shared_ptr<const void> owner) = 0;
  // Not kArena while there are Links.
  virtual void release(const LocalMemory* memory) = 0;
  // Whether devices of this transport may reach memory of GPUs by themselves.
  virtual bool takes_device_memory() const { return false; }
  // The same as export_memory() for that, where it may. Links put from it, while it is held, and into it as from other
  // memory, but for lines, whether the devices reach it or not: only use() tells. What is not held may have been freed,
  // and the host's memory be at its address. The caller keeps `memory` until release().
  virtual const LocalMemory* export_device_memory(const DeviceMemory& /*memory*/) { return nullptr; }
  // A call is about to use exported memory. A transport whose devices hold only so much at a time makes it ready for
  // them, in place of what was used longest ago and is not held. Errors: they do not take it, and payloads are copied.
  virtual Status use(const LocalMemory* /*memory*/) { return {}; }
  // Between the two a peer may put into that memory at any time, and use() of other memory does not take its place.
  // Counted.
  virtual void hold(const LocalMemory* /*memory*/) {}
  virtual void let_go(const LocalMemory* /*memory*/) {}

  virtual std::unique_ptr<Link> open(int peer) = 0;
};

}  // namespace tutti
