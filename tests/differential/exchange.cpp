#include "exchange.h"

#include <algorithm>
#include <climits>
#include <map>
#include <numeric>
#include <utility>

namespace differential {
namespace {

constexpr uint64_t kMostMessages = 64;
constexpr uint64_t kMostRounds = 8;

int draw_rank(Random& random, const Job& job) {
  return static_cast<int>(random.below(static_cast<uint64_t>(job.ranks)));
}

// Few, so that several messages have the same one.
int draw_tag(Random& random) { return random.one_of({0, 0, 1, INT_MAX}); }

size_t draw_communicator(Random& random) { return random.one_in(2) ? 0 : random.below(kCommunicators); }

// Where something changes in how a message travels: nothing, odd ends, in a line, in a slot, pulled, in pieces.
uint64_t draw_count(Random& random, uint64_t size) {
  constexpr uint64_t kLineBytes = 40, kSlotBytes = 64 << 10, kPulledBytes = 32 << 10, kLargeBytes = 1 << 20;
  auto near = [&](uint64_t bytes) { return bytes / size - 1 + random.below(3); };
  if (random.one_in(40)) return random.logarithmic(kLargeBytes) / size;
  switch (random.below(7)) {
    case 0:
    case 1: return random.below(4);
    case 2: return near(kLineBytes);
    case 3: return 2 * random.below(200) + 1;
    case 4: return near(random.one_of({kPulledBytes, kSlotBytes, 2 * kSlotBytes}));
    case 5: return random.logarithmic(4 << 10) / size;
    default: return random.logarithmic(200 << 10) / size;
  }
}

// Between any ranks, or many between few.
void draw_anywhere(Random& random, const Job& job, std::vector<Message>& messages) {
  bool is_one_source = random.one_in(4), is_one_dest = random.one_in(4), is_one_communicator = random.one_in(2);
  uint64_t count = random.logarithmic(kMostMessages);
  for (uint64_t i = 0; i < count; ++i) {
    Message drawn{.communicator = draw_communicator(random),
                  .source = draw_rank(random, job),
                  .dest = draw_rank(random, job),
                  .tag = draw_tag(random)};
    if (i > 0 && is_one_source) drawn.source = messages[0].source;
    if (i > 0 && is_one_dest) drawn.dest = messages[0].dest;
    if (i > 0 && is_one_communicator) drawn.communicator = messages[0].communicator;
    messages.push_back(drawn);
  }
}

// Each round is a permutation of the ranks.
void draw_rounds(Random& random, const Job& job, std::vector<Message>& messages) {
  uint64_t rounds = 1 + random.below(kMostRounds);
  for (uint64_t round = 0; round < rounds; ++round) {
    std::vector<int> dests(static_cast<size_t>(job.ranks));
    std::iota(dests.begin(), dests.end(), 0);
    for (size_t i = dests.size(); i > 1; --i) std::swap(dests[i - 1], dests[random.below(i)]);
    size_t communicator = draw_communicator(random);
    for (int source = 0; source < job.ranks; ++source) {
      int dest = dests[static_cast<size_t>(source)];
      messages.push_back({communicator, source, dest, draw_tag(random)});
    }
  }
}

// What a rank's receives of one communicator name. A message that comes early is for the first of them that accepts
// it: those that name a source come first, and those that accept most come last, or they could take a message that
// another receive waits for.
enum class Names { kSource, kTag, kNothing };

class Receivers {
 public:
  // A rank that waits for both of its calls of a round is not done when its receive took the message of another round:
  // its own may then wait for one that waits for it.
  Receivers(Random& random, Blocking blocking)
      : random_(random), all_name_sources_(random.one_in(3) || blocking == Blocking::kInSendReceives) {}

  // The next receive of the rank that `message` goes to, which accepts it.
  Receive next_for(const Message& message) {
    Names names = next_names({message.communicator, message.dest});
    Receive receive{.communicator = message.communicator, .dest = message.dest};
    if (names == Names::kSource) receive.source = message.source;
    bool is_any_tag = names == Names::kNothing || (names == Names::kSource && random_.one_in(3));
    if (!is_any_tag) receive.tag = message.tag;
    return receive;
  }

