// The benchmark's layouts against the definitions of the collectives, worked out from all ranks' inputs.
#include "benchmarks/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <vector>

#include "benchmarks/buffer.h"
#include "benchmarks/pattern.h"
#include "benchmarks/trial.h"

namespace tutti::bench {
namespace {

constexpr uint64_t kSeed = 3;
using Elements = std::vector<uint32_t>;

// All ranks of one call, whose buffers are in this process.
struct Job {
  const CollectiveInfo& collective;
  int ranks;
  int root;
  std::vector<Layout> layouts;
  Pattern pattern;

  Job(const CollectiveInfo& collective, uint64_t count, int ranks, int root)
      : collective(collective), ranks(ranks), root(root),
        pattern(TUTTI_UINT32, collective.reduces ? std::optional(TUTTI_SUM) : std::nullopt, ranks) {
    for (int rank = 0; rank < ranks; ++rank) layouts.emplace_back(collective, count, rank, ranks, root);
  }

  Elements input(int rank) const {
    const Layout& layout = layouts[static_cast<size_t>(rank)];
    Elements elements(layout.send_count);
    pattern.fill(elements.data(), elements.size(), rank, kSeed, layout.send_position);
    return elements;
  }

  Elements sum() const {
    Elements sums(layouts[0].total);
    for (int rank = 0; rank < ranks; ++rank) {
      Elements one = input(rank);
      std::transform(sums.begin(), sums.end(), one.begin(), sums.begin(), std::plus<>());
    }
    return sums;
  }
};

Elements block(const Elements& elements, const std::vector<uint64_t>& counts, int index) {
  auto first = elements.begin() + std::accumulate(counts.begin(), counts.begin() + index, std::ptrdiff_t{0});
  return {first, first + static_cast<std::ptrdiff_t>(counts[static_cast<size_t>(index)])};
}

// What tutti.h says that `rank` gets.
Elements output(const Job& job, int rank) {
  const std::vector<uint64_t>& counts = job.layouts[static_cast<size_t>(rank)].counts;
  auto from_each = [&](auto part) {
    Elements all;
    for (int source = 0; source < job.ranks; ++source) {
      Elements one = part(source);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  switch (job.collective.collective) {
    case TUTTI_ALL_REDUCE: return job.sum();
    case TUTTI_REDUCE: return rank == job.root ? job.sum() : Elements();
    case TUTTI_BROADCAST: return job.input(job.root);
    case TUTTI_ALL_GATHER:
    case TUTTI_ALL_GATHER_V: return from_each([&](int source) { return job.input(source); });
    case TUTTI_GATHER:
    case TUTTI_GATHER_V:
      return rank == job.root ? from_each([&](int source) { return job.input(source); }) : Elements();
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_REDUCE_SCATTER_V: return block(job.sum(), counts, rank);
    case TUTTI_SCATTER:
    case TUTTI_SCATTER_V: return block(job.input(job.root), counts, rank);
    case TUTTI_ALL_TO_ALL:
    case TUTTI_ALL_TO_ALL_V:
      return from_each([&](int source) {
        return block(job.input(source), job.layouts[static_cast<size_t>(source)].counts, rank);
      });
    default: return {};
  }
}

template <typename Use>
void for_each_job(const Use& use) {
  for (const CollectiveInfo& collective : collectives()) {
    for (int ranks : {1, 2, 3, 4, 7}) {
      for (int root : collective.has_root() ? std::vector{0, ranks - 1} : std::vector{0}) {
        for (uint64_t count : {0, 1, 5, 100}) {
          if (!collective.has_data()) continue;
          INFO(collective.name << " of " << count << " with " << ranks << " ranks, root " << root);
          use(Job(collective, count, ranks, root));
        }
      }
    }
  }
}

uint64_t wrong_after(const Job& job, int rank, bool in_place, const Elements& result) {
  const Layout& layout = job.layouts[static_cast<size_t>(rank)];
  Buffer send(MemoryKind::kMalloc, layout.total * 4), recv(MemoryKind::kMalloc, layout.total * 4);
  Trial trial(layout, job.pattern, rank, send, recv, in_place);
  tutti_call_t call = {};
  trial.describe(call);
  trial.guard(kSeed);
  if (!result.empty()) std::memcpy(call.recv_buffer, result.data(), result.size() * 4);
  return trial.wrong() + trial.overwritten();
}

TEST_CASE("a call that does what its collective is defined as has nothing wrong") {
  for_each_job([](const Job& job) {
    for (int rank = 0; rank < job.ranks; ++rank) {
      Elements result = output(job, rank);
      REQUIRE(result.size() == job.layouts[static_cast<size_t>(rank)].recv_count);
      for (bool in_place : {false, true}) REQUIRE(wrong_after(job, rank, in_place, result) == 0);
    }
  });
}

TEST_CASE("every element that is changed in the result is wrong, also in place") {
  for_each_job([](const Job& job) {
    for (int rank = 0; rank < job.ranks; ++rank) {
      Elements result = output(job, rank);
      for (uint32_t& element : result) element ^= 1;
      for (bool in_place : {false, true}) REQUIRE(wrong_after(job, rank, in_place, result) == result.size());
    }
  });
}

TEST_CASE("a call that does nothing leaves all of what others should have sent wrong") {
  Job job(info(TUTTI_ALL_TO_ALL_V), 100, 4, 0);
  CHECK(wrong_after(job, 1, false, {}) == 400);
  CHECK(wrong_after(job, 1, true, {}) > 250);  // what it sends itself is right
}

TEST_CASE("inputs that are changed, and bytes around the buffers, are seen") {
  for (bool in_place : {false, true}) {
    Job job(info(TUTTI_REDUCE_SCATTER), 50, 4, 0);
    const Layout& layout = job.layouts[2];
    Buffer send(MemoryKind::kMalloc, 800), recv(MemoryKind::kMalloc, 800);
    Trial trial(layout, job.pattern, 2, send, recv, in_place);
    tutti_call_t call = {};
    trial.describe(call);
    trial.guard(kSeed);
    Elements result = output(job, 2);
    std::memcpy(call.recv_buffer, result.data(), result.size() * 4);
    auto* input = static_cast<uint32_t*>(const_cast<void*>(call.send_buffer));
    input[99] ^= 1;   // before its own block
    input[150] ^= 1;  // behind it
    CHECK(trial.wrong() == 2);
    input[-1] ^= 1;
    input[200] ^= 1;
    CHECK(trial.overwritten() == 2);
  }
}

TEST_CASE("blocks of unequal sizes add up, fit in place, and one of three or more is empty") {
  for (const CollectiveInfo& collective : collectives()) {
    if (!collective.has_counts) continue;
    Job job(collective, 100, 5, 0);
    for (const Layout& layout : job.layouts) {
      CHECK(layout.total == 500);
      CHECK(std::accumulate(layout.counts.begin(), layout.counts.end(), uint64_t{0}) == 500);
      CHECK(std::count(layout.counts.begin(), layout.counts.end(), 0) == 1);
    }
  }
  Job exchange(info(TUTTI_ALL_TO_ALL_V), 100, 5, 0);
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = 0; j < 5; ++j) CHECK(exchange.layouts[i].counts[j] == exchange.layouts[j].counts[i]);
  }
}

TEST_CASE("sizes are those of nccl-tests, in whole elements") {
  CHECK(count_of(info(TUTTI_ALL_REDUCE), 4098, TUTTI_FLOAT32, 3) == 1024);
  CHECK(count_of(info(TUTTI_BROADCAST), 4098, TUTTI_FLOAT32, 3) == 1024);
  for (auto collective : {TUTTI_ALL_GATHER, TUTTI_REDUCE_SCATTER, TUTTI_ALL_TO_ALL, TUTTI_GATHER, TUTTI_SCATTER}) {
    CHECK(count_of(info(collective), 4098, TUTTI_FLOAT32, 3) == 341);
  }
  CHECK(info(TUTTI_ALL_REDUCE).bus_factor.of(4) == 1.5);
  CHECK(info(TUTTI_REDUCE).bus_factor.of(4) == 1);
  CHECK(info(TUTTI_ALL_TO_ALL).bus_factor.of(4) == 0.75);
}

}  // namespace
}  // namespace tutti::bench
