#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <unordered_map>

#include "plan/collective.h"
#include "plan/cursor.h"
#include "plan/expressions.h"
#include "plan/resolve.h"
#include "plan/validate.h"

namespace tutti {
namespace {

constexpr int kCalls = 2;

// A piece of a rank's memory. In place, input and output are one.
struct Cell {
  Space space = Space::kInput;
  int chunk = 0;
  uint64_t slice = 0;
};

struct Message {
  int call = 0;
  int into = kNoChunk;
  uint64_t slice = 0;
  bool payload = false;
  bool by_reference = false;  // read `from` when it is needed
  bool directly = false;      // stored into the receiver's output at any time from now to the Wait
  bool stored = false;
  bool lends_chunk = false;   // stands for all slices of the chunk
  Cell from;
  int value = Expressions::kGarbage;
};

struct Stream {
  std::vector<Message> messages;  // all of both calls
  std::vector<Message> silent;    // what is stored directly, and of which the message of another slice tells
  size_t waited = 0;
  size_t released = 0;
};

class Machine {
 public:
  Machine(const Plan& plan, const CheckOptions& options)
      : shape_(plan.shape()),
        options_(options),
        expressions_(shape_.nranks),
        random_(options.seed),
        ranks_(shape_.nranks),
        expected_(static_cast<size_t>(kCalls) * shape_.channels * shape_.chunks * options.slices,
                  Expressions::kGarbage) {
    for (int rank = 0; rank < shape_.nranks; ++rank) {
      for (int channel = 0; channel < shape_.channels; ++channel) parts_.push_back(plan.part(rank, channel));
    }
  }

  Status run() {
    for (int i = 0; i < shape_.nranks * shape_.channels; ++i) {
      facts_.push_back(TUTTI_TRY(resolve(shape_, parts_[i], i / shape_.channels, i % shape_.channels)));
    }
    for (int rank = 0; rank < shape_.nranks; ++rank) {
      Rank& self = ranks_[rank];
      self.in_place = options_.in_place == InPlace::kAll || (options_.in_place == InPlace::kSome && random_() % 2 == 0);
      self.input.resize(cells());
      self.output.resize(cells());
    }
    // Actions are tried in random order; when none of all makes progress nothing ever will.
    std::vector<int> actions(shape_.nranks * (shape_.channels + 1));
    for (size_t i = 0; i < actions.size(); ++i) actions[i] = static_cast<int>(i);
    for (size_t failed = 0; failed < actions.size();) {
      std::swap(actions[failed], actions[failed + random_() % (actions.size() - failed)]);
      int rank = actions[failed] / (shape_.channels + 1);
      int channel = actions[failed] % (shape_.channels + 1) - 1;
      bool progress = channel < 0 ? TUTTI_TRY(enter_or_leave(rank)) : TUTTI_TRY(advance(rank, channel));
      if (progress) store_some();
      failed = progress ? 0 : failed + 1;
    }
    for (int rank = 0; rank < shape_.nranks; ++rank) {
      if (ranks_[rank].left != kCalls)
        return error(Code::kInvalidArgument, "rank {} never completes call {}", rank, ranks_[rank].left);
    }
    return {};
  }

 private:
  struct Arrival {
    size_t message = 0;
    uint64_t slice = 0;
  };
  struct Running {
    Cursor cursor;
    std::map<int, int> temps;                            // temp -> expression
    std::map<int, Arrival> arrivals;                     // by peer
    std::set<int> heard;                                 // peers of which a message of this call was awaited
    std::map<std::pair<size_t, size_t>, size_t> chunks;  // (section, step) of a Wait -> message that lends the chunk
  };
  struct Rank {
    bool in_place = false;
    int entered = 0;  // calls
    int left = 0;
    std::vector<Running> running;  // by channel; empty outside of calls
    std::vector<int> input;        // expressions by cell
    std::vector<int> output;
    size_t unreleased = 0;         // messages that it has sent
  };

