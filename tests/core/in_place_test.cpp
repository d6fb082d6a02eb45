// A reduce_scatter whose result lies at the start of its input, as MPI has it in place.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <span>

#include "core/ranks.h"

namespace tutti::test {
namespace {

std::string scatter_onto_input(tutti_comm_t* comm, int nranks, int rank, std::span<int32_t> data, bool with_counts) {
  std::vector<uint64_t> counts(nranks);
  uint64_t each = data.size() / nranks;
  // Of different sizes, some of them empty.
  for (int r = 0; r < nranks; ++r) counts[r] = with_counts ? (r % 2 == 0 ? 0 : each / 2 + r) : each;
  uint64_t before = 0;
  for (int r = 0; r < rank; ++r) before += counts[r];
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int32_t>(i) + rank;
  tutti_status_t status =
      with_counts
          ? tutti_reduce_scatter_v(data.data(), data.data(), counts.data(), TUTTI_INT32, TUTTI_SUM, comm, nullptr)
          : tutti_reduce_scatter(data.data(), data.data(), each, TUTTI_INT32, TUTTI_SUM, comm, nullptr);
  if (status != TUTTI_SUCCESS) return tutti_last_error(comm);
  auto ranks_sum = static_cast<uint64_t>(nranks * (nranks - 1) / 2);
  for (size_t i = 0; i < data.size(); ++i) {
    bool is_result = i < counts[rank];
    int32_t want = static_cast<int32_t>(is_result ? nranks * (before + i) + ranks_sum : i + rank);
    if (data[i] != want) return fmt::format("element {} is {} and should be {}", i, data[i], want);
  }
  return "";
}

std::string scatter_all(tutti_comm_t* comm, int nranks, int rank) {
  constexpr size_t kMost = 400'000;
  std::vector<int32_t> ordinary(kMost);
  void* shared = nullptr;
  if (tutti_mem_alloc(&shared, kMost * sizeof(int32_t)) != TUTTI_SUCCESS) return tutti_last_error(nullptr);
  std::string found;
  for (size_t count : {size_t{20}, size_t{5000}, kMost}) {
    for (int32_t* memory : {ordinary.data(), static_cast<int32_t*>(shared)}) {
      for (bool with_counts : {false, true}) {
        found += scatter_onto_input(comm, nranks, rank, std::span(memory, count), with_counts);
      }
    }
  }
  tutti_mem_free(shared);
  return found;
}

}  // namespace

TEST_CASE("the result of a reduce_scatter may lie at the start of its input") {
  for (const char* transport : {"loopback", "shm", "tcp"}) {
    for (const char* algorithm : {"", "direct", "ring"}) {
      for (int nranks : {1, 2, 5}) {
        INFO(transport << ", " << algorithm << ", " << nranks << " ranks");
        auto wrong = with_ranks(nranks, {{"transport", transport}, {"algorithm", algorithm}},
                                [nranks](tutti_comm_t* comm, int rank) { return scatter_all(comm, nranks, rank); });
        check_all(wrong);
      }
    }
  }
}

}  // namespace tutti::test
