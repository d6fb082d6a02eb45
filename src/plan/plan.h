// Plan: what every rank does for one collective, as data. A Plan is independent of count, addresses and transports; it
// talks about symbolic chunks, and one rank's part is generated without the others'.
//
// Chunks. A chunk is a piece of the data of the whole collective; which of them a rank's input and output hold is what
// the collective means (plan/collective.h). Each chunk is split into `channels` contiguous ranges and these into slices
// of at most `slice_bytes`; of one vector (all_reduce, reduce, broadcast) the channels are ranges of the whole, and
// chunks are cut within them. Boundaries fall on 64-byte lines where the count allows it. See plan/partition.h.
//
// Channels of one rank run independently of each other; each runs its sections one after the other. Within a section
// every step means a chunk (below) and runs once for each slice t = 0 .. slices - 1 of that chunk, of which there is at
// least one, which may be empty: an empty piece still travels. Bare signals and their Waits mean no chunk and run once.
//
// Messages. For every (from, to, channel) there is one ordered stream. The k-th Put of `from` to `to` matches the k-th
// Wait of `to` on `from`, and both mean the same chunk and slice. A message has a payload of one piece or none, and is
// delivered either
//   - into a chunk of the receiver's output, when both Put and Wait name it (`into`), or
//   - as an arrival: after the Wait, Place{kArrival, from} means that payload until the next Wait on the same stream,
//   or
//   - not at all, when it has no payload: a bare signal.
// The receiver releases a message after its Wait, an arrival after the last step that uses it. A Put blocks while the
// stream's slots all hold messages that are not yet released. An executor may run a Copy or Reduce and the Puts right
// after it that send what it wrote, or Puts in a row of one and the same place, as one (all of one lag, and one to a
// peer; plan/group.h): it then waits for all the slots first and releases last.
//
// Temps. Place{kTemp, id} is a value written by exactly one step of its section, once per slice, and read afterwards.
// Temps and arrivals live within one round: all steps that use one have the same lag.
//
// Partial results. What is combined but not finished lies in temps and messages only, never in an output: there an
// executor keeps it in the accumulation type, so that it is rounded once.
//
// Which chunk. All places of a step, and `into`, mean one and the same chunk: a temp has the chunk of the step that
// wrote it, an arrival that of the Put that sent it. The rank's own steps tell which: where the first step that uses an
// arrival names no other place, the Wait says the `chunk`, unless the shape has only one. resolve() works it out. No
// step reads and writes the same place.
//
// Lag. Inside a section a step with lag L runs in round r for slice t = r - L, when its chunk has such a slice; within
// one round steps run in list order. That is how phases of one algorithm overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace tutti {

enum class Space : uint8_t { kInput, kOutput, kTemp, kArrival };

struct Place {
  Space space = Space::kInput;
  int32_t index = 0;  // chunk of input or output; id of a temp; peer of an arrival
  friend bool operator==(const Place&, const Place&) = default;
};

// Bounds of what a Plan may say; a plan file beyond them is refused.
inline constexpr int kMaxPlanRanks = 65536;
inline constexpr int kMaxPlanChannels = 256;
inline constexpr int kMaxPlanChunks = 1 << 26;
inline constexpr uint64_t kMaxPlanSliceBytes = uint64_t{1} << 30;

constexpr Place input(int chunk) { return {Space::kInput, chunk}; }
constexpr Place output(int chunk) { return {Space::kOutput, chunk}; }
constexpr Place temp(int id) { return {Space::kTemp, id}; }
constexpr Place arrival(int peer) { return {Space::kArrival, peer}; }

enum class StepKind : uint8_t {
  kCopy,    // destinations[*] = sources[0]
  kReduce,  // destinations[*] = sources[0] op sources[1] op ... in this order; accumulated in the accumulation type
  kPut,     // sends sources[0], or with no source a bare signal, to `peer`
  kWait,    // receives the next message from `peer`
};

inline constexpr int kNoChunk = -1;  // of a bare signal, too

