// Ordinary memory of large calls and messages, which comes one way or the other while ranks try which is quicker: the
// data are right whichever it was.
#include <catch2/catch.hpp>

#include <cstring>

#include "core/contents.h"
#include "core/measured_costs.h"
#include "core/messages.h"

namespace tutti::test {
namespace {

constexpr int kRounds = 84;  // with the whole of the first trial

std::string calls_with_root(tutti_comm_t* comm, int nranks, int rank, size_t count) {
  const size_t all = count * static_cast<size_t>(nranks);
  std::vector<float> in(all), out(all);
  for (int round = 0; round < kRounds; ++round) {
    int root = round % 4 == 3 ? nranks - 1 : 0;
    std::string wrong;
    auto expect = [&](tutti_status_t status, const char* what, const std::vector<float>& want) {
      if (wrong.empty() && status != TUTTI_SUCCESS) wrong = tutti_last_error(comm);
      if (wrong.empty()) wrong = compare(out.data(), want, fmt::format("{} in round {}", what, round));
      std::memset(out.data(), 0xff, all * sizeof(float));
    };
    auto values = contribution(rank, round, all);
    std::copy(values.begin(), values.end(), in.begin());
    const bool is_root = rank == root;
    expect(tutti_broadcast(in.data(), out.data(), count, TUTTI_FLOAT32, root, comm, nullptr), "broadcast",
           contribution(root, round, count));
    expect(tutti_reduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, root, comm, nullptr), "reduce",
           is_root ? sum_of_all(nranks, round, count) : std::vector<float>());
    expect(tutti_gather(in.data(), out.data(), count, TUTTI_FLOAT32, root, comm, nullptr), "gather",
           is_root ? blocks_of_all(nranks, round, count) : std::vector<float>());
    expect(tutti_scatter(in.data(), out.data(), count, TUTTI_FLOAT32, root, comm, nullptr), "scatter",
           contribution(root, round, count, static_cast<size_t>(rank) * count));
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
      if (kUnderThreadSanitizer && count > 100'000) continue;
      INFO(nranks << " ranks, " << count << " elements");
      check_all(with_ranks(nranks, {{"transport", "shm"}, {"calibration", costs.file}},
                           [&](tutti_comm_t* comm, int rank) { return calls_with_root(comm, nranks, rank, count); }));
    }
  }
}

TEST_CASE("messages are what they should be while their ways are tried") {
  MeasuredCosts costs;
  for (int nranks : {2, 3}) {
    for (size_t count : {size_t{16'385}, size_t{kUnderThreadSanitizer ? 70'001 : 300'000}}) {
      INFO(nranks << " ranks, " << count << " elements");
      check_all(with_ranks(nranks, {{"transport", "shm"}, {"calibration", costs.file}},
                           [&](tutti_comm_t* comm, int rank) { return messages(comm, nranks, rank, count); }));
    }
  }
  check_all(with_ranks(2, {{"transport", "loopback"}, {"calibration", costs.file}},
                       [&](tutti_comm_t* comm, int rank) { return messages(comm, 2, rank, 16'385); }));
}

TEST_CASE("halves that are pulled and pushed in several pieces are what they should be, from any source, too") {
  MeasuredCosts costs;
  constexpr size_t kCount = 700'001;
  constexpr int kMessages = 22;  // with the whole of the first trial
  const char* transport = GENERATE("loopback", "shm");
  check_all(with_ranks(2, {{"transport", transport}, {"calibration", costs.file}}, [&](tutti_comm_t* comm, int rank) {
    std::vector<float> data(kCount);
    std::string wrong;
    for (int round = 0; round < kMessages && wrong.empty(); ++round) {
      if (rank == 0) fill(data, 0, 1, round);
      wrong += rank == 0 ? send(comm, data, 1, round) : receive(comm, data, TUTTI_ANY_SOURCE, round);
      wrong += compare(data, 0, 1, round);
      if (rank == 1) std::fill(data.begin(), data.end(), -1.0f);
    }
    return wrong;
  }));
}

}  // namespace tutti::test
