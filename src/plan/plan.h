// Plan: what every rank does for one collective, as data. A Plan is independent of count, addresses and transports; it talks
// about symbolic chunks, and one rank's part is generated without the others'.
//
// Partition. The count elements are split evenly into `channels` contiguous ranges, each range into `chunks` contiguous
// chunks (boundaries fall on 64-byte lines where the count allows it), each chunk into slices of at most `slice_bytes`. A
// kPerSlice section runs once for every slice number t = 0..slices-1, where slices belongs to the largest chunk; a chunk
// that is shorter has empty pieces at its end, and empty pieces still travel (as a bare signal). See plan/partition.h.
//
// Messages. For every (from, to, channel) there is one ordered stream. The k-th Put of `from` to `to` matches the k-th Wait
// of `to` on `from`. A message has a payload of one piece or none, and is delivered either
//   - into a chunk of the receiver's output, when both Put and Wait name it (`into`), or
//   - as an arrival: after the Wait, Place{kArrival, from} means that payload until the next Wait on the same stream.
//
// Temps. Place{kTemp, id} is a value written once per slice iteration before it is read in the same iteration.
//
// Lag. Inside a kPerSlice section a step with lag L runs in round r for slice t = r - L, when 0 <= t < slices; rounds are
// 0 .. slices - 1 + max lag; within one round steps run in list order. That is how phases of one algorithm overlap.
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

inline constexpr int kNoChunk = -1;

struct Step {
  StepKind kind = StepKind::kCopy;
  int32_t peer = -1;              // kPut, kWait
  int32_t into = kNoChunk;        // kPut, kWait: chunk of the receiver's output
  uint8_t lag = 0;
  bool finish = false;            // kReduce, kCopy: the result is final (an average divides here)
  std::vector<Place> sources;
  std::vector<Place> destinations;
  friend bool operator==(const Step&, const Step&) = default;
};

enum class Repeat : uint8_t { kOnce, kPerSlice };

struct Section {
  Repeat repeat = Repeat::kPerSlice;
  std::vector<Step> steps;
  friend bool operator==(const Section&, const Section&) = default;
};

// One rank's part on one channel.
struct RankPlan {
  std::vector<Section> sections;
  friend bool operator==(const RankPlan&, const RankPlan&) = default;
};

struct PlanShape {
  std::string algorithm;            // "ring", "direct_two_shot", ...
  Collective collective = TUTTI_ALL_REDUCE;
  int nranks = 0;
  int root = -1;
  int channels = 1;
  int chunks = 1;
  uint64_t slice_bytes = 0;         // of one piece, a multiple of 64
  // Whether a Put from kInput or kOutput may be read by the peer at any time until it releases the message, also when input
  // and output are the same memory. The checker proves it.
  bool by_reference = false;
  // Whether a message with `into` may be stored straight into the receiver's output as soon as the receiver's first message
  // of this call has arrived, also in place. The checker proves it.
  bool deliver_directly = false;
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