  size_t cells() const { return static_cast<size_t>(shape_.channels) * shape_.chunks * options_.slices; }
  size_t index_of(int channel, const Cell& cell) const {
    return (static_cast<size_t>(channel) * shape_.chunks + cell.chunk) * options_.slices + cell.slice;
  }
  // What two ranks send each other has as many slices both ways, as in place it must.
  uint64_t slices_of(int chunk) const {
    if (options_.equal_slices) return options_.slices;
    int back = input_block(shape_, chunk) * shape_.nranks + output_block(shape_, chunk);
    bool per_pair = without_counts(shape_.collective) == TUTTI_ALL_TO_ALL;
    return some_slices(per_pair ? std::min(chunk, back) : chunk, options_.seed, options_.slices);
  }
  int& memory(int rank, int channel, const Cell& cell) {
    bool is_input = cell.space == Space::kInput;
    Cell block = cell;
    block.chunk = is_input ? input_block(shape_, cell.chunk) : output_block(shape_, cell.chunk);
    Rank& self = ranks_[rank];
    return (is_input || self.in_place ? self.input : self.output)[index_of(channel, block)];
  }
  template <typename Visit>
  void visit_cells(Space space, Visit&& visit) const {
    for (int channel = 0; channel < shape_.channels; ++channel) {
      for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
        for (uint64_t slice = 0; slice < slices_of(chunk); ++slice) visit(channel, Cell{space, chunk, slice});
      }
    }
  }
  Stream& stream(int from, int to, int channel) {
    uint64_t key = (static_cast<uint64_t>(from) * shape_.nranks + to) * shape_.channels + channel;
    return streams_[key];
  }

  Result<bool> enter_or_leave(int rank) {
    Rank& self = ranks_[rank];
    if (self.running.empty()) {
      if (self.entered == kCalls) return false;
      enter(rank);
      return true;
    }
    for (const Running& running : self.running) {
      if (!running.cursor.done()) return false;
    }
    // The caller may change its buffers after the call, so nobody may still need them.
    bool lends = options_.use_permissions && holds(shape_.by_reference, self.in_place);
    if (lends && self.unreleased > 0) return false;
    TUTTI_TRY(leave(rank));
    return true;
  }

  void enter(int rank) {
    Rank& self = ranks_[rank];
    for (int channel = 0; channel < shape_.channels; ++channel) {
      size_t part = static_cast<size_t>(rank) * shape_.channels + channel;
      Cursor cursor(parts_[part], facts_[part], [this](int chunk) { return slices_of(chunk); });
      self.running.push_back({.cursor = std::move(cursor)});
    }
    visit_cells(Space::kInput, [&](int channel, const Cell& cell) {
      if (!in_input(shape_, rank, cell.chunk)) return;
      memory(rank, channel, cell) = expressions_.leaf(rank, self.entered, index_of(channel, cell));
    });
    ++self.entered;
  }

  Status leave(int rank) {
    Rank& self = ranks_[rank];
    Status status = check_barrier(rank);
    visit_cells(Space::kOutput, [&](int channel, const Cell& cell) {
      if (status.ok() && in_output(shape_, rank, cell.chunk)) {
        status = check_result(rank, channel, cell, memory(rank, channel, cell));
      }
    });
    self.running.clear();
    std::fill(self.input.begin(), self.input.end(), Expressions::kGarbage);
    std::fill(self.output.begin(), self.output.end(), Expressions::kGarbage);
    ++self.left;
    return status;
  }

  Status check_barrier(int rank) const {
    if (shape_.collective != TUTTI_BARRIER) return {};
    for (int other = 0; other < shape_.nranks; ++other) {
      if (ranks_[other].entered >= ranks_[rank].entered) continue;
      return error(Code::kInvalidArgument, "rank {} leaves barrier {} before rank {} has entered it", rank,
                   ranks_[rank].left, other);
    }
    return {};
  }

  Status check_result(int rank, int channel, const Cell& cell, int value) {
    int call = ranks_[rank].left;
    std::string fault =
        expressions_.fault_of_result(value, call, index_of(channel, cell), contributor(shape_, cell.chunk));
    int& expected = expected_[call * cells() + index_of(channel, cell)];
    if (expected == Expressions::kGarbage) expected = value;
    if (fault.empty() && expected != value) fault = "differs from another rank's in how it was computed";
    if (fault.empty()) return {};
    return error(Code::kInvalidArgument, "rank {}, channel {}: output[{}], slice {} of call {} {}", rank, channel,
                 cell.chunk, cell.slice, call, fault);
  }

  Result<bool> advance(int rank, int channel) {
    Rank& self = ranks_[rank];
    if (self.running.empty()) return false;
    Running& running = self.running[channel];
    if (running.cursor.done()) return false;
    const Step& step = running.cursor.step();
    if (step.kind == StepKind::kPut && !TUTTI_TRY(put(rank, channel, running))) return false;
    if (step.kind == StepKind::kWait && !wait(rank, channel, running)) return false;
    bool is_early_wait = step.kind == StepKind::kWait && !running.cursor.is_last_slice();
    bool is_silent = is_early_wait && takes_by_chunk(rank, step, rank);
    if (step.kind == StepKind::kCopy || step.kind == StepKind::kReduce) TUTTI_TRY(compute(rank, channel, running));
    const SectionFacts& facts = facts_[rank * shape_.channels + channel][running.cursor.section()];
    for (int peer : facts.released[running.cursor.step_index()]) {
      if (!is_silent) release(rank, peer, channel, running);
    }
    running.cursor.advance();
    return true;
  }

