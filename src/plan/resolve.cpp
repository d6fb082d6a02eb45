#include "plan/resolve.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "plan/collective.h"
#include "plan/group.h"
#include "plan/text.h"

namespace tutti {
namespace {

// Follows one section step by step.
class Resolver {
 public:
  Resolver(const PlanShape& shape, const Section& section, int rank) : shape_(shape), section_(section), rank_(rank) {
    facts_.steps.resize(section.steps.size());
    facts_.released.resize(section.steps.size());
  }

  Status run_step(int index) {
    const Step& step = section_.steps[index];
    TUTTI_TRY(check_form(step));
    TUTTI_TRY(check_chunks(step));
    TUTTI_TRY(check_overlap(step));
    StepFacts& facts = facts_.steps[index];
    if (step.kind == StepKind::kWait) return wait(step, index, facts);
    facts.payload = !step.sources.empty();
    if (!facts.payload) return {};
    facts.chunk = TUTTI_TRY(chunk_of(step));
    for (const Place& source : step.sources) use(source, index, facts.chunk);
    return write(step, facts.chunk);
  }

  SectionFacts finish() {
    size_t size = section_.steps.size();
    facts_.group_end.resize(size);
    std::vector<size_t> last_of_group(size);
    for (size_t i = 0; i < size;) {
      size_t end = facts_.group_end[i] = end_of_group(section_.steps, i);
      for (; i < end; ++i) last_of_group[i] = end - 1;
    }
    for (size_t i = 0; i < size; ++i) {
      const Step& step = section_.steps[i];
      if (step.kind == StepKind::kWait) facts_.released[last_of_group[facts_.steps[i].last_use]].push_back(step.peer);
    }
    return std::move(facts_);
  }

 private:
  struct Value {
    int chunk = kNoChunk;
    uint8_t lag = 0;
    int wait = -1;  // arrivals: the step that received it
  };

  Status check_form(const Step& step) const {
    bool message = step.kind == StepKind::kPut || step.kind == StepKind::kWait;
    if (message && (step.peer < 0 || step.peer >= shape_.nranks)) return wrong("its peer is no rank of the plan");
    if (message && step.peer == rank_) return wrong("a rank cannot send to itself");
    if (!message && step.peer != -1) return wrong("only put and wait have a peer");
    if (step.into != kNoChunk && (!message || step.into < 0 || step.into >= shape_.chunks)) {
      return wrong("`into` is no chunk of the plan");
    }
    if (step.finish && message) return wrong("only copy and reduce can finish a value");
    switch (step.kind) {
      case StepKind::kCopy:
        if (step.sources.size() != 1 || step.destinations.empty())
          return wrong("a copy has one source and a destination");
        break;
      case StepKind::kReduce:
        if (step.sources.empty() || step.destinations.empty()) return wrong("a reduce has a source and a destination");
        break;
      case StepKind::kPut:
        if (step.sources.size() > 1 || !step.destinations.empty()) return wrong("a put has at most one source");
        if (step.into != kNoChunk && step.sources.empty()) return wrong("a bare signal cannot go into a chunk");
        break;
      case StepKind::kWait:
        if (!step.sources.empty() || !step.destinations.empty()) return wrong("a wait names no places");
        break;
      default:
        return wrong("its kind is unknown");
    }
    return {};
  }

  Status check_chunks(const Step& step) const {
    if (step.chunk != kNoChunk) {
      bool awaits_arrival = step.kind == StepKind::kWait && step.into == kNoChunk;
      if (!awaits_arrival) return wrong("only a wait for an arrival names a chunk");
      if (step.chunk < 0 || step.chunk >= shape_.chunks) return wrong("its chunk is none of the plan's");
    }
    if (step.into == kNoChunk) return {};
    int receiver = step.kind == StepKind::kPut ? step.peer : rank_;
    if (!in_output(shape_, receiver, step.into)) return wrong("the receiver's output does not hold the chunk");
    return {};
  }

  Status check_overlap(const Step& step) const {
    for (size_t i = 0; i < step.destinations.size(); ++i) {
      const Place& to = step.destinations[i];
      if (to.space != Space::kOutput && to.space != Space::kTemp) return wrong("only output and temp can be written");
      if (std::find(step.sources.begin(), step.sources.end(), to) != step.sources.end()) {
        return wrong("it reads and writes one place");
      }
      if (std::find(step.destinations.begin(), step.destinations.begin() + i, to) != step.destinations.begin() + i) {
        return wrong("it writes one place twice");
      }
    }
    return {};
  }

