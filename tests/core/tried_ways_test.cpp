// Which calls and messages pull ordinary memory, and which do not: seen where the kernel is asked to. What is to look
// slow is made so, by far.
#include <catch2/catch.hpp>

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/measured_costs.h"
#include "core/messages.h"

namespace {

constexpr size_t kLeastSeen = 32 * 1024;  // links read less when they are made
constexpr auto kLong = std::chrono::milliseconds(20);
std::atomic<int> pulls = 0;
std::atomic<bool> are_pulls_slow = false;

}  // namespace

// In place of the C library's.
extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                                    unsigned long remote_count, unsigned long flags) {
  if (local->iov_len >= kLeastSeen) {
    ++pulls;
    if (are_pulls_slow) std::this_thread::sleep_for(kLong);
  }
  return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}

namespace tutti::test {
namespace {

constexpr size_t kOneSlice = 16 * 1024;  // floats: the least that is tried

// Two ranks over shared memory, which try what is quicker. False where the kernel forbids
// pulls, which then are not tried either.
bool with_two_ranks(const std::function<std::string(tutti_comm_t*, int rank)>& body) {
  std::vector<char> from(kLeastSeen), to(kLeastSeen);
  iovec local{to.data(), to.size()}, remote{from.data(), from.size()};
  if (process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) < 0) {
    WARN("skipped: needs process_vm_readv");
    return false;
  }
  MeasuredCosts costs;
  // Connected before, since the time of a call does not count until its links are there.
  auto connected = [&](tutti_comm_t* comm, int rank) -> std::string {
    return tutti_barrier(comm, nullptr) == TUTTI_SUCCESS ? body(comm, rank) : tutti_last_error(comm);
  };
  check_all(with_ranks(2, {{"transport", "shm"}, {"calibration", costs.file}, {"algorithm", "direct"}}, connected));
  return true;
}

struct Broadcast {
  tutti_comm_t* comm;
  int rank;
  std::vector<float> data;

  std::string run(int root = 0) {
    auto status = tutti_broadcast(data.data(), data.data(), data.size(), TUTTI_FLOAT32, root, comm, nullptr);
    return status == TUTTI_SUCCESS ? "" : tutti_last_error(comm);
  }
};

}  // namespace

TEST_CASE("a root's memory is pulled as long as its receiver finds that quicker") {
  constexpr int kFirstSlow = 20, kSecondTrial = 6 + 124, kCalls = kSecondTrial + 6;
  std::string pulled(kCalls, '.'), expected = pulled;
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    Broadcast call{comm, rank, std::vector<float>(kOneSlice)};
    std::string wrong;
    for (int i = 0; i < kCalls; ++i) {
      bool is_slow = i < kFirstSlow ? i != 3 && i != 4 && i < 6 : i != kSecondTrial && i < kSecondTrial + 3;
      together.arrive_and_wait();
      int before = pulls;
      if (rank == 0 && is_slow) std::this_thread::sleep_for(kLong);
      wrong += call.run();
      together.arrive_and_wait();
      if (rank == 0 && pulls > before) pulled[i] = 'p';
    }
    return wrong;
  });
  for (int i = 0; i < kCalls; ++i) {
    bool in_trial = i == 3 || i == 4 || i == kSecondTrial + 1 || i == kSecondTrial + 2;
    if (in_trial || (i >= 6 && i < kSecondTrial)) expected[i] = 'p';
  }
  if (ran) CHECK(pulled == expected);
}

TEST_CASE("a root that was ahead when its receiver's wish changed goes by it in the next call, made again") {
  std::atomic<int> pulled_late = 0, pulled_ahead = 0;
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    Broadcast call{comm, rank, std::vector<float>(kOneSlice)};
    std::string wrong;
    for (int i = 0; i < 5; ++i) {
      together.arrive_and_wait();
      if (rank == 0 && i < 3) std::this_thread::sleep_for(kLong);
      wrong += call.run();
    }
    together.arrive_and_wait();
    int before = pulls;
    if (rank != 0) together.arrive_and_wait();
    wrong += call.run();  // the end of the trial
    wrong += call.run();
    if (rank == 0) together.arrive_and_wait();
    together.arrive_and_wait();
    if (rank == 0) pulled_ahead = pulls - before;
    before = pulls;
    wrong += call.run();
    together.arrive_and_wait();
    if (rank == 0) pulled_late = pulls - before;
    return wrong;
  });
  if (!ran) return;
  CHECK(pulled_ahead == 0);
  CHECK(pulled_late > 0);
}

TEST_CASE("calls begin the way of smaller ones like them, once their receiver has said so") {
  std::string pulled(8, '.');
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    Broadcast small{comm, rank, std::vector<float>(kOneSlice)}, large{comm, rank, std::vector<float>(2 * kOneSlice)};
    std::string wrong;
    for (int i = 0; i < 8; ++i) {
      together.arrive_and_wait();
      int before = pulls;
      if (rank == 0 && (i < 3 || i == 5)) std::this_thread::sleep_for(kLong);
      wrong += i < 6 ? small.run() : large.run();
      together.arrive_and_wait();
      if (rank == 0 && pulls > before) pulled[i] = 'p';
    }
    return wrong;
  });
  if (ran) CHECK(pulled == "...pp..p");
}

TEST_CASE("what a root finds of its calls is no wish to those who receive from it") {
  std::string pulled(8, '.');
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    Broadcast call{comm, rank, std::vector<float>(64 * kOneSlice)};  // more than slots hold
    std::string wrong;
    for (int i = 0; i < 8; ++i) {
      together.arrive_and_wait();
      int before = pulls;
      if (rank == 1 && (i < 3 || i == 5)) std::this_thread::sleep_for(kLong);
      wrong += call.run(i < 6 ? 0 : 1);
      together.arrive_and_wait();
      if (rank == 0 && pulls > before) pulled[i] = 'p';
    }
    return wrong;
  });
  if (ran) CHECK(pulled == "...pp...");
}

TEST_CASE("of messages that come at once one is tried, and all go the way that was quicker") {
  constexpr int kRounds = 12;
  const int at_once = GENERATE(1, 2, 8);
  INFO(at_once << " at once");
  std::array<int, kRounds> pulled{};
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    are_pulls_slow = true;
    std::vector<std::vector<float>> data(at_once, std::vector<float>(kOneSlice));
    std::string wrong;
    for (int round = 0; round < kRounds; ++round) {
      together.arrive_and_wait();
      int before = pulls;
      std::vector<tutti_request_t*> requests;
      for (int i = 0; i < at_once; ++i) {
        if (rank == 0) fill(data[i], 0, 1, i + round);
        requests.push_back(start(comm, rank == 0 ? TUTTI_SEND : TUTTI_RECV, data[i], 1 - rank, i));
      }
      wrong += wait_all(comm, requests);
      for (int i = 0; i < at_once; ++i) wrong += compare(data[i], 0, 1, i + round);
      together.arrive_and_wait();
      if (rank == 0) pulled[round] = pulls - before;
    }
    return wrong;
  });
  are_pulls_slow = false;
  if (!ran) return;
  CHECK(std::accumulate(pulled.begin(), pulled.end(), 0) == 2);
  CHECK(pulled[kRounds - 1] == 0);
}

}  // namespace tutti::test
