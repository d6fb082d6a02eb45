#include "executor/lower.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "plan/resolve.h"

namespace tutti {
namespace {

// Lowers one section.
class SectionLowering {
 public:
  SectionLowering(const Section& section, const SectionFacts& facts, Program& program)
      : steps_(section.steps), facts_(facts), program_(program) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (Place source : steps_[i].sources) {
        if (source.space == Space::kTemp) last_read_[source.index] = i;
      }
    }
  }

  void run() {
    for (size_t i = 0; i < steps_.size();) i = lower_from(i);
  }

 private:
  // Lowers the step at `i` and the Puts that run as one with it; returns the next step.
  size_t lower_from(size_t i) {
    const Step& step = steps_[i];
    if (step.kind == StepKind::kWait) {
      lower_wait(i);
      return i + 1;
    }
    size_t end = facts_.group_end[i];
    Op op;
    op.kind = OpKind::kCompute;
    op.lag = step.lag;
    op.chunk = facts_.steps[i].chunk;
    op.finish = step.finish;
    op.sources = add_operands(step.sources);
    op.sends = add_sends(i, end);
    op.destinations = add_operands(stored_destinations(i, end));
    op.releases = add_releases(end - 1);
    program_.ops.push_back(op);
    free_temps(i, end);
    return end;
  }

  void lower_wait(size_t i) {
    Op op;
    op.kind = OpKind::kWait;
    op.lag = steps_[i].lag;
    op.chunk = facts_.steps[i].chunk;
    op.peer = steps_[i].peer;
    op.into = steps_[i].into;
    op.release = !facts_.released[i].empty();
    op.is_result = op.release && op.into != kNoChunk && !is_output_read(op.into);
    program_.ops.push_back(op);
  }

  bool is_output_read(int32_t chunk) const {
    return std::any_of(steps_.begin(), steps_.end(), [chunk](const Step& step) {
      auto is_chunk = [chunk](const Place& place) { return place.space == Space::kOutput && place.index == chunk; };
      return std::any_of(step.sources.begin(), step.sources.end(), is_chunk);
    });
  }

  // Destinations that need memory here: all but temps that only the fused Puts read.
  std::vector<Place> stored_destinations(size_t i, size_t end) const {
    std::vector<Place> stored;
    for (Place place : steps_[i].destinations) {
      if (place.space != Space::kTemp || is_read_from(end, place.index)) stored.push_back(place);
    }
    return stored;
  }

  bool is_read_from(size_t step, int temp) const {
    auto found = last_read_.find(temp);
    return found != last_read_.end() && found->second >= step;
  }

  // A temp lives within one round, so its memory serves another one once the last step that reads it has run.
  void free_temps(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      for (Place source : steps_[i].sources) {
        if (source.space != Space::kTemp || is_read_from(end, source.index)) continue;
        auto stored = storage_.extract(source.index);
        if (!stored.empty()) free_.push_back(stored.mapped());
      }
    }
  }

  Operand to_operand(Place place) {
    if (place.space != Space::kTemp) return {place.space, place.index};
    auto [found, added] = storage_.try_emplace(place.index, 0);
    if (added) found->second = take_storage();
    return {Space::kTemp, found->second};
  }

  int take_storage() {
    if (free_.empty()) {
      program_.temps = std::max(program_.temps, ++used_);
      return used_ - 1;
    }
    int storage = free_.back();
    free_.pop_back();
    return storage;
  }

  Span add_operands(const std::vector<Place>& places) {
    Span span{static_cast<uint32_t>(program_.operands.size()), static_cast<uint32_t>(places.size())};
    for (Place place : places) program_.operands.push_back(to_operand(place));
    return span;
  }

  // The step at `first` and the Puts of its result up to `end`. Those of a copy send what was copied: it has been in
  // its place for longer, perhaps in the receiver's caches, too.
  Span add_sends(size_t first, size_t end) {
    size_t begin = steps_[first].kind == StepKind::kPut ? first : first + 1;
    Span span{static_cast<uint32_t>(program_.sends.size()), static_cast<uint32_t>(end - begin)};
    for (size_t j = begin; j < end; ++j) {
      Send send{.peer = steps_[j].peer, .into = steps_[j].into};
      if (!steps_[j].sources.empty()) {
        send.is_of_input = steps_[j].sources[0].space == Space::kInput;
        Place source = is_copy_of_input(first) ? steps_[first].sources[0] : steps_[j].sources[0];
        send.source = {source.space, source.index};
      }
      program_.sends.push_back(send);
    }
    return span;
  }

  bool is_copy_of_input(size_t i) const {
    return steps_[i].kind == StepKind::kCopy && steps_[i].sources[0].space == Space::kInput;
  }

  Span add_releases(size_t last) {
    const std::vector<int>& peers = facts_.released[last];
    Span span{static_cast<uint32_t>(program_.releases.size()), static_cast<uint32_t>(peers.size())};
    program_.releases.insert(program_.releases.end(), peers.begin(), peers.end());
    return span;
  }

  const std::vector<Step>& steps_;
  const SectionFacts& facts_;
  Program& program_;
  std::map<int, size_t> last_read_;  // of each temp that is read: the step
  std::map<int, int> storage_;       // of each temp that is alive
  std::vector<int> free_;            // storage that no temp needs any more
  int used_ = 0;                     // storage that any temp of this section has had
};

}  // namespace

Program lower(const Plan& plan, int rank, int channel) {
  RankPlan part = plan.part(rank, channel);
  auto facts = resolve(plan.shape(), part, rank, channel);
  TUTTI_CHECK(facts.ok());
  Program program;
  std::set<int> peers;
  for (size_t s = 0; s < part.sections.size(); ++s) {
    const Section& section = part.sections[s];
    Span ops{static_cast<uint32_t>(program.ops.size()), 0};
    SectionLowering(section, (*facts)[s], program).run();
    ops.count = static_cast<uint32_t>(program.ops.size()) - ops.first;
    uint8_t most_lag = 0;
    for (const Step& step : section.steps) {
      most_lag = std::max(most_lag, step.lag);
      if (step.peer >= 0) peers.insert(step.peer);
    }
    program.sections.push_back({ops, most_lag});
  }
  program.peers.assign(peers.begin(), peers.end());
  return program;
}

}  // namespace tutti