struct Step {
  StepKind kind = StepKind::kCopy;
  int32_t peer = -1;              // kPut, kWait
  int32_t into = kNoChunk;        // kPut, kWait: chunk of the receiver's output
  int32_t chunk = kNoChunk;       // kWait: of the arrival, where the steps that use it do not tell
  uint8_t lag = 0;
  bool finish = false;            // kReduce, kCopy: the result is final (an average divides here)
  std::vector<Place> sources;
  std::vector<Place> destinations;
  friend bool operator==(const Step&, const Step&) = default;
};

struct Section {
  std::vector<Step> steps;
  friend bool operator==(const Section&, const Section&) = default;
};

// One rank's part on one channel.
struct RankPlan {
  std::vector<Section> sections;
  friend bool operator==(const RankPlan&, const RankPlan&) = default;
};

// A promise of a Plan about the callers' memory, for calls whose input and output are separate or for all. A rank knows
// which it has, and may ask less of its peers.
enum class Permission : uint8_t { kNever, kUnlessInPlace, kAlways };

constexpr bool holds(Permission permission, bool in_place) {
  return permission == Permission::kAlways || (permission == Permission::kUnlessInPlace && !in_place);
}

struct PlanShape {
  std::string algorithm;            // "ring", "direct_two_shot", ...
  Collective collective = TUTTI_ALL_REDUCE;
  int nranks = 0;
  int root = -1;
  int channels = 1;
  int chunks = 1;
  uint64_t slice_bytes = 0;         // of one piece, a multiple of 64
  // Ranks that are near each other, in groups within groups, innermost first: groups[l] is how many consecutive ranks
  // each group of level l has. Each divides the next, and the last divides nranks. Empty: there are no groups.
  std::vector<int> groups;
  // All ranks, those that are near each other after one another, for algorithms in which neighbours exchange. Empty: in
  // the order of their numbers.
  std::vector<int> order;

  // Whether a Put from kInput or kOutput of this rank may be read by the peer at any time until it releases the
  // message. The checker proves it.
  Permission by_reference = Permission::kNever;
  // Whether a message with `into` may be stored straight into this rank's output as soon as this rank's first message
  // of the call has arrived. The checker proves more: as soon as this rank has entered the call.
  Permission deliver_directly = Permission::kNever;
  // Before all else, receivers of messages `into` their outputs send bare signals to those that put them, which wait
  // for these: so that where the outputs are is known from the first message on. These steps are part of the Plan.
  bool rendezvous = false;
  // Whether one message may stand for all slices of a chunk, where memory is shared. Of a Put from kInput that is not
  // `into` an output and may be read in place (by_reference) that of the first slice: the peer may read all of the
  // chunk until it releases the last one. Of Puts `into` an output that are stored straight there (deliver_directly),
  // if its rank has said so in a message before, that of the last slice: with it all are there. Puts of other slices
  // then send nothing, and Waits for them are over at once. So the first slice of a Put `into` an output runs after one
  // of a Wait on that peer that is not, that of a Wait `into` one after one of a Put to the peer that is not, and its
  // section does not read what comes there. The checker proves the rest.
  bool by_chunk = false;
  friend bool operator==(const PlanShape&, const PlanShape&) = default;
};

class Plan {
 public:
  // A pure function of the shape, the rank and the channel.
  using Generator = RankPlan (*)(const PlanShape& shape, int rank, int channel);

  Plan() = default;
  // A Plan whose parts are generated on demand.
  Plan(PlanShape shape, Generator generator) : shape_(std::move(shape)), generator_(generator) {}
  // A Plan that is written out, for instance read from a file: parts[rank * channels + channel]. Validate before use.
  Plan(PlanShape shape, std::vector<RankPlan> parts)
      : shape_(std::move(shape)), parts_(std::make_shared<const std::vector<RankPlan>>(std::move(parts))) {}

  const PlanShape& shape() const { return shape_; }
  RankPlan part(int rank, int channel) const;
  // Of the shape, and of the parts when they are written out: equal Plans have equal digests on every machine.
  uint64_t digest() const;

 private:
  PlanShape shape_;
  Generator generator_ = nullptr;
  std::shared_ptr<const std::vector<RankPlan>> parts_;  // shared by copies of this Plan; immutable
};

}  // namespace tutti
