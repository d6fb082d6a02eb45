// Ranks that make different calls: all of them learn it, with both sides named, in that call or in the next one.
#include <catch2/catch.hpp>

#include "base/types.h"
#include "core/calls.h"
#include "core/ranks.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 3;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Rank 1 makes one call, the others another; whoever is through goes on with calls that all have in common. The first
// of them may complete on a rank for which the disagreeing ones had nothing.
std::vector<std::string> disagree(const char* transport, const CallOf& usual, const CallOf& odd) {
  return with_ranks(kRanks, {{"transport", transport}, {"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
    std::string wrong = usual.run(comm, kRanks);
    if (!wrong.empty()) return "the good call failed: " + wrong;
    wrong = (rank == 1 ? odd : usual).run(comm, kRanks);
    for (int i = 0; i < 2 && wrong.empty(); ++i) {
      if (tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) wrong = tutti_last_error(comm);
    }
    return wrong;
  });
}

void check_named(const std::vector<std::string>& said, const CallOf& usual, const CallOf& odd) {
  for (const std::string& sentence : said) {
    INFO(usual.name() << " and " << odd.name() << ": " << sentence);
    CHECK(contains(sentence, "rank 1 called " + odd.name() + " #2"));
    CHECK(contains(sentence, " called " + usual.name() + " #2"));
  }
}

}  // namespace

TEST_CASE("every pair of collectives is told apart") {
  for (int first = TUTTI_ALL_REDUCE; first <= TUTTI_SCATTER_V; ++first) {
    for (int second = first + 1; second <= TUTTI_SCATTER_V; ++second) {
      CallOf usual{static_cast<tutti_collective_t>(first)}, odd{static_cast<tutti_collective_t>(second)};
      if ((first + second) % 3 == 0) std::swap(usual, odd);
      const char* transport = (first + second) % 2 == 0 ? "shm" : "loopback";
      check_named(disagree(transport, usual, odd), usual, odd);
    }
  }
}

TEST_CASE("counts, types, operations and roots of each collective are told apart") {
  for (int number = TUTTI_ALL_REDUCE; number <= TUTTI_SCATTER_V; ++number) {
    if (number == TUTTI_BARRIER) continue;
    CallOf usual{static_cast<tutti_collective_t>(number)};
    std::vector<CallOf> odd(2, usual);
    odd[0].datatype = TUTTI_INT32;
    odd[1].root = 2;
    if (reduces(usual.collective)) {
      odd.push_back(usual);
      odd.back().op = TUTTI_MAX;
    }
    if (number != TUTTI_ALL_TO_ALL_V && number != TUTTI_GATHER_V && number != TUTTI_SCATTER_V) {
      odd.push_back(usual);
      odd.back().count += 1;
      odd.push_back(usual);
      odd.back().count = 100'000;
    }
    for (const CallOf& other : odd) {
      if (other.root != usual.root && !has_root(usual.collective)) continue;
      auto said = disagree(number % 2 == 0 ? "shm" : "tcp", usual, other);
      check_named(said, usual, other);
    }
  }
}

TEST_CASE("counts that only two ranks know are told apart, with both numbers") {
  for (tutti_collective_t collective : {TUTTI_ALL_TO_ALL_V, TUTTI_GATHER_V, TUTTI_SCATTER_V}) {
    for (uint64_t other : {0, 9, 11, 100'000}) {
      CallOf usual{collective}, odd{collective};
      usual.count = 10;
      odd.count = other;
      auto said = disagree("shm", usual, odd);
      for (const std::string& sentence : said) {
        INFO(usual.name() << " of 10 and " << other << ": " << sentence);
        CHECK(contains(sentence, "10 elements"));
        CHECK(contains(sentence, std::to_string(other) + " elements"));
      }
    }
  }
}

// Its messages differ in nothing but the signature.
TEST_CASE("a call that was made again and again is told apart from another one") {
  constexpr int kTimes = 5;
  for (const char* transport : {"shm", "loopback", "tcp"}) {
    for (int nranks : {2, 3}) {
      auto said = with_ranks(nranks, {{"transport", transport}, {"timeout_ms", "20000"}},
                             [&](tutti_comm_t* comm, int rank) -> std::string {
        float in[2] = {1, 2}, out[2] = {};
        tutti_status_t last = TUTTI_SUCCESS;
        for (int i = 0; i <= kTimes && last == TUTTI_SUCCESS; ++i) {
          tutti_op_t op = rank == 1 && i == kTimes ? TUTTI_MAX : TUTTI_SUM;
          last = tutti_all_reduce(in, out, 2, TUTTI_FLOAT32, op, comm, nullptr);
        }
        if (nranks == 2 && last == TUTTI_SUCCESS) return "each of two ranks has the other's message";
        for (int i = 0; i < 2 && tutti_comm_status(comm) == TUTTI_SUCCESS; ++i) tutti_barrier(comm, nullptr);
        return tutti_last_error(comm);
      });
      for (const std::string& sentence : said) {
        INFO(transport << ", " << nranks << " ranks: " << sentence);
        CHECK(contains(sentence, "rank 1 called all_reduce #6 of 2 float32 (max)"));
        CHECK(contains(sentence, " called all_reduce #6 of 2 float32 (sum)"));
      }
    }
  }
}

}  // namespace tutti::test
