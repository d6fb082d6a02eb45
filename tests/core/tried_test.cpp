// Ordinary memory of large calls and messages, which comes one way or the other while ranks try which is quicker: the
// data are right whichever it was.
#include <catch2/catch.hpp>

#include "core/measured_costs.h"
#include "core/messages.h"

namespace tutti::test {
namespace {

constexpr int kRounds = 80;  // with the whole of the first trial

float element(int rank, int round, size_t i) { return static_cast<float>((i * 7 + rank * 13 + round * 5) % 31) - 15; }

std::string calls_with_root(tutti_comm_t* comm, int nranks, int rank, size_t count) {
  const size_t all = count * static_cast<size_t>(nranks);
  std::vector<float> in(all), out(all);
  for (int round = 0; round < kRounds; ++round) {
    int root = round % 4 == 3 ? nranks - 1 : 0;
    std::string wrong;
    auto expect = [&](tutti_status_t status, const char* what, size_t n, auto&& want) {
      if (wrong.empty() && status != TUTTI_SUCCESS) wrong = tutti_last_error(comm);
      for (size_t i = 0; i < n && wrong.empty(); ++i) {
        if (out[i] != want(i)) wrong = fmt::format("{} in round {}: element {} is {}", what, round, i, out[i]);
      }
      std::fill(out.begin(), out.end(), -99.0F);
    };
    for (size_t i = 0; i < all; ++i) in[i] = element(rank, round, i);
    auto of_root = [&](size_t i) { return element(root, round, i); };
    auto sum = [&](size_t i) {
      float total = 0;
      for (int each = 0; each < nranks; ++each) total += element(each, round, i);
      return total;
    };
    auto gathered = [&](size_t i) { return element(static_cast<int>(i / count), round, i % count); };
    auto scattered = [&](size_t i) { return element(root, round, static_cast<size_t>(rank) * count + i); };
    bool is_root = rank == root;
    expect(tutti_broadcast(in.data(), out.data(), count, TUTTI_FLOAT32, root, comm, nullptr), "broadcast", count,
           of_root);
    expect(tutti_reduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, root, comm, nullptr), "reduce",
           is_root ? count : 0, sum);
    expect(tutti_gather(in.data(), out.data(), count, TUTTI_FLOAT32, root, comm, nullptr), "gather", is_root ? all : 0,
           gathered);
    expect(tutti_scatter(in.data(), out.data(), count, TUTTI_FLOAT32, root, comm, nullptr), "scatter", count,
           scattered);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// Several messages at once in a ring of ranks.
std::string messages(tutti_comm_t* comm, int nranks, int rank, size_t count) {
  constexpr int kAtOnce = 3;
  int next = (rank + 1) % nranks, before = (rank + nranks - 1) % nranks;
  std::vector<std::vector<float>> in(kAtOnce, std::vector<float>(count)), out = in;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<tutti_request_t*> requests;
    for (int i = 0; i < kAtOnce; ++i) {
      int tag = round * kAtOnce + i;
      fill(in[i], rank, next, tag);
      requests.push_back(start(comm, TUTTI_RECV, out[i], before, tag));
      requests.push_back(start(comm, TUTTI_SEND, in[i], next, tag));
    }
    std::string wrong = wait_all(comm, requests);
    for (int i = 0; i < kAtOnce; ++i) wrong += compare(out[i], before, rank, round * kAtOnce + i);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

TEST_CASE("calls with a root give what they should while their ways are tried") {
  MeasuredCosts costs;
  for (int nranks : {2, 3}) {
    for (size_t count : {size_t{16'384}, size_t{70'001}, size_t{400'000}}) {
      INFO(nranks << " ranks, " << count << " elements");
      check_all(with_ranks(nranks, {{"transport", "shm"}, {"calibration", costs.file}},
                           [&](tutti_comm_t* comm, int rank) { return calls_with_root(comm, nranks, rank, count); }));
    }
  }
}

TEST_CASE("messages are what they should be while their ways are tried") {
  MeasuredCosts costs;
  for (int nranks : {2, 3}) {
    for (size_t count : {size_t{16'385}, size_t{300'000}}) {
      INFO(nranks << " ranks, " << count << " elements");
      check_all(with_ranks(nranks, {{"transport", "shm"}, {"calibration", costs.file}},
                           [&](tutti_comm_t* comm, int rank) { return messages(comm, nranks, rank, count); }));
    }
  }
}

}  // namespace tutti::test
