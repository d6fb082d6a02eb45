#include "call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "random.h"

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

// Asked for by name they refuse blocks whose counts not every rank knows.
bool is_refused(const Collective& collective, const Job& job) {
  return job.algorithm == "binomial_tree" && (collective.id == TUTTI_GATHER_V || collective.id == TUTTI_SCATTER_V);
}

Call draw_call(Random& random, const Job& job) {
  Call call;
  do call.collective = &random.one_of(collectives());
  while (is_refused(*call.collective, job));
  call.datatype = &random.one_of(datatypes());
  call.operation = &random.one_of(operations());
  call.root = static_cast<int>(random.below(static_cast<uint64_t>(job.ranks)));
  call.in_place = random.one_of({InPlace::kNowhere, InPlace::kEverywhere, InPlace::kOnSomeRanks});
  call.exact = random.one_in(2);
  call.seed = random.next();
  auto ranks = static_cast<uint64_t>(job.ranks);
  call.count = draw_block(random, call.datatype->size, ranks);
  if (call.collective->has_counts) call.counts = draw_counts(random, call, ranks);
  return call;
}

}  // namespace

std::vector<Call> draw_case(uint64_t seed, uint64_t number, const Job& job) {
  Random random{seed, number, static_cast<uint64_t>(job.ranks)};
  std::vector<Call> calls(random.one_in(2) ? 1 : 2 + random.below(5));
  for (Call& call : calls) call = draw_call(random, job);
  return calls;
}

std::string described(const Call& call) {
  if (call.collective->id == TUTTI_BARRIER) return call.collective->name;
  std::string text = fmt::format("{} {}", call.collective->name, call.datatype->name);
  if (call.collective->reduces) text += fmt::format(" {}", call.operation->name);
  text += call.collective->has_counts ? fmt::format(" counts {}", fmt::join(call.counts, " "))
                                      : fmt::format(" count {}", call.count);
  if (call.collective->has_root) text += fmt::format(" root {}", call.root);
  if (call.reduces_floats()) text += call.exact ? ", values that do not round" : ", values that round";
  if (call.in_place == InPlace::kEverywhere) text += ", in place";
  if (call.in_place == InPlace::kOnSomeRanks) text += ", in place on some ranks";
  return text;
}

}  // namespace differential