  void release(int rank, int peer, int channel, const Running& running) {
    Stream& in = stream(peer, rank, channel);
    auto arrival = running.arrivals.find(peer);
    bool is_of_chunk = arrival != running.arrivals.end() && in.messages[arrival->second.message].lends_chunk;
    if (!is_of_chunk || arrival->second.slice == 0) ++in.released;  // the message
    if (!is_of_chunk || running.cursor.is_last_slice()) --ranks_[peer].unreleased;
  }

  Result<bool> put(int rank, int channel, Running& running) {
    const Step& step = running.cursor.step();
    Stream& out = stream(rank, step.peer, channel);
    bool lends_chunk = lends_chunks(rank, step);
    if (lends_chunk && running.cursor.slice() > 0) return true;
    bool knows = running.heard.contains(step.peer);  // what the peer has said in that message
    bool is_silent = !running.cursor.is_last_slice() && knows && takes_by_chunk(step.peer, step, rank);
    if (!is_silent && out.messages.size() - out.released >= static_cast<size_t>(options_.slots)) return false;
    Message message;
    message.call = ranks_[rank].entered - 1;
    message.slice = running.cursor.slice();
    message.into = step.into;
    message.payload = !step.sources.empty();
    message.lends_chunk = lends_chunk;
    if (message.payload) {
      const Place& source = step.sources[0];
      bool in_buffer = source.space == Space::kInput || source.space == Space::kOutput;
      message.by_reference =
          in_buffer && options_.use_permissions && holds(shape_.by_reference, ranks_[rank].in_place);
      if (in_buffer) message.from = {source.space, source.index, message.slice};
      message.value = read(rank, channel, running, source);
      if (step.into != kNoChunk) TUTTI_TRY(check_stored(message.value, rank, channel, running));
      const Rank& receiver = ranks_[step.peer];
      bool in_same_call = !receiver.running.empty() && receiver.entered == ranks_[rank].entered;
      bool open = options_.use_permissions && holds(shape_.deliver_directly, receiver.in_place);
      message.directly = open && step.into != kNoChunk && in_same_call;
    }
    std::vector<Message>& messages = is_silent ? out.silent : out.messages;
    messages.push_back(message);
    if (message.directly) direct_.push_back({rank, step.peer, channel, is_silent, messages.size() - 1});
    if (!is_silent) ++ranks_[rank].unreleased;
    return true;
  }

  // Delivers some of the direct messages that are under way.
  void store_some() {
    while (!direct_.empty() && random_() % 2 == 0) {
      std::swap(direct_.back(), direct_[random_() % direct_.size()]);
      Direct next = direct_.back();
      direct_.pop_back();
      Stream& by = stream(next.from, next.to, next.channel);
      store(next.from, next.to, next.channel, (next.is_silent ? by.silent : by.messages)[next.message]);
    }
  }

  void store(int from, int to, int channel, Message& message) {
    if (std::exchange(message.stored, true)) return;
    int payload = payload_of(from, channel, message, message.slice);
    memory(to, channel, {Space::kOutput, message.into, message.slice}) = payload;
  }

  int payload_of(int from, int channel, const Message& message, uint64_t slice) {
    Cell of_slice = message.from;
    of_slice.slice = slice;
    return message.by_reference ? memory(from, channel, of_slice) : message.value;
  }

  // Whether in a call a rank goes by chunk with a peer, which depends on where its memory lies. Of the inputs that it
  // lends, or of the results that it takes.
  bool by_chance(int rank, int peer, int call, bool takes) const {
    if (!options_.use_permissions || !shape_.by_chunk) return false;
    uint64_t number = static_cast<uint64_t>(rank) * shape_.nranks + peer;
    number = (number * kCalls + call) * 2 + (takes ? 1 : 0);
    return ((number + 1) * 0x9e3779b97f4a7c15 * (2 * options_.seed + 1) >> 40) % 4 != 0;
  }
  bool lends_chunks(int rank, const Step& step) const {
    bool is_input = !step.sources.empty() && step.sources[0].space == Space::kInput && step.into == kNoChunk;
    bool may_lend = is_input && holds(shape_.by_reference, ranks_[rank].in_place);
    return may_lend && by_chance(rank, step.peer, ranks_[rank].entered - 1, false);
  }
  // Of the step of `rank`, at one end of the message that `receiver` gets. The other end may be in another call now.
  bool takes_by_chunk(int receiver, const Step& step, int rank) const {
    bool may_store = step.into != kNoChunk && holds(shape_.deliver_directly, ranks_[receiver].in_place);
    int sender = receiver == rank ? step.peer : rank;
    return may_store && by_chance(receiver, sender, ranks_[rank].entered - 1, true);
  }

