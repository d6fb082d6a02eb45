// Whole communicators of ranks that are threads, over every transport.
#include <sched.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <span>
#include <thread>

#include "core/contents.h"
#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

std::string sum_floats(tutti_comm_t* comm, int nranks, int rank, size_t count) {
  std::vector<float> in = contribution(rank, 0, count), out(count);
  if (tutti_all_reduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr) != TUTTI_SUCCESS) {
    return tutti_last_error(comm);
  }
  return compare(out.data(), sum_of_all(nranks, 0, count), "sum");
}

// Starts a sum of `values` in place.
tutti_request_t* start_sum(tutti_comm_t* comm, std::vector<float>& values) {
  tutti_request_t* request = nullptr;
  start_all_reduce(values.data(), values.data(), values.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, &request);
  return request;
}

}  // namespace

TEST_CASE("sums are right at all sizes over every transport") {
  for (const char* transport : {"loopback", "shm", "tcp"}) {
    for (int nranks : {1, 2, 3, 4}) {
      INFO(transport << ", " << nranks << " ranks");
      check_all(with_ranks(nranks, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
        for (size_t count : {0, 1, 5, 100, 1000, 30'000, 1'000'003}) {
          std::string wrong = sum_floats(comm, nranks, rank, count);
          if (!wrong.empty()) return fmt::format("count {}: {}", count, wrong);
        }
        return "";
      }));
    }
  }
}

TEST_CASE("bytes are right at the sizes where they begin to travel another way") {
  const char* transport = GENERATE("loopback", "shm", "tcp");
  check_all(with_ranks(2, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) -> std::string {
    for (uint64_t border : {uint64_t{40}, uint64_t{2048}, uint64_t{256} << 10}) {
      for (uint64_t count = border - 2; count <= border + 2; ++count) {
        auto content = [&](uint64_t i) { return static_cast<uint8_t>(i * 7 + count); };
        std::vector<uint8_t> data(count);
        for (uint64_t i = 0; i < count && rank == 0; ++i) data[i] = content(i);
        auto status = tutti_broadcast(data.data(), data.data(), count, TUTTI_UINT8, 0, comm, nullptr);
        if (status != TUTTI_SUCCESS) return tutti_last_error(comm);
        for (uint64_t i = 0; i < count; ++i) {
          if (data[i] != content(i)) return fmt::format("byte {} of {} is {}", i, count, data[i]);
        }
      }
    }
    return "";
  }));
}

