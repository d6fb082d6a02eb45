#include "call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

namespace differential {
namespace {

constexpr uint64_t kInlineBytes = 40;        // the most that a message holds without a payload beside it
constexpr uint64_t kLargeBytes = 4 << 20;
constexpr uint64_t kBufferBytes = 8 << 20;   // of all blocks of one rank together

uint64_t near(Random& random, uint64_t count) { return count - std::min<uint64_t>(count, 1) + random.below(3); }

// Where something changes in how a buffer is cut and moved: nothing, odd ends, one line per rank, messages, slices.
uint64_t draw_count(Random& random, uint64_t size, uint64_t ranks) {
  if (random.one_in(40)) return random.logarithmic(kLargeBytes) / size;
  switch (random.below(8)) {
    case 0: return random.below(4);
    case 1: return near(random, kInlineBytes / size);
    case 2: return 2 * random.below(200) + 1;
    case 3: return near(random, 64 * ranks * (1 + random.below(4)) / size);
    case 4: return near(random, (random.one_of({16, 64}) << 10) * (1 + random.below(3)) / size);
    case 5: return near(random, random.one_of<uint64_t>({32 << 10, 128 << 10, 256 << 10}) / size);
    case 6: return random.logarithmic(64 << 10) / size;
    default: return random.logarithmic(512 << 10) / size;
  }
}

uint64_t draw_block(Random& random, uint64_t size, uint64_t ranks) {
  return std::min(draw_count(random, size, ranks), kBufferBytes / size / ranks);
}

std::vector<uint64_t> draw_counts(Random& random, const Call& call, uint64_t ranks) {
  bool is_matrix = call.collective->id == TUTTI_ALL_TO_ALL_V;
  std::vector<uint64_t> counts(is_matrix ? ranks * ranks : ranks);
  bool all_alike = random.one_in(8);
  uint64_t zeros = random.one_of({2, 4, 100});
  for (uint64_t& count : counts) {
    count = random.one_in(zeros) ? 0 : draw_block(random, call.datatype->size, ranks * (is_matrix ? 4 : 1));
    if (all_alike) count = counts.front();
  }
  // In place, what a rank receives from another lies where it sends to it from.
  for (uint64_t i = 0; is_matrix && call.in_place != InPlace::kNowhere && i < ranks; ++i) {
    for (uint64_t j = 0; j < i; ++j) counts[i * ranks + j] = counts[j * ranks + i];
  }
  return counts;
}

// Whether the algorithm that is asked for by name refuses the call: blocks whose counts not every rank knows, or an
// operation whose order matters (the table in docs/plans.md).
bool is_refused(const Call& call, const Job& job) {
  tutti_collective_t collective = call.collective->id;
  if (job.algorithm == "binomial_tree") return collective == TUTTI_GATHER_V || collective == TUTTI_SCATTER_V;
  if (call.operation->commutes) return false;
  bool is_power_of_two = std::has_single_bit(static_cast<unsigned>(job.ranks));
  switch (collective) {
    case TUTTI_ALL_REDUCE:
      return job.algorithm == "ring" || job.algorithm == "double_binary_tree" ||
             (job.algorithm == "recursive_doubling" && !is_power_of_two);
    case TUTTI_REDUCE: return job.algorithm == "chain";
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_REDUCE_SCATTER_V: return job.algorithm == "ring";
    default: return false;
  }
}

// What calls have alike that a group joins. `of_vectors`: of a collective whose calls it does join.
Call draw_kind(Random& random, const Job& job, bool of_vectors) {
  Call call;
  do {
    do call.collective = &random.one_of(collectives());
    while (of_vectors && !call.collective->is_vector);
    call.datatype = &random.one_of(datatypes());
    do call.operation = &random.one_of(operations());
    while (!call.operation->is_for(*call.datatype));
  } while (is_refused(call, job));
  call.root = static_cast<int>(random.below(static_cast<uint64_t>(job.ranks)));
  return call;
}

Call draw_of_kind(Random& random, const Call& kind, const Job& job) {
  Call call = kind;
  call.communicator = random.one_in(2) ? 0 : random.below(kCommunicators);
  call.in_place = random.one_of({InPlace::kNowhere, InPlace::kEverywhere, InPlace::kOnSomeRanks});
  call.exact = random.one_in(2);
  call.seed = random.next();
  auto ranks = static_cast<uint64_t>(job.ranks);
  call.count = draw_block(random, call.datatype->size, ranks);
  if (call.collective->has_counts) call.counts = draw_counts(random, call, ranks);
  return call;
}

}  // namespace

Case draw_case(uint64_t seed, uint64_t number, const Job& job) {
  Random random{seed, number, static_cast<uint64_t>(job.ranks)};
  Case drawn{.is_group = random.one_in(4), .rounds = random.one_in(4) ? 2 + static_cast<int>(random.below(3)) : 1};
  size_t calls = random.one_in(2) ? 1 : 2 + random.below(5);
  if (drawn.is_group) calls = 1 + random.below(12);
  bool of_vectors = drawn.is_group && random.one_in(2);
  Call kind;
  for (size_t i = 0; i < calls; ++i) {
    bool is_as_before = drawn.is_group && i > 0 && !random.one_in(4);
    if (!is_as_before) kind = draw_kind(random, job, of_vectors);
    drawn.calls.push_back(draw_of_kind(random, kind, job));
  }
  return drawn;
}

Call draw_call(Random& random, const Job& job) { return draw_of_kind(random, draw_kind(random, job, false), job); }

const char* place_text(size_t communicator) {
  constexpr std::array<const char*, kCommunicators> kOn = {"", ", on a duplicate", ", on ranks in reverse order"};
  return kOn[communicator];
}

std::string described(const Call& call) {
  const char* where = place_text(call.communicator);
  if (call.collective->id == TUTTI_BARRIER) return fmt::format("{}{}", call.collective->name, where);
  std::string text = fmt::format("{} {}", call.collective->name, call.datatype->name);
  if (call.collective->reduces) text += fmt::format(" {}", call.operation->name);
  text += call.collective->has_counts ? fmt::format(" counts {}", fmt::join(call.counts, " "))
                                      : fmt::format(" count {}", call.count);
  if (call.collective->has_root) text += fmt::format(" root {}", call.root);
  if (call.reduces_floats()) text += call.exact ? ", values that do not round" : ", values that round";
  if (call.in_place == InPlace::kEverywhere) text += ", in place";
  if (call.in_place == InPlace::kOnSomeRanks) text += ", in place on some ranks";
  return text + where;
}

}  // namespace differential