  // The chunk of a source, kNoChunk when it is an arrival whose chunk is not yet known.
  Result<int> chunk_of_source(const Place& place, uint8_t lag) const {
    if (place.space == Space::kInput || place.space == Space::kOutput) return chunk_of_buffer(place);
    bool is_temp = place.space == Space::kTemp;
    if (!is_temp && place.space != Space::kArrival) return wrong("it names an unknown space");
    const auto& values = is_temp ? temps_ : arrivals_;
    auto found = values.find(place.index);
    if (found == values.end())
      return wrong(is_temp ? "it reads a temp that is not written yet"
                           : "it reads an arrival that is not received yet");
    if (found->second.lag != lag) return wrong("it uses a temp or arrival of another lag");
    return found->second.chunk;
  }

  Result<int> chunk_of_buffer(const Place& place) const {
    if (place.index < 0 || place.index >= shape_.chunks) return wrong("it names a chunk that the plan does not have");
    bool is_input = place.space == Space::kInput;
    if (is_input && !in_input(shape_, rank_, place.index)) return wrong("the rank's input does not hold the chunk");
    if (!is_input && !in_output(shape_, rank_, place.index)) return wrong("the rank's output does not hold the chunk");
    return place.index;
  }

  Result<int> chunk_of(const Step& step) const {
    int chunk = shape_.chunks == 1 ? 0 : step.into;
    auto join = [&](int other) {
      if (other == kNoChunk || other == chunk) return true;
      return chunk == kNoChunk && (chunk = other, true);
    };
    for (const Place& source : step.sources) {
      if (!join(TUTTI_TRY(chunk_of_source(source, step.lag)))) return wrong("it mixes different chunks");
    }
    for (const Place& to : step.destinations) {
      if (to.space == Space::kOutput && !join(TUTTI_TRY(chunk_of_buffer(to))))
        return wrong("it mixes different chunks");
    }
    if (chunk == kNoChunk) return wrong("nothing tells which chunk it means");
    return chunk;
  }

  void use(const Place& source, int index, int chunk) {
    if (source.space != Space::kArrival) return;
    Value& value = arrivals_.find(source.index)->second;
    value.chunk = chunk;
    facts_.steps[value.wait].chunk = chunk;
    facts_.steps[value.wait].payload = true;
    facts_.steps[value.wait].last_use = index;
  }

  Status write(const Step& step, int chunk) {
    for (const Place& to : step.destinations) {
      if (to.space != Space::kTemp) continue;
      if (to.index < 0) return wrong("a temp's number is negative");
      if (!temps_.emplace(to.index, Value{chunk, step.lag}).second) return wrong("it writes a temp a second time");
    }
    return {};
  }

  Status wait(const Step& step, int index, StepFacts& facts) {
    facts.last_use = index;
    facts.payload = step.into != kNoChunk || step.chunk != kNoChunk;
    facts.chunk = step.into != kNoChunk ? step.into : step.chunk;
    arrivals_.erase(step.peer);
    if (step.into == kNoChunk) arrivals_.emplace(step.peer, Value{step.chunk, step.lag, index});
    return {};
  }

  static Status wrong(std::string_view reason) { return Status(Code::kInvalidArgument, std::string(reason)); }