TEST_CASE("every algorithm can be forced and gives the sum") {
  for (const char* algorithm :
       {"direct_one_shot", "direct_two_shot", "ring", "double_binary_tree", "recursive_doubling", "binomial_tree"}) {
    INFO(algorithm);
    check_all(with_ranks(3, {{"algorithm", algorithm}}, [](tutti_comm_t* comm, int rank) {
      return sum_floats(comm, 3, rank, 50'000);
    }));
  }
}

TEST_CASE("several channels give the same sums") {
  check_all(with_ranks(3, {{"channels", "3"}, {"algorithm", "ring"}}, [](tutti_comm_t* comm, int rank) {
    return sum_floats(comm, 3, rank, 100'001);
  }));
}

TEST_CASE("threads of a rank share large calls") {
  for (const char* transport : {"loopback", "shm", "tcp"}) {
    for (const char* workers : {"2", "3"}) {
      for (const char* algorithm : {"", "direct_two_shot", "ring", "double_binary_tree"}) {
        INFO(transport << ", " << workers << " workers, " << algorithm);
        Options options = {{"transport", transport}, {"workers", workers}, {"algorithm", algorithm}};
        check_all(with_ranks(3, options, [](tutti_comm_t* comm, int rank) -> std::string {
          for (size_t count : {300'000, 262'144, 1'000'003}) {
            if (kUnderThreadSanitizer && count > 300'000) continue;
            std::string wrong = sum_floats(comm, 3, rank, count);
            if (!wrong.empty()) return fmt::format("count {}: {}", count, wrong);
            std::vector<float> out = contribution(rank, 0, count);
            if (tutti_broadcast(out.data(), out.data(), count, TUTTI_FLOAT32, 1, comm, nullptr) != TUTTI_SUCCESS) {
              return tutti_last_error(comm);
            }
            wrong = compare(out.data(), contribution(1, 0, count), fmt::format("broadcast of {}", count));
            if (!wrong.empty()) return wrong;
          }
          return "";
        }));
      }
    }
  }
}

TEST_CASE("a rank's helpers start with its first large call: one less than it has workers") {
  constexpr int kRanks = 2;
  for (int workers : {1, 2, 3}) {
    INFO(workers << " workers");
    auto threads = [] {
      auto tasks = std::filesystem::directory_iterator("/proc/self/task");
      return static_cast<int>(std::distance(begin(tasks), end(tasks)));
    };
    std::atomic<int> before{0}, after{0};
    Options options = {{"transport", "shm"}, {"workers", std::to_string(workers)}};
    check_all(with_ranks(kRanks, options, [&](tutti_comm_t* comm, int rank) -> std::string {
      auto sum = [&](size_t count) { return sum_floats(comm, kRanks, rank, count); };
      auto count = [&](std::atomic<int>& into) {
        tutti_barrier(comm, nullptr);
        if (rank == 0) into = threads();
        tutti_barrier(comm, nullptr);
      };
      std::string wrong = sum(100'000);
      count(before);
      if (wrong.empty()) wrong = sum(300'000);
      count(after);
      return wrong;
    }));
    CHECK(after - before == kRanks * (workers - 1));
  }
}

// How many threads of this process but these may not run on all processors that the calling one may use.
int kept_threads(std::span<const std::atomic<pid_t>> but) {
  cpu_set_t all, its;
  ::sched_getaffinity(0, sizeof all, &all);
  int kept = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    pid_t id = std::stoi(task.path().filename());
    if (std::find(but.begin(), but.end(), id) != but.end()) continue;
    kept += ::sched_getaffinity(id, sizeof its, &its) == 0 && CPU_EQUAL(&all, &its) == 0;
  }
  return kept;
}

// The same after each call: a reduce, an all_reduce, and a reduce.
void check_kept_helpers(const std::string& algorithm, const std::array<int, 3>& expected) {
  constexpr int kRanks = 3;
  INFO(algorithm);
  std::array<std::atomic<pid_t>, kRanks> ranks{};  // their threads may be on the way to another processor
  Options options = {{"transport", "shm"}, {"workers", "2"}, {"algorithm", algorithm}};
  check_all(with_ranks(kRanks, options, [&](tutti_comm_t* comm, int rank) -> std::string {
    constexpr size_t kCount = 300'000;
    ranks[rank] = ::gettid();
    std::vector<float> in(kCount, 1), out(kCount);
    for (size_t i = 0; i < expected.size(); ++i) {
      tutti_status_t status =
          i == 1 ? tutti_all_reduce(in.data(), out.data(), kCount, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr)
                 : tutti_reduce(in.data(), out.data(), kCount, TUTTI_FLOAT32, TUTTI_SUM, 1, comm, nullptr);
      if (status != TUTTI_SUCCESS) return tutti_last_error(comm);
      tutti_barrier(comm, nullptr);
      if (int kept = kept_threads(ranks); kept != expected[i]) return fmt::format("call {}: {} threads", i, kept);
      tutti_barrier(comm, nullptr);
    }
    return "";
  }));
}

TEST_CASE("only a root that reduces alone keeps its helper elsewhere") {
  if (std::thread::hardware_concurrency() < 2) {
    WARN("skipped: needs two processors");
    return;
  }
  check_kept_helpers("direct", {1, 0, 1});
  check_kept_helpers("direct_two_shot", {0, 0, 0});
}

TEST_CASE("an abort ends calls that threads share, in memory that peers reach too") {
  bool reachable = GENERATE(false, true);
  Options options = {{"transport", "shm"}, {"workers", "2"}};
  auto said = with_ranks(3, options, [&](tutti_comm_t* comm, int rank) -> std::string {
    constexpr size_t kCount = 1'000'000;
    std::vector<float> plain(reachable ? 0 : kCount);
    void* shared = nullptr;
    if (reachable) tutti_mem_alloc(&shared, kCount * sizeof(float));
    auto* data = reachable ? static_cast<float*>(shared) : plain.data();
    auto reduce = [&] { return tutti_all_reduce(data, data, kCount, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr); };
    tutti_status_t status = reduce();
    if (rank == 2) status = tutti_comm_abort(comm);
    for (int i = 0; rank != 2 && i < 1000 && status == TUTTI_SUCCESS; ++i) status = reduce();
    tutti_mem_free(shared);
    tutti_status_t expected = rank == 2 ? TUTTI_SUCCESS : TUTTI_ABORTED;
    return status == expected ? "" : fmt::format("status {}", static_cast<int>(status));
  });
  check_all(said);
}

TEST_CASE("memory from tutti_mem_alloc works on some ranks, on all, and after it was freed and allocated again") {
  check_all(with_ranks(4, {{"transport", "shm"}}, [](tutti_comm_t* comm, int rank) -> std::string {
    constexpr size_t kCount = 200'000;
    for (int round = 0; round < 6; ++round) {
      std::vector<float> plain(kCount);
      void* shared = nullptr;
      bool uses_shared = round >= 3 || rank % 2 == round % 2;
      if (uses_shared && tutti_mem_alloc(&shared, kCount * sizeof(float)) != TUTTI_SUCCESS) {
        return tutti_last_error(nullptr);
      }
      float* data = uses_shared ? static_cast<float*>(shared) : plain.data();
      auto values = contribution(rank, 0, kCount);
      std::copy(values.begin(), values.end(), data);
      if (tutti_all_reduce(data, data, kCount, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr) != TUTTI_SUCCESS) {
        return tutti_last_error(comm);
      }
      std::string wrong = compare(data, sum_of_all(4, 0, kCount), fmt::format("round {}", round));
      if (!wrong.empty()) return wrong;
      tutti_mem_free(shared);
    }
    return "";
  }));
}

// What a rank has received in calls that never had to wait is told to the sender nevertheless.
TEST_CASE("a root is told of what was received while the receiver makes no call") {
  constexpr int kReceived = 14, kSent = kReceived + 3;  // with 4 slots, of which it is told two at a time
  for (const char* transport : {"shm", "tcp"}) {
    std::atomic<bool> has_sent_all{false};
    INFO(transport);
    check_all(with_ranks(2, {{"transport", transport}, {"slots", "4"}}, [&](tutti_comm_t* comm, int rank) {
      std::vector<char> data(1000);
      auto broadcast = [&] {
        return tutti_broadcast(data.data(), data.data(), data.size(), TUTTI_INT8, 0, comm, nullptr) == TUTTI_SUCCESS;
      };
      bool ok = true;
      for (int i = 0; i < kReceived; ++i) {
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ok = ok && broadcast();
      }
      if (rank == 1) {
        for (int i = 0; i < 500 && !has_sent_all; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ok = ok && has_sent_all;
      }
      for (int i = kReceived; i < kSent; ++i) ok = ok && broadcast();
      if (rank == 0) has_sent_all = true;
      return std::string(ok ? "" : "the root still waits");
    }));
  }
}

TEST_CASE("many non-blocking calls complete in order while nobody waits") {
  check_all(with_ranks(3, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    constexpr int kCalls = 50;
    std::vector<std::vector<int64_t>> buffers(kCalls);
    std::vector<tutti_request_t*> requests(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      buffers[i].assign(1 + i * 100, rank + i);
      if (start_all_reduce(buffers[i].data(), buffers[i].data(), buffers[i].size(), TUTTI_INT64, TUTTI_SUM, comm,
                           &requests[i]) != TUTTI_SUCCESS) {
        return tutti_last_error(comm);
      }
    }
    // The last one completes without a waiter.
    for (int done = 0; done == 0;) {
      if (tutti_test(&requests[kCalls - 1], &done) != TUTTI_SUCCESS) return tutti_last_error(comm);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (int i = 0; i < kCalls - 1; ++i) {
      if (tutti_wait(&requests[i]) != TUTTI_SUCCESS || requests[i] != nullptr) return tutti_last_error(comm);
    }
    for (int i = 0; i < kCalls; ++i) {
      for (int64_t value : buffers[i]) {
        if (value != 3 * i + 3) return fmt::format("call {} gave {}", i, value);
      }
    }
    return "";
  }));
}

TEST_CASE("blocking and non-blocking calls mix in one order") {
  check_all(with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    for (int round = 0; round < 100; ++round) {
      int32_t first = rank, second = 10 * rank;
      tutti_request_t* request = nullptr;
      start_all_reduce(&first, &first, 1, TUTTI_INT32, TUTTI_SUM, comm, &request);
      if (tutti_all_reduce(&second, &second, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr) != TUTTI_SUCCESS) {
        return tutti_last_error(comm);
      }
      if (tutti_wait(&request) != TUTTI_SUCCESS) return tutti_last_error(comm);
      if (first != 1 || second != 10) return fmt::format("round {}: {} and {}", round, first, second);
    }
    return "";
  }));
}

TEST_CASE("ranks that come late are waited for asleep") {
  check_all(with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    for (int round = 0; round < 3; ++round) {
      if (rank == round % 2) std::this_thread::sleep_for(std::chrono::milliseconds(150));
      float one = 1, sum = 0;
      if (tutti_all_reduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr) != TUTTI_SUCCESS) {
        return tutti_last_error(comm);
      }
      if (sum != 2) return "wrong sum";
    }
    return "";
  }));
}

