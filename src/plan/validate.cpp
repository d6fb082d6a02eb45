#include "plan/validate.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "plan/cursor.h"
#include "plan/resolve.h"

namespace tutti {
namespace {

// One message on its stream, as its sender described it.
struct Message {
  int chunk = kNoChunk;
  int into = kNoChunk;
  bool payload = false;
  uint64_t slice = 0;
  size_t section = 0;     // of the sender's step
  size_t step = 0;
};

// Everything of one (from, to) pair on one channel.
struct Stream {
  std::vector<Message> under_way;  // in the order in which they were sent; no more than there are slots, or a group has
  uint64_t sent = 0;
  uint64_t released = 0;
};

// Runs all ranks of one channel; values play no part.
class Run {
 public:
  Run(const Plan& plan, int channel, SliceCounts slices, int slots)
      : shape_(plan.shape()),
        channel_(channel),
        slots_(static_cast<uint64_t>(slots)),
        slices_(std::move(slices)),
        parts_(shape_.nranks),
        facts_(shape_.nranks) {
    for (int rank = 0; rank < shape_.nranks; ++rank) parts_[rank] = plan.part(rank, channel);
  }

  Status run() {
    for (int rank = 0; rank < shape_.nranks; ++rank) {
      facts_[rank] = TUTTI_TRY(resolve(shape_, parts_[rank], rank, channel_));
      cursors_.emplace_back(parts_[rank], facts_[rank], slices_);
      runnable_.push_back(rank);
    }
    while (!runnable_.empty()) {
      int rank = runnable_.front();
      runnable_.pop_front();
      while (!cursors_[rank].done() && TUTTI_TRY(advance(rank))) {
      }
    }
    return check_finished();
  }

 private:
  // Runs the next step with those that may run as one with it; false when it has to wait.
  Result<bool> advance(int rank) {
    Cursor& cursor = cursors_[rank];
    const SectionFacts& facts = facts_[rank][cursor.section()];
    size_t begin = cursor.step_index();
    if (cursor.step().kind == StepKind::kWait) {
      if (!TUTTI_TRY(wait(rank, cursor.step(), facts.steps[begin]))) return false;
    } else if (!has_slots(rank, begin, facts.group_end[begin])) {
      return false;
    }
    for (size_t i = begin; i < facts.group_end[begin]; ++i) {
      if (cursor.step().kind == StepKind::kPut) put(rank, cursor.step(), facts.steps[i]);
      for (int peer : facts.released[i]) {
        ++stream(peer, rank).released;
        runnable_.push_back(peer);
      }
      cursor.advance();
    }
    return true;
  }

  bool has_slots(int rank, size_t begin, size_t end) {
    const std::vector<Step>& steps = parts_[rank].sections[cursors_[rank].section()].steps;
    for (size_t i = begin; i < end; ++i) {
      if (steps[i].kind != StepKind::kPut) continue;
      const Stream& to = stream(rank, steps[i].peer);
      if (to.sent - to.released >= slots_) return false;
    }
    return true;
  }

  void put(int rank, const Step& step, const StepFacts& fact) {
    const Cursor& cursor = cursors_[rank];
    Stream& to = stream(rank, step.peer);
    ++to.sent;
    to.under_way.push_back(
        {fact.chunk, step.into, fact.payload, cursor.slice(), cursor.section(), cursor.step_index()});
    runnable_.push_back(step.peer);
  }

  Result<bool> wait(int rank, const Step& step, const StepFacts& fact) {
    Stream& from = stream(step.peer, rank);
    if (from.under_way.empty()) return false;
    const Message& message = from.under_way.front();
    std::string_view difference;
    if (message.payload != fact.payload) {
      difference = message.payload ? "its payload is never used" : "the message has no payload";
    } else if (message.into != step.into) {
      difference = "they name different chunks to store into";
    } else if (message.chunk != fact.chunk) {
      difference = "they mean different chunks";
    } else if (message.slice != cursors_[rank].slice()) {
      difference = "they mean different slices";
    }
    if (!difference.empty()) {
      return error(Code::kInvalidArgument, "{}: does not fit the message of {}: {}", here(rank),
                   sender_of(message, step.peer), difference);
    }
    from.under_way.erase(from.under_way.begin());
    return true;
  }

  Status check_finished() const {
    std::string blocked;
    int shown = 0;
    for (int rank = 0; rank < shape_.nranks; ++rank) {
      if (cursors_[rank].done()) continue;
      if (++shown <= 4) blocked += fmt::format("{}{}", shown > 1 ? "; " : "", here(rank));
    }
    if (shown > 4) blocked += fmt::format("; and {} more", shown - 4);
    if (shown > 0) return error(Code::kInvalidArgument, "the plan blocks for ever with {} slots: {}", slots_, blocked);
    const Stream* left = nullptr;
    uint64_t first = UINT64_MAX;
    for (const auto& [pair, each] : streams_) {
      if (each.under_way.empty() || pair > first) continue;
      left = &each;
      first = pair;
    }
    if (left != nullptr) {
      return error(Code::kInvalidArgument, "{}: rank {} never waits for this message",
                   sender_of(left->under_way.front(), static_cast<int>(first >> 32)), static_cast<uint32_t>(first));
    }
    return {};
  }

  Stream& stream(int from, int to) {
    return streams_[uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to)];
  }

  std::string here(int rank) const {
    return place_of(parts_[rank], rank, channel_, cursors_[rank].section(), cursors_[rank].step_index());
  }

  std::string sender_of(const Message& message, int rank) const {
    return place_of(parts_[rank], rank, channel_, message.section, message.step);
  }

  const PlanShape& shape_;
  int channel_;
  uint64_t slots_;
  SliceCounts slices_;
  std::vector<RankPlan> parts_;
  std::vector<PartFacts> facts_;
  std::vector<Cursor> cursors_;
  std::deque<int> runnable_;
  std::unordered_map<uint64_t, Stream> streams_;  // by sender and receiver
};

// How many ways of giving each chunk its own number of slices are tried.
constexpr uint64_t kUnequalRuns = 3;

// So many slices that the longest lag is filled and the slots wrap around in the steady state.
uint64_t enough_slices(const Plan& plan, int slots) {
  int lag = 0;
  for (int rank = 0; rank < plan.shape().nranks; ++rank) {
    for (int channel = 0; channel < plan.shape().channels; ++channel) {
      for (const Section& section : plan.part(rank, channel).sections) lag = std::max(lag, largest_lag(section));
    }
  }
  return lag + slots + 3;
}

}  // namespace

Status validate(const Plan& plan, const ValidateOptions& options) {
  TUTTI_TRY(check_shape(plan.shape()));
  if (options.slots < 1) return error(Code::kInvalidArgument, "a stream needs at least one slot");
  uint64_t slices = options.slices > 0 ? options.slices : enough_slices(plan, options.slots);
  auto run = [&](const SliceCounts& counts) -> Status {
    for (int channel = 0; channel < plan.shape().channels; ++channel) {
      TUTTI_TRY(Run(plan, channel, counts, options.slots).run());
    }
    return {};
  };
  TUTTI_TRY(run([slices](int) { return slices; }));
  if (options.slices > 0) return {};
  for (uint64_t seed = 1; seed <= kUnequalRuns; ++seed) {
    TUTTI_TRY(run([slices, seed](int chunk) { return some_slices(chunk, seed, slices); }));
  }
  return {};
}

}  // namespace tutti
