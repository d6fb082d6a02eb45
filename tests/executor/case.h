// One collective call with known int32 contents, and what it must leave on every rank: plain loops, written from
// what the collectives mean and not from what plans say. For tests.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "plan/validate.h"
#include "planner/planner.h"

namespace tutti::test {

// Drawn from one sequence, so that a seed stands for all of a test.
class Chance {
 public:
  explicit Chance(uint64_t seed) : random_(seed) {}
  int between(int least, int most) { return std::uniform_int_distribution<>(least, most)(random_); }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int>(values.size()) - 1)];
  }

 private:
  std::mt19937_64 random_;
};

enum class Memory { kOrdinary, kShared, kMixed };  // kMixed: even ranks pass shared memory, odd ranks ordinary memory

// Of a buffer, in elements.
struct Block {
  uint64_t begin = 0;
  uint64_t count = 0;
};

struct Case {
  const Algorithm* algorithm = nullptr;
  Collective collective = TUTTI_ALL_REDUCE;  // the algorithm's, or its form with counts
  ReduceOp op = TUTTI_SUM;                   // or TUTTI_AVG
  int nranks = 2;
  int root = -1;
  int channels = 1;
  uint64_t slice_bytes = 1024;
  uint64_t count = 0;                        // of the vector or each block; with counts the most that a block has
  uint64_t layout = 0;                       // draws counts and gaps
  std::vector<uint64_t> counts = {};         // [from * nranks + to] where only the two ends know: instead of drawn ones
  InPlace in_place = InPlace::kNone;         // kSome: the even ranks
  Memory memory = Memory::kOrdinary;

  Collective meaning() const { return without_counts(collective); }
  bool shares(int rank) const { return memory == Memory::kShared || (memory == Memory::kMixed && rank % 2 == 0); }
  // Only those who have both buffers can be in place.
  bool in_place_on(int rank) const {
    bool asked = in_place == InPlace::kAll || (in_place == InPlace::kSome && rank % 2 == 0);
    return asked && !sent(rank).empty() && !received(rank).empty() && (!has_root(collective) || rank == root);
  }

  // What `from` has for `to`.
  uint64_t count_of(int from, int to) const {
    switch (collective) {
      case TUTTI_ALL_GATHER_V: return drawn_count(from, 0);
      case TUTTI_REDUCE_SCATTER_V: return drawn_count(0, to);
      case TUTTI_GATHER_V: return count_between(from, root);
      case TUTTI_SCATTER_V: return count_between(root, to);
      case TUTTI_ALL_TO_ALL_V:
        // In place one array has the counts both ways.
        if (in_place != InPlace::kNone && from > to) std::swap(from, to);
        return count_between(from, to);
      default: return count;
    }
  }

  // The blocks of the rank's buffers; none: it does not use that buffer.
  std::vector<Block> sent(int rank) const {
    switch (meaning()) {
      case TUTTI_BROADCAST: return rank == root ? one(count) : std::vector<Block>{};
      case TUTTI_SCATTER: return rank == root ? blocks_to_all(rank) : std::vector<Block>{};
      case TUTTI_REDUCE_SCATTER:
      case TUTTI_ALL_TO_ALL: return blocks_to_all(rank);
      case TUTTI_BARRIER: return {};
      default: return one(count_of(rank, rank));
    }
  }
  std::vector<Block> received(int rank) const {
    switch (meaning()) {
      case TUTTI_REDUCE: return rank == root ? one(count) : std::vector<Block>{};
      case TUTTI_GATHER: return rank == root ? blocks_from_all(rank) : std::vector<Block>{};
      case TUTTI_ALL_GATHER:
      case TUTTI_ALL_TO_ALL: return blocks_from_all(rank);
      case TUTTI_BARRIER: return {};
      default: return one(count_of(rank, rank));
    }
  }

  // Which buffers of the rank the API gives arrays for.
  bool lists_sent(int rank) const {
    return collective == TUTTI_ALL_TO_ALL_V || collective == TUTTI_REDUCE_SCATTER_V ||
           (collective == TUTTI_SCATTER_V && rank == root);
  }
  bool lists_received(int rank) const {
    return collective == TUTTI_ALL_TO_ALL_V || collective == TUTTI_ALL_GATHER_V ||
           (collective == TUTTI_GATHER_V && rank == root);
  }

  // Where the buffers of a rank that is in place begin in the memory that they share.
  uint64_t sent_begin(int rank) const {
    bool block_of_output = meaning() == TUTTI_ALL_GATHER || meaning() == TUTTI_GATHER;
    return in_place_on(rank) && block_of_output ? received(rank)[rank].begin : 0;
  }
  uint64_t received_begin(int rank) const {
    bool block_of_input = meaning() == TUTTI_REDUCE_SCATTER || meaning() == TUTTI_SCATTER;
    return in_place_on(rank) && block_of_input ? sent(rank)[rank].begin : 0;
  }

  std::string text() const {
    return fmt::format(
        "{} {} {}, {} ranks, root {}, {} channels, slices of {}, count {}, layout {}, in place {}, memory {}",
        name_of(collective), algorithm->name, name_of(op), nranks, root, channels, slice_bytes, count, layout,
        static_cast<int>(in_place), static_cast<int>(memory));
  }

 private:
  static std::vector<Block> one(uint64_t count) { return {{0, count}}; }