 private:
  Names next_names(std::pair<size_t, int> receiver) {
    if (all_name_sources_) return Names::kSource;
    auto [at, is_first] = names_.try_emplace(receiver, Names::kSource);
    Names drawn = random_.one_of({Names::kSource, Names::kTag, Names::kNothing});
    if (is_first || random_.one_in(6)) at->second = std::max(at->second, drawn);
    return at->second;
  }

  Random& random_;
  bool all_name_sources_;
  std::map<std::pair<size_t, int>, Names> names_;
};

// Receives such that each message has one, whichever of different senders comes first.
void draw_receives(Random& random, Exchange& exchange) {
  Receivers receivers(random, exchange.blocking);
  std::vector<size_t> pending(exchange.messages.size());
  std::iota(pending.begin(), pending.end(), size_t{0});
  while (!pending.empty()) {
    size_t wanted = exchange.in_rounds ? 0 : random.below(pending.size());
    Receive receive = receivers.next_for(exchange.messages[pending[wanted]]);
    auto got = std::find_if(pending.begin(), pending.end(),
                            [&](size_t each) { return receive.accepts(exchange.messages[each]); });
    if (receive.source != TUTTI_ANY_SOURCE) receive.message = static_cast<int>(*got);
    pending.erase(got);
    exchange.receives.push_back(receive);
  }
}

// Types, lengths, and room for each message that a receive may get.
void draw_sizes(Random& random, Exchange& exchange) {
  const Datatype* type_of_undetermined = &random.one_of(datatypes());
  bool is_one_type = exchange.in_rounds || random.one_in(2);
  for (Message& message : exchange.messages) message.datatype = type_of_undetermined;
  for (Receive& receive : exchange.receives) {
    receive.datatype = type_of_undetermined;
    if (is_one_type || receive.message == kNotDetermined) continue;
    receive.datatype = &random.one_of(datatypes());
    exchange.messages[static_cast<size_t>(receive.message)].datatype = receive.datatype;
  }
  for (Message& message : exchange.messages) message.count = draw_count(random, message.datatype->size);
  for (Receive& receive : exchange.receives) {
    for (size_t i = 0; i < exchange.messages.size(); ++i) {
      bool may_get = receive.message == kNotDetermined ? receive.accepts(exchange.messages[i])
                                                       : receive.message == static_cast<int>(i);
      if (may_get) receive.room = std::max(receive.room, exchange.messages[i].count);
    }
    receive.room += random.one_of<uint64_t>({0, 0, 1, random.below(300)});
  }
}

}  // namespace

bool Receive::accepts(const Message& each) const {
  return each.communicator == communicator && each.dest == dest &&
         (source == TUTTI_ANY_SOURCE || source == each.source) && (tag == TUTTI_ANY_TAG || tag == each.tag);
}

bool Exchange::has_any_source() const {
  return std::any_of(receives.begin(), receives.end(),
                     [](const Receive& each) { return each.source == TUTTI_ANY_SOURCE; });
}

Exchange draw_exchange(uint64_t seed, uint64_t number, const Job& job) {
  Random random{seed, number, static_cast<uint64_t>(job.ranks)};
  Exchange drawn;
  drawn.in_rounds = random.one_in(4);
  drawn.times = random.one_in(3) ? 2 + static_cast<int>(random.below(3)) : 1;
  drawn.blocking = random.one_of({Blocking::kNowhere, Blocking::kInSends, Blocking::kInReceives, Blocking::kInAGroup});
  if (drawn.in_rounds && random.one_in(2)) drawn.blocking = Blocking::kInSendReceives;
  drawn.in_rounds ? draw_rounds(random, job, drawn.messages) : draw_anywhere(random, job, drawn.messages);
  draw_receives(random, drawn);
  draw_sizes(random, drawn);
  uint64_t collectives = random.one_in(2) ? 0 : 1 + random.below(3);
  for (uint64_t i = 0; i < collectives; ++i) drawn.collectives.push_back(draw_call(random, job));
  return drawn;
}

}  // namespace differential
