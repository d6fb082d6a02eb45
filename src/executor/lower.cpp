#include "executor/lower.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "plan/group.h"
#include "plan/resolve.h"

namespace tutti {
namespace {

bool mentions(const std::vector<Place>& places, Place place) {
  return std::find(places.begin(), places.end(), place) != places.end();
}

// Lowers one section; `temps` maps a Plan's temp to its storage across sections.
class SectionLowering {
 public:
  SectionLowering(const Section& section, const SectionFacts& facts, Program& program, std::map<int, int>& temps)
      : steps_(section.steps), facts_(facts), program_(program), temps_(temps) {}

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
    size_t end = end_of_group(steps_, i);
    Op op;
    op.kind = OpKind::kCompute;
    op.lag = step.lag;
    op.chunk = facts_.steps[i].chunk;
    op.finish = step.finish;
    op.sources = add_operands(step.sources);
    op.sends = add_sends(step.kind == StepKind::kPut ? i : i + 1, end);
    op.destinations = add_operands(stored_destinations(i, end));
    op.releases = add_releases(i, end);
    program_.ops.push_back(op);
    return end;
  }

  void lower_wait(size_t i) {
    Op op;
    op.kind = OpKind::kWait;
    op.lag = steps_[i].lag;
    op.chunk = facts_.steps[i].chunk;
    op.peer = steps_[i].peer;
    op.into = steps_[i].into;
    op.release = op.into != kNoChunk || last_use(i) == i;
    program_.ops.push_back(op);
  }

  // Destinations that need memory here: all but temps that only the fused Puts read.
  std::vector<Place> stored_destinations(size_t i, size_t end) const {
    std::vector<Place> stored;
    for (Place place : steps_[i].destinations) {
      if (place.space != Space::kTemp || read_outside(place, i + 1, end)) stored.push_back(place);
    }
    return stored;
  }

  bool read_outside(Place place, size_t begin, size_t end) const {
    for (size_t j = 0; j < steps_.size(); ++j) {
      if ((j < begin || j >= end) && mentions(steps_[j].sources, place)) return true;
    }
    return false;
  }

  // The last step that reads the arrival of the Wait at `i`; `i` itself when none does; steps_.size() when it cannot be
  // told because steps of another lag read it (it is then released by the stream's next Wait).
  size_t last_use(size_t i) const {
    Place place = arrival(steps_[i].peer);
    size_t last = i;
    for (size_t j = i + 1; j < steps_.size(); ++j) {
      if (steps_[j].kind == StepKind::kWait && steps_[j].peer == steps_[i].peer) return last;
      if (!mentions(steps_[j].sources, place)) continue;
      if (steps_[j].lag != steps_[i].lag) return steps_.size();
      last = j;
    }
    return last;
  }

  Operand to_operand(Place place) {
    if (place.space != Space::kTemp) return {place.space, place.index};
    auto [found, added] = temps_.try_emplace(place.index, static_cast<int>(temps_.size()));
    return {Space::kTemp, found->second};
  }

  Span add_operands(const std::vector<Place>& places) {
    Span span{static_cast<uint32_t>(program_.operands.size()), static_cast<uint32_t>(places.size())};
    for (Place place : places) program_.operands.push_back(to_operand(place));
    return span;
  }

  Span add_sends(size_t begin, size_t end) {
    Span span{static_cast<uint32_t>(program_.sends.size()), static_cast<uint32_t>(end - begin)};
    for (size_t j = begin; j < end; ++j) {
      Send send{steps_[j].peer, steps_[j].into, {}};
      if (!steps_[j].sources.empty()) {
        send.source = {steps_[j].sources[0].space, steps_[j].sources[0].index};
      }
      program_.sends.push_back(send);
    }
    return span;
  }

  Span add_releases(size_t begin, size_t end) {
    Span span{static_cast<uint32_t>(program_.releases.size()), 0};
    std::set<int> peers;
    for (size_t i = 0; i < begin; ++i) {
      if (steps_[i].kind != StepKind::kWait || steps_[i].into != kNoChunk) continue;
      size_t last = last_use(i);
      if (last != i && last >= begin && last < end) peers.insert(steps_[i].peer);
    }
    program_.releases.insert(program_.releases.end(), peers.begin(), peers.end());
    span.count = static_cast<uint32_t>(peers.size());
    return span;
  }

  const std::vector<Step>& steps_;
  const SectionFacts& facts_;
  Program& program_;
  std::map<int, int>& temps_;
};

}  // namespace

Program lower(const Plan& plan, int rank, int channel) {
  RankPlan part = plan.part(rank, channel);
  auto facts = resolve(plan.shape(), part, rank, channel);
  TUTTI_CHECK(facts.ok());
  Program program;
  std::map<int, int> temps;
  std::set<int> peers;
  for (size_t s = 0; s < part.sections.size(); ++s) {
    const Section& section = part.sections[s];
    Span ops{static_cast<uint32_t>(program.ops.size()), 0};
    SectionLowering(section, (*facts)[s], program, temps).run();
    ops.count = static_cast<uint32_t>(program.ops.size()) - ops.first;
    for (const Step& step : section.steps) {
      program.temp_copies = std::max<int>(program.temp_copies, step.lag + 1);
      if (step.peer >= 0) peers.insert(step.peer);
    }
    program.sections.push_back(ops);
  }
  program.peers.assign(peers.begin(), peers.end());
  program.temps = static_cast<int>(temps.size());
  return program;
}

}  // namespace tutti