  uint64_t drawn(uint64_t a, uint64_t b) const {
    return (layout * 1'000'003 + a * 1009 + b + 1) * 0x9e3779b97f4a7c15 >> 33;
  }
  uint64_t drawn_count(int from, int to) const {
    uint64_t random = drawn(from, to);
    uint64_t most = random % 4 == 1 ? std::min<uint64_t>(count, 12) : count;  // 10 go into a line
    return random % 4 == 0 ? 0 : random / 4 % (most + 1);
  }

  uint64_t count_between(int from, int to) const {
    return counts.empty() ? drawn_count(from, to) : counts[from * nranks + to];
  }

  std::vector<Block> blocks_to_all(int rank) const {
    std::vector<Block> blocks(nranks);
    for (int to = 0; to < nranks; ++to) blocks[to].count = count_of(rank, to);
    return laid_out(std::move(blocks), rank);
  }
  std::vector<Block> blocks_from_all(int rank) const {
    std::vector<Block> blocks(nranks);
    for (int from = 0; from < nranks; ++from) blocks[from].count = count_of(from, rank);
    return laid_out(std::move(blocks), rank);
  }
  // With displacements there are gaps, and on some ranks the blocks lie in reverse.
  std::vector<Block> laid_out(std::vector<Block> blocks, int rank) const {
    bool displaced = has_counts(collective) && collective != TUTTI_REDUCE_SCATTER_V;
    bool reverse = displaced && drawn(rank, nranks) % 2 == 0;
    uint64_t end = 0;
    for (int i = 0; i < nranks; ++i) {
      Block& block = blocks[reverse ? nranks - 1 - i : i];
      block.begin = end + (displaced ? drawn(rank, nranks + 1 + i) % 20 : 0);
      end = block.begin + block.count;
    }
    return blocks;
  }
};

// Element `index` of block `block` in what `rank` sends.
TUTTI_UNWATCHED inline int32_t element(int rank, int block, uint64_t index, uint64_t salt) {
  return static_cast<int32_t>((index * 2654435761u + static_cast<uint64_t>(rank) * 40503u +
                               static_cast<uint64_t>(block) * 7001u + salt) % 1000) - 500;
}

// The elements of block `block` in what `rank` sends.
TUTTI_UNWATCHED inline void elements(int rank, int block, uint64_t salt, int32_t* values, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) values[i] = element(rank, block, i, salt);
}

// The sum or average over all ranks of block `block` in what they send.
TUTTI_UNWATCHED inline void combined_elements(const Case& which, int block, uint64_t salt, int32_t* values,
                                              uint64_t count) {
  const int nranks = which.nranks;
  const int divisor = which.op == TUTTI_AVG ? nranks : 1;
  for (uint64_t i = 0; i < count; ++i) {
    int32_t sum = 0;
    for (int from = 0; from < nranks; ++from) sum += element(from, block, i, salt);
    values[i] = sum / divisor;
  }
}

// The elements of block `block` in what `rank` must receive.
inline void expected_elements(const Case& which, int rank, int block, uint64_t salt, int32_t* values, uint64_t count) {
  switch (which.meaning()) {
    case TUTTI_REDUCE_SCATTER: return combined_elements(which, rank, salt, values, count);
    case TUTTI_BROADCAST: return elements(which.root, 0, salt, values, count);
    case TUTTI_SCATTER: return elements(which.root, rank, salt, values, count);
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER: return elements(block, 0, salt, values, count);
    case TUTTI_ALL_TO_ALL: return elements(block, rank, salt, values, count);
    default: return combined_elements(which, 0, salt, values, count);
  }
}

// The form with counts that the algorithm can serve too; else its collective.
inline Collective with_counts(const Algorithm& algorithm) {
  bool ends_only = algorithm.traits.carries_for_others;  // counts that only the two ends of a block know forbid that
  switch (algorithm.collective) {
    case TUTTI_ALL_GATHER: return TUTTI_ALL_GATHER_V;
    case TUTTI_REDUCE_SCATTER: return TUTTI_REDUCE_SCATTER_V;
    case TUTTI_ALL_TO_ALL: return ends_only ? TUTTI_ALL_TO_ALL : TUTTI_ALL_TO_ALL_V;
    case TUTTI_GATHER: return ends_only ? TUTTI_GATHER : TUTTI_GATHER_V;
    case TUTTI_SCATTER: return ends_only ? TUTTI_SCATTER : TUTTI_SCATTER_V;
    default: return algorithm.collective;
  }
}

inline constexpr int kMostChannels = 4;  // a double binary tree has an even number
inline constexpr uint64_t kMostSliceBytes = 4096;

// Any case of the algorithm or, if `counts`, of its form with counts.
inline Case draw_case(Chance& chance, const Algorithm& algorithm, int nranks, bool counts) {
  Case which{.algorithm = &algorithm, .collective = counts ? with_counts(algorithm) : algorithm.collective};
  which.op = chance.one_of({TUTTI_SUM, TUTTI_AVG});
  which.nranks = nranks;
  if (has_root(which.collective)) which.root = chance.between(0, nranks - 1);
  which.channels = chance.between(1, 3);
  which.slice_bytes = kMostSliceBytes >> chance.between(0, 6);
  which.count = static_cast<uint64_t>(chance.one_of({0, 1, 3, 17, 300, chance.between(0, 4000)}));
  which.layout = static_cast<uint64_t>(chance.between(0, 1'000'000));
  which.in_place = chance.one_of({InPlace::kNone, InPlace::kAll, InPlace::kSome});
  which.memory = chance.one_of({Memory::kOrdinary, Memory::kShared, Memory::kMixed});
  return which;
}

}  // namespace tutti::test
