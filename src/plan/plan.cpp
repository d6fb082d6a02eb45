#include "plan/plan.h"

#include <set>

#include "base/check.h"

namespace tutti {
namespace {

// FNV-1a over values written out byte by byte, so that the digest does not depend on the machine.
class Digest {
 public:
  void add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<uint8_t>(value >> shift));
  }
  void add(std::string_view text) {
    add(text.size());
    for (char c : text) add_byte(static_cast<uint8_t>(c));
  }
  void add(const std::vector<Place>& places) {
    add(places.size());
    for (const Place& place : places) {
      add(static_cast<uint64_t>(place.space));
      add_signed(place.index);
    }
  }
  void add(const Step& step) {
    add(static_cast<uint64_t>(step.kind));
    add_signed(step.peer);
    add_signed(step.into);
    add_signed(step.chunk);
    add(uint64_t{step.lag});
    add(uint64_t{step.finish});
    add(step.sources);
    add(step.destinations);
  }
  void add(const PlanShape& shape) {
    add(std::string_view(shape.algorithm));
    add(static_cast<uint64_t>(shape.collective));
    for (int value : {shape.nranks, shape.root, shape.channels, shape.chunks}) add_signed(value);
    add(shape.slice_bytes);
    add(static_cast<uint64_t>(shape.by_reference));
    add(static_cast<uint64_t>(shape.deliver_directly));
    for (int ranks : shape.groups) add_signed(ranks);
    if (!shape.order.empty()) add(std::string_view("order"));
    for (int rank : shape.order) add_signed(rank);
    if (shape.rendezvous) add(std::string_view("rendezvous"));
    if (shape.by_chunk) add(std::string_view("by_chunk"));
  }
  void add_signed(int64_t value) { add(static_cast<uint64_t>(value)); }
  uint64_t value() const { return hash_; }

 private:
  void add_byte(uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3; }
  uint64_t hash_ = 0xcbf29ce484222325;
};

// What a rendezvous puts before the other steps of the part; the peers' parts name the same messages.
Section rendezvous_of(const RankPlan& part) {
  std::set<int32_t> senders, receivers;
  for (const Section& section : part.sections) {
    for (const Step& step : section.steps) {
      if (step.into == kNoChunk) continue;
      (step.kind == StepKind::kPut ? receivers : senders).insert(step.peer);
    }
  }
  Section section;
  for (int32_t peer : senders) section.steps.push_back({.kind = StepKind::kPut, .peer = peer});
  for (int32_t peer : receivers) section.steps.push_back({.kind = StepKind::kWait, .peer = peer});
  return section;
}

}  // namespace

RankPlan Plan::part(int rank, int channel) const {
  TUTTI_CHECK(rank >= 0 && rank < shape_.nranks && channel >= 0 && channel < shape_.channels);
  if (generator_ != nullptr) {
    RankPlan part = generator_(shape_, rank, channel);
    Section meeting = shape_.rendezvous ? rendezvous_of(part) : Section();
    if (!meeting.steps.empty()) part.sections.insert(part.sections.begin(), std::move(meeting));
    return part;
  }
  TUTTI_CHECK(parts_ != nullptr);
  size_t index = static_cast<size_t>(rank) * shape_.channels + channel;
  TUTTI_CHECK(index < parts_->size());
  return (*parts_)[index];
}

uint64_t Plan::digest() const {
  Digest digest;
  digest.add(shape_);
  if (parts_ == nullptr) return digest.value();
  digest.add(parts_->size());
  for (const RankPlan& part : *parts_) {
    digest.add(part.sections.size());
    for (const Section& section : part.sections) {
      digest.add(section.steps.size());
      for (const Step& step : section.steps) digest.add(step);
    }
  }
  return digest.value();
}

}  // namespace tutti
