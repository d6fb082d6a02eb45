// The option "deterministic": the bits of a reduction follow from the inputs and the number of ranks alone.
#include <catch2/catch.hpp>

#include <bit>
#include <cstring>
#include <random>

#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

// Values of very different magnitudes, so that every order of adding gives other bits.
std::vector<float> inputs_of(int rank, size_t count) {
  std::mt19937 random(1234 + rank);
  std::vector<float> values(count);
  for (float& value : values) {
    float mantissa = static_cast<float>(random() % 2'000'001) / 1'000'000 - 1;
    value = std::ldexp(mantissa, static_cast<int>(random() % 24));
  }
  return values;
}

// The tree over rank indices, as a plain loop.
std::vector<float> expected(int nranks, size_t count) {
  std::vector<std::vector<float>> level;
  for (int rank = 0; rank < nranks; ++rank) level.push_back(inputs_of(rank, count));
  while (level.size() > 1) {
    std::vector<std::vector<float>> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      next.push_back(level[i]);
      for (size_t k = 0; i + 1 < level.size() && k < count; ++k) next.back()[k] += level[i + 1][k];
    }
    level = std::move(next);
  }
  return level[0];
}

bool same_bits(const float* a, const float* b, size_t count) { return std::memcmp(a, b, count * sizeof *a) == 0; }

// The whole vector, and the same data in pieces of another size, by every collective that reduces.
std::string reduce_all_ways(tutti_comm_t* comm, int nranks, int rank, size_t block) {
  size_t count = block * nranks;
  std::vector<float> in = inputs_of(rank, count), out(count), want = expected(nranks, count);
  auto ok = [](tutti_status_t status) { return status == TUTTI_SUCCESS; };
  if (!ok(tutti_all_reduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr))) {
    return tutti_last_error(comm);
  }
  std::string wrong;
  if (!same_bits(out.data(), want.data(), count)) wrong += fmt::format("all_reduce of {} differs; ", count);
  for (size_t at = 0; at < count;) {
    size_t piece = std::min<size_t>(count - at, at % 3 == 0 ? 7 : 5000);
    out[at] = 0;
    if (!ok(tutti_all_reduce(&in[at], &out[at], piece, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr))) {
      return tutti_last_error(comm);
    }
    at += piece;
  }
  if (!same_bits(out.data(), want.data(), count)) wrong += fmt::format("pieces of {} differ; ", count);
  if (!ok(tutti_reduce_scatter(in.data(), out.data(), block, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr))) {
    return tutti_last_error(comm);
  }
  if (!same_bits(out.data(), &want[block * rank], block)) wrong += fmt::format("reduce_scatter of {} differs; ", block);
  int root = nranks - 1;
  if (!ok(tutti_reduce(in.data(), in.data(), count, TUTTI_FLOAT32, TUTTI_SUM, root, comm, nullptr))) {
    return tutti_last_error(comm);
  }
  if (rank == root && !same_bits(in.data(), want.data(), count)) wrong += fmt::format("reduce of {} differs; ", count);
  return wrong;
}

}  // namespace

TEST_CASE("deterministic sums have the same bits by every algorithm, transport, size and piece") {
  for (int nranks : {2, 3, 4, 7, 8}) {
    bool is_power = std::has_single_bit(static_cast<unsigned>(nranks));
    for (const char* algorithm : {"", "direct_one_shot", "direct_two_shot", "direct", "binomial_tree",
                                  "recursive_doubling"}) {
      if (!is_power && std::string(algorithm) == "recursive_doubling") continue;
      for (const char* transport : {"loopback", "shm", "tcp"}) {
        if (nranks > 4 && std::string(transport) == "tcp") continue;
        INFO(nranks << " ranks, algorithm \"" << algorithm << "\", " << transport);
        Options options = {{"deterministic", "1"}, {"algorithm", algorithm}, {"transport", transport}};
        auto wrong = with_ranks(nranks, options, [&](tutti_comm_t* comm, int rank) -> std::string {
          return reduce_all_ways(comm, nranks, rank, 3) + reduce_all_ways(comm, nranks, rank, 9001);
        });
        for (const std::string& sentence : wrong) CHECK(sentence == "");
      }
    }
  }
}

TEST_CASE("an algorithm that cannot keep the order is refused when results must be deterministic") {
  auto said = with_ranks(3, {{"deterministic", "1"}, {"algorithm", "ring"}}, [](tutti_comm_t* comm, int rank) {
    return reduce_all_ways(comm, 3, rank, 10);
  });
  for (const std::string& sentence : said) CHECK_THAT(sentence, Catch::Matchers::Contains("rank order"));
}

}  // namespace tutti::test
