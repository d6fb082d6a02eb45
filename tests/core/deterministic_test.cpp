// The option "deterministic": the bits of a reduction follow from the inputs and the number of ranks alone.
#include <catch2/catch.hpp>

#include <bit>
#include <cstring>
#include <random>

#include "core/ranks.h"
#include "fmt/format.h"
#include "kernels/ops.h"

namespace tutti::test {
namespace {

// How a type lies in memory, and in which type it is summed.
template <class E, tutti_datatype_t kType>
struct Type {
  using Element = E;
  using Storage = typename E::Storage;
  using Accumulator = typename E::Accumulator;
  static constexpr tutti_datatype_t kDatatype = kType;
};
using Float32 = Type<ops::Plain<float>, TUTTI_FLOAT32>;

// Values of very different magnitudes, so that every order of adding gives other bits, as does every rounding on the
// way.
template <class T>
std::vector<typename T::Storage> inputs_of(int rank, size_t count) {
  std::mt19937 random(1234 + rank);
  std::vector<typename T::Storage> values(count);
  for (auto& value : values) {
    float mantissa = static_cast<float>(random() % 2'000'001) / 1'000'000 - 1;
    value = T::Element::store(std::ldexp(mantissa, static_cast<int>(random() % (sizeof value == 4 ? 24 : 9))));
  }
  return values;
}

// What the ranks contribute, `block` elements for each of them, and the sum of it.
template <class T>
struct Sums {
  using Storage = typename T::Storage;

  Sums(int nranks, size_t block) : block(block) {
    for (int rank = 0; rank < nranks; ++rank) inputs.push_back(inputs_of<T>(rank, block * nranks));
    add_up();
  }

  size_t block;
  std::vector<std::vector<Storage>> inputs;  // [rank]
  std::vector<Storage> result;

 private:
  // The tree over rank indices, as a plain loop; rounded once.
  void add_up() {
    std::vector<std::vector<typename T::Accumulator>> level;
    for (const auto& input : inputs) {
      auto& values = level.emplace_back();
      for (auto stored : input) values.push_back(T::Element::load(stored));
    }
    while (level.size() > 1) {
      std::vector<std::vector<typename T::Accumulator>> next;
      for (size_t i = 0; i < level.size(); i += 2) {
        next.push_back(level[i]);
        for (size_t k = 0; i + 1 < level.size() && k < level[i].size(); ++k) next.back()[k] += level[i + 1][k];
      }
      level = std::move(next);
    }
    for (auto value : level[0]) result.push_back(T::Element::store(value));
  }
};

template <class Storage>
bool same_bits(const Storage* a, const Storage* b, size_t count) {
  return std::memcmp(a, b, count * sizeof *a) == 0;
}

// The whole vector, and the same data in pieces of another size, by every collective that reduces.
template <class T>
std::string reduce_all_ways(tutti_comm_t* comm, int rank, const Sums<T>& sums) {
  constexpr tutti_datatype_t kType = T::kDatatype;
  const auto& want = sums.result;
  const size_t block = sums.block, count = want.size();
  auto in = sums.inputs[rank], out = decltype(in)(count);
  auto ok = [](tutti_status_t status) { return status == TUTTI_SUCCESS; };
  if (!ok(tutti_all_reduce(in.data(), out.data(), count, kType, TUTTI_SUM, comm, nullptr))) {
    return tutti_last_error(comm);
  }
  std::string wrong;
  if (!same_bits(out.data(), want.data(), count)) wrong += fmt::format("all_reduce of {} differs; ", count);
  for (size_t at = 0; at < count;) {
    size_t piece = std::min<size_t>(count - at, at % 3 == 0 ? 7 : 5000);
    out[at] = 0;
    if (!ok(tutti_all_reduce(&in[at], &out[at], piece, kType, TUTTI_SUM, comm, nullptr))) {
      return tutti_last_error(comm);
    }
    at += piece;
  }
  if (!same_bits(out.data(), want.data(), count)) wrong += fmt::format("pieces of {} differ; ", count);
  if (!ok(tutti_reduce_scatter(in.data(), out.data(), block, kType, TUTTI_SUM, comm, nullptr))) {
    return tutti_last_error(comm);
  }
  if (!same_bits(out.data(), &want[block * rank], block)) wrong += fmt::format("reduce_scatter of {} differs; ", block);
  int root = static_cast<int>(sums.inputs.size()) - 1;
  if (!ok(tutti_reduce(in.data(), in.data(), count, kType, TUTTI_SUM, root, comm, nullptr))) {
    return tutti_last_error(comm);
  }
  if (rank == root && !same_bits(in.data(), want.data(), count)) wrong += fmt::format("reduce of {} differs; ", count);
  return wrong;
}

template <class T>
struct TwoSizes {
  explicit TwoSizes(int nranks) : small(nranks, 3), large(nranks, sizeof(typename T::Storage) == 4 ? 9001 : 1501) {}