  const PlanShape& shape_;
  const Section& section_;
  int rank_;
  SectionFacts facts_;
  std::map<int, Value> temps_;
  std::map<int, Value> arrivals_;  // by peer
};

}  // namespace

Status check_shape(const PlanShape& shape) {
  auto in_range = [](int value, int low, int high) { return value >= low && value <= high; };
  auto wrong = [](std::string_view field, auto value) {
    return error(Code::kInvalidArgument, "the plan's {} is {}, which is out of range", field, value);
  };
  if (!is_valid(shape.collective)) return wrong("collective", static_cast<int>(shape.collective));
  if (!in_range(shape.nranks, 1, kMaxPlanRanks)) return wrong("nranks", shape.nranks);
  if (!in_range(shape.root, has_root(shape.collective) ? 0 : -1, shape.nranks - 1)) return wrong("root", shape.root);
  if (!in_range(shape.channels, 1, kMaxPlanChannels)) return wrong("channels", shape.channels);
  if (!in_range(shape.chunks, 1, kMaxPlanChunks)) return wrong("chunks", shape.chunks);
  for (int within = 1; int ranks : shape.groups) {
    bool fits = ranks > within && ranks < shape.nranks && ranks % within == 0 && shape.nranks % ranks == 0;
    if (!fits) return wrong("groups", ranks);
    within = ranks;
  }
  std::vector<bool> is_in_order(static_cast<size_t>(shape.nranks));
  for (int rank : shape.order) {
    if (!in_range(rank, 0, shape.nranks - 1) || is_in_order[rank]) return wrong("order", rank);
    is_in_order[rank] = true;
  }
  if (!shape.order.empty() && shape.order.size() != is_in_order.size()) {
    return error(Code::kInvalidArgument, "the plan's order has {} of {} ranks", shape.order.size(), shape.nranks);
  }
  int chunks = chunks_of(shape.collective, shape.nranks);
  if (chunks > 0 && shape.chunks != chunks) {
    return error(Code::kInvalidArgument, "the plan's chunks are {}; {} of {} ranks has {}", shape.chunks,
                 name_of(shape.collective), shape.nranks, chunks);
  }
  if (shape.slice_bytes == 0 || shape.slice_bytes % 64 != 0 || shape.slice_bytes > kMaxPlanSliceBytes) {
    return error(Code::kInvalidArgument, "the plan's slice_bytes is {}; it must be a positive multiple of 64 up to {}",
                 shape.slice_bytes, kMaxPlanSliceBytes);
  }
  return {};
}

namespace {

// What PlanShape::by_chunk asks of a part.
class ChunkRule {
 public:
  explicit ChunkRule(const RankPlan& part) : part_(part) {
    for (size_t s = 0; s < part.sections.size(); ++s) {
      const std::vector<Step>& steps = part.sections[s].steps;
      for (size_t i = 0; i < steps.size(); ++i) {
        When when{s, steps[i].lag, i};
        bool has_message = steps[i].into == kNoChunk;  // of its first slice, whoever takes results by chunk
        if (has_message && steps[i].kind == StepKind::kPut) note(puts_, steps[i].peer, when);
        if (has_message && steps[i].kind == StepKind::kWait) note(waits_, steps[i].peer, when);
        for (const Place& source : steps[i].sources) {
          if (source.space == Space::kOutput) read_.insert({s, source.index});
        }
      }
    }
  }

  // What is wrong with a step that names an output; "" if nothing.
  std::string_view fault(size_t section, size_t index) const {
    const Step& step = part_.sections[section].steps[index];
    When when{section, step.lag, index};
    if (step.kind == StepKind::kPut) {
      bool is_told = comes_before(waits_, step.peer, when);
      return is_told ? "" : "by_chunk is 1, but no wait on the peer, not into an output, comes before";
    }
    bool has_told = comes_before(puts_, step.peer, when);
    if (!has_told) return "by_chunk is 1, but no put to the peer, not into an output, comes before";
    bool is_read = read_.contains({section, step.into});
    return is_read ? "by_chunk is 1, but its section reads what comes into the output" : "";
  }

 private:
  // When the first slice of a step runs: its section, its round there, its place in the list.
  using When = std::tuple<size_t, uint8_t, size_t>;
  using FirstOfPeer = std::map<int32_t, When>;

  static void note(FirstOfPeer& first, int32_t peer, When when) {
    When& known = first.try_emplace(peer, when).first->second;
    known = std::min(known, when);
  }
  static bool comes_before(const FirstOfPeer& first, int32_t peer, When when) {
    auto found = first.find(peer);
    return found != first.end() && found->second < when;
  }

  const RankPlan& part_;
  FirstOfPeer puts_, waits_;
  std::set<std::pair<size_t, int32_t>> read_;  // outputs, by section
};

}  // namespace

Result<PartFacts> resolve(const PlanShape& shape, const RankPlan& part, int rank, int channel) {
  PartFacts facts;
  std::optional<ChunkRule> by_chunk;
  if (shape.by_chunk) by_chunk.emplace(part);
  for (size_t s = 0; s < part.sections.size(); ++s) {
    Resolver resolver(shape, part.sections[s], rank);
    for (size_t i = 0; i < part.sections[s].steps.size(); ++i) {
      Status status = resolver.run_step(static_cast<int>(i));
      if (status.ok() && by_chunk && part.sections[s].steps[i].into != kNoChunk) {
        std::string_view fault = by_chunk->fault(s, i);
        if (!fault.empty()) status = Status(Code::kInvalidArgument, std::string(fault));
      }
      if (!status.ok()) return std::move(status).within(place_of(part, rank, channel, s, i));
    }
    facts.push_back(resolver.finish());
  }
  return facts;
}

std::string place_of(const RankPlan& part, int rank, int channel, size_t section, size_t step) {
  return fmt::format("rank {}, channel {}, section {}, step {} ({})", rank, channel, section, step,
                     to_text(part.sections[section].steps[step]));
}

}  // namespace tutti