  bool wait(int rank, int channel, Running& running) {
    const Step& step = running.cursor.step();
    const Cursor& cursor = running.cursor;
    Stream& in = stream(step.peer, rank, channel);
    auto chunk = running.chunks.find({cursor.section(), cursor.step_index()});
    if (chunk != running.chunks.end()) {
      running.arrivals[step.peer] = {chunk->second, cursor.slice()};
      return true;
    }
    running.arrivals.erase(step.peer);
    if (!cursor.is_last_slice() && takes_by_chunk(rank, step, rank)) return true;
    if (in.waited == in.messages.size()) return false;
    running.heard.insert(step.peer);
    size_t index = in.waited++;
    const Message& message = in.messages[index];
    if (message.into == kNoChunk) {
      running.arrivals[step.peer] = {index, cursor.slice()};
      if (message.lends_chunk) running.chunks[{cursor.section(), cursor.step_index()}] = index;
      return true;
    }
    store(step.peer, rank, channel, in.messages[index]);
    for (Message& silent : in.silent) {
      if (silent.into == message.into) store(step.peer, rank, channel, silent);
    }
    return true;
  }

  int read(int rank, int channel, Running& running, const Place& place) {
    switch (place.space) {
      case Space::kTemp:
        return running.temps[place.index];
      case Space::kArrival: {
        const Arrival& arrival = running.arrivals[place.index];
        const Message& message = stream(place.index, rank, channel).messages[arrival.message];
        return payload_of(place.index, channel, message, arrival.slice);
      }
      default:
        return memory(rank, channel, {place.space, place.index, running.cursor.slice()});
    }
  }

  Status compute(int rank, int channel, Running& running) {
    const Step& step = running.cursor.step();
    std::vector<int> values;
    for (const Place& source : step.sources) values.push_back(read(rank, channel, running, source));
    std::string fault;
    int value = expressions_.combine(values, step.finish, fault);
    if (!fault.empty()) return wrong_step(rank, channel, running, fault);
    for (const Place& to : step.destinations) {
      if (to.space == Space::kTemp) {
        running.temps[to.index] = value;
      } else {
        TUTTI_TRY(check_stored(value, rank, channel, running));
        memory(rank, channel, {to.space, to.index, running.cursor.slice()}) = value;
      }
    }
    return {};
  }

  // Of a value that the current step stores into an output.
  Status check_stored(int value, int rank, int channel, const Running& running) const {
    if (!expressions_.is_partial(value)) return {};
    return wrong_step(rank, channel, running,
                      "stores a partial result into an output; keep it in a temp until it is finished");
  }

  Status wrong_step(int rank, int channel, const Running& running, std::string_view fault) const {
    const RankPlan& part = parts_[rank * shape_.channels + channel];
    return error(Code::kInvalidArgument, "{}: {}",
                 place_of(part, rank, channel, running.cursor.section(), running.cursor.step_index()), fault);
  }

  struct Direct {
    int from, to, channel;
    bool is_silent;
    size_t message;
  };

  const PlanShape& shape_;
  CheckOptions options_;
  Expressions expressions_;
  std::mt19937_64 random_;
  std::vector<RankPlan> parts_;  // [rank * channels + channel]
  std::vector<PartFacts> facts_;
  std::vector<Rank> ranks_;
  std::unordered_map<uint64_t, Stream> streams_;
  std::vector<Direct> direct_;
  std::vector<int> expected_;  // [call][cell]: the expression of the first rank that had it
};

}  // namespace

Status check_symbolically(const Plan& plan, const CheckOptions& options) {
  TUTTI_TRY(check_shape(plan.shape()));
  if (options.slices == 0) return error(Code::kInvalidArgument, "the check needs at least one slice");
  TUTTI_TRY(validate(plan, {options.slices, options.slots}));
  return Machine(plan, options).run();
}

Status prove(const Plan& plan, int slots) {
  constexpr uint64_t kSchedules = 4;
  TUTTI_TRY(validate(plan, {0, slots}));
  for (InPlace in_place : {InPlace::kNone, InPlace::kAll, InPlace::kSome}) {
    for (uint64_t seed = 1; seed <= kSchedules; ++seed) {
      for (bool use_permissions : {false, true}) {
        TUTTI_TRY(check_symbolically(plan, {.equal_slices = seed % 2 == 1,
                                            .slots = slots,
                                            .in_place = in_place,
                                            .use_permissions = use_permissions,
                                            .seed = seed}));
      }
    }
  }
  return {};
}

}  // namespace tutti