  std::string reduce(tutti_comm_t* comm, int rank) const {
    std::string wrong = reduce_all_ways(comm, rank, small) + reduce_all_ways(comm, rank, large);
    return wrong.empty() ? "" : fmt::format("type {}: {}", static_cast<int>(T::kDatatype), wrong);
  }

  Sums<T> small, large;
};

}  // namespace

TEST_CASE("deterministic sums have the same bits by every algorithm, transport, size and piece") {
  for (int nranks : {2, 3, 4, 7, 8}) {
    bool is_power = std::has_single_bit(static_cast<unsigned>(nranks));
    const TwoSizes<Float32> float32(nranks);
    const TwoSizes<Type<ops::Float16, TUTTI_FLOAT16>> float16(nranks);
    const TwoSizes<Type<ops::Bfloat16, TUTTI_BFLOAT16>> bfloat16(nranks);
    const TwoSizes<Type<ops::Float8E4m3, TUTTI_FLOAT8_E4M3>> float8_e4m3(nranks);
    const TwoSizes<Type<ops::Float8E5m2, TUTTI_FLOAT8_E5M2>> float8_e5m2(nranks);
    for (const char* algorithm : {"", "direct_one_shot", "direct_two_shot", "direct", "binomial_tree",
                                  "recursive_doubling"}) {
      if (!is_power && std::string(algorithm) == "recursive_doubling") continue;
      for (const char* transport : {"loopback", "shm", "tcp"}) {
        if (nranks > 4 && std::string(transport) == "tcp") continue;
        INFO(nranks << " ranks, algorithm \"" << algorithm << "\", " << transport);
        Options options = {{"deterministic", "1"}, {"algorithm", algorithm}, {"transport", transport}};
        auto wrong = with_ranks(nranks, options, [&](tutti_comm_t* comm, int rank) -> std::string {
          return float32.reduce(comm, rank) + float16.reduce(comm, rank) + bfloat16.reduce(comm, rank) +
                 float8_e4m3.reduce(comm, rank) + float8_e5m2.reduce(comm, rank);
        });
        check_all(wrong);
      }
    }
  }
}

TEST_CASE("deterministic sums keep their bits beyond the number of ranks that can all be linked to each other") {
  constexpr int kRanks = 131;
  const Sums<Float32> float32(kRanks, 40);
  const Sums<Type<ops::Float16, TUTTI_FLOAT16>> float16(kRanks, 40);
  auto wrong = with_ranks(kRanks, {{"deterministic", "1"}, {"slot_bytes", "4096"}}, [&](tutti_comm_t* comm, int rank) {
    return reduce_all_ways(comm, rank, float32) + reduce_all_ways(comm, rank, float16);
  });
  check_all(wrong);
}

TEST_CASE("an algorithm that cannot keep the order is refused when results must be deterministic") {
  const Sums<Float32> sums(3, 10);
  auto said = with_ranks(3, {{"deterministic", "1"}, {"algorithm", "ring"}}, [&](tutti_comm_t* comm, int rank) {
    return reduce_all_ways(comm, rank, sums);
  });
  for (const std::string& sentence : said) CHECK_THAT(sentence, Catch::Matchers::Contains("rank order"));
}

}  // namespace tutti::test