TEST_CASE("first calls on two communicators may start in another order on each rank, all in one thread") {
  const char* transport = GENERATE("loopback", "shm", "tcp");
  INFO(transport);
  std::vector<tutti_comm_t*> comms[] = {make_ranks(3, transport), make_ranks(3, transport)};
  std::vector<float> values[2][3];
  tutti_request_t* requests[2][3] = {};
  for (int rank : {0, 1, 2}) {
    for (int turn : {0, 1}) {
      int which = rank == 1 ? 1 - turn : turn;
      REQUIRE(comms[which][rank] != nullptr);
      values[which][rank].assign(5000, static_cast<float>(rank + 1));
      requests[which][rank] = start_sum(comms[which][rank], values[which][rank]);
    }
  }
  for (int rank : {2, 0, 1}) {
    for (int which : {1, 0}) {
      CHECK(tutti_wait(&requests[which][rank]) == TUTTI_SUCCESS);
      CHECK(values[which][rank] == std::vector<float>(5000, 6));
    }
  }
  for (auto& ranks : comms) destroy(ranks);
}

TEST_CASE("testing a first call does not wait for the other ranks") {
  const char* transport = GENERATE("loopback", "shm", "tcp");
  INFO(transport);
  auto comms = make_ranks(2, transport);
  std::vector<float> values[] = {std::vector<float>(100, 1), std::vector<float>(100, 2)};
  tutti_request_t* requests[] = {start_sum(comms[0], values[0]), nullptr};
  int done = 0;
  for (int i = 0; i < 100; ++i) {
    CHECK(tutti_test(&requests[0], &done) == TUTTI_SUCCESS);
    CHECK(done == 0);
  }
  requests[1] = start_sum(comms[1], values[1]);
  while (requests[0] != nullptr || requests[1] != nullptr) {
    for (auto& request : requests) {
      if (request != nullptr) REQUIRE(tutti_test(&request, &done) == TUTTI_SUCCESS);
    }
  }
  for (auto& sums : values) CHECK(sums == std::vector<float>(100, 3));
  destroy(comms);
}

TEST_CASE("two communicators of one process do not disturb each other") {
  check_all(with_ranks(2, {}, [](tutti_comm_t* outer, int rank) -> std::string {
    auto inner = with_ranks(2, {}, [&](tutti_comm_t* comm, int inner_rank) {
      return sum_floats(comm, 2, inner_rank, 1000);
    });
    for (auto& sentence : inner) {
      if (!sentence.empty()) return sentence;
    }
    return sum_floats(outer, 2, rank, 1000);
  }));
}

}  // namespace tutti::test
