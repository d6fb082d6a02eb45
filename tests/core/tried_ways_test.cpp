// Which calls and messages pull ordinary memory, and which do not: seen where the kernel is asked to. What is to look
// slow is made so, by far.
#include <catch2/catch.hpp>

#include <sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/measured_costs.h"
#include "core/messages.h"

namespace {

constexpr size_t kLeastSeen = 32 * 1024;  // links read less when they are made
constexpr auto kLong = std::chrono::milliseconds(20);
std::atomic<int> pulls = 0;
thread_local int own_pulls = 0;
std::atomic<bool> are_pulls_slow = false;
thread_local bool are_own_pulls_slow = false;
std::atomic<int> pushes = 0;
std::atomic<bool> are_pushes_slow = false;
std::atomic<bool> are_pushes_refused = false;
std::atomic<bool> is_given_back = false;  // memory that is pushed into
std::atomic<int> late_pushes = 0;

}  // namespace

// In place of the C library's.
extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                                    unsigned long remote_count, unsigned long flags) {
  if (local->iov_len >= kLeastSeen) {
    ++pulls;
    ++own_pulls;
    if (are_pulls_slow || are_own_pulls_slow) std::this_thread::sleep_for(kLong);
  }
  return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}

extern "C" ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long local_count, const iovec* remote,
                                     unsigned long remote_count, unsigned long flags) {
  if (local_count > 0 && local->iov_len >= kLeastSeen) {
    ++pushes;
    if (are_pushes_slow) std::this_thread::sleep_for(kLong);
    if (is_given_back) ++late_pushes;
    if (are_pushes_refused) {
      errno = EFAULT;
      return -1;
    }
  }
  return syscall(SYS_process_vm_writev, pid, local, local_count, remote, remote_count, flags);
}

namespace tutti::test {
namespace {

constexpr size_t kOneSlice = 16 * 1024;  // floats: the least collective that is tried, and what fits into a slot

// The first trial of calls of such a size, from the third call on: many through slots, of which the last four count,
// and some that pull, of which all but the first two do. Further trials take as many of each way.
struct Trial {
  int slots, pulls = 6, begin = 2;
  constexpr int end() const { return begin + slots + pulls; }
  constexpr bool has(int call) const { return call >= begin && call < end(); }
  constexpr bool pulls_in(int call) const { return has(call) && call >= begin + slots; }
  constexpr bool counts(int call) const {
    return has(call) && (pulls_in(call) ? call >= end() - 4 : call >= begin + slots - 4);
  }
};
constexpr Trial kOfSlices{.slots = 68}, kOfTwoSlices{.slots = 36};

// Where the sender has a processor of its own, as many messages of a trial follow of which it pushes a half.
bool are_halves_tried() {
  cpu_set_t cpus;
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= 2;
}
int end_of_messages(const Trial& trial) { return trial.end() + (are_halves_tried() ? trial.pulls : 0); }

// Two ranks over shared memory, which try what is quicker. False where the kernel forbids
// pulls, which then are not tried either.
bool with_two_ranks(const std::function<std::string(tutti_comm_t*, int rank)>& body,
                    const MeasuredCosts& costs = MeasuredCosts()) {
  char from = 0, to = 0;  // too little to be seen
  iovec local{&to, 1}, remote{&from, 1};
  if (process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) < 0 ||
      process_vm_writev(::getpid(), &local, 1, &remote, 1, 0) < 0) {
    WARN("skipped: needs process_vm_readv and process_vm_writev");
    return false;
  }
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
  constexpr Trial kFirst = kOfSlices, kSecond{.slots = 6, .begin = kFirst.end() + 512};
  constexpr int kCalls = kSecond.end() + 6;
  std::string pulled(kCalls, '.'), expected = pulled;
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    Broadcast call{comm, rank, std::vector<float>(kOneSlice)};
    std::string wrong;
    for (int i = 0; i < kCalls; ++i) {
      bool are_slots_slow = i < kFirst.begin || (kFirst.counts(i) && !kFirst.pulls_in(i));
      bool are_late_pulls = (i >= kSecond.begin - 8 && i < kSecond.begin) || kSecond.pulls_in(i);
      together.arrive_and_wait();
      int before = pulls;
      if (rank == 0 && (are_slots_slow || are_late_pulls)) std::this_thread::sleep_for(kLong);
      wrong += call.run();
      together.arrive_and_wait();
      if (rank == 0 && pulls > before) pulled[i] = 'p';
    }
    return wrong;
  });
  for (int i = 0; i < kCalls; ++i) {
    bool is_between = i >= kFirst.end() && i < kSecond.begin;
    if (kFirst.pulls_in(i) || is_between || kSecond.pulls_in(i)) expected[i] = 'p';
  }
  if (ran) CHECK(pulled == expected);
}

TEST_CASE("where calibration found slots quicker collectives pull nothing, however slow these are, and messages do") {
  constexpr int kCalls = 600, kMessages = kOfTwoSlices.end();
  std::array<int, 2> of_calls{}, of_messages{};
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    Broadcast call{comm, rank, std::vector<float>(kOneSlice)};
    std::string wrong;
    for (int i = 0; i < kCalls; ++i) {
      if (rank == 0 && i % 8 == 0) std::this_thread::sleep_for(kLong);
      wrong += call.run();
    }
    of_calls[rank] = own_pulls;
    std::vector<float> message(2 * kOneSlice);
    for (int i = 0; i < kMessages; ++i) {
      std::vector requests{start(comm, rank == 0 ? TUTTI_SEND : TUTTI_RECV, message, 1 - rank, 0)};
      wrong += wait_all(comm, requests);
    }
    of_messages[rank] = own_pulls - of_calls[rank];
    return wrong;
  }, MeasuredCosts(1'000'000'000));
  if (!ran) return;
  CHECK(of_calls == std::array{0, 0});
  CHECK(of_messages[0] + of_messages[1] > 0);
}

TEST_CASE("calls begin the way of smaller ones like them, once their receiver has said so") {
  const bool is_ahead = GENERATE(false, true);
  INFO("the root is " << (is_ahead ? "" : "not ") << "ahead by a call when it is told");
  std::string pulled;
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    Broadcast small{comm, rank, std::vector<float>(kOneSlice)}, large{comm, rank, std::vector<float>(2 * kOneSlice)};
    std::string wrong;
    for (int i = 0; i < kOfSlices.end(); ++i) {
      together.arrive_and_wait();
      bool is_slow = i < kOfSlices.begin || (kOfSlices.counts(i) && !kOfSlices.pulls_in(i));
      if (rank == 0 && is_slow) std::this_thread::sleep_for(kLong);
      wrong += small.run();
    }
    int before = 0;
    auto note = [&] {
      together.arrive_and_wait();
      if (rank == 0) pulled += pulls > before ? 'p' : '.';
      before = pulls;
      together.arrive_and_wait();
    };
    together.arrive_and_wait();
    before = pulls;
    // Nobody waits for a receiver of what slots hold.
    if (is_ahead && rank != 0) together.arrive_and_wait();
    wrong += large.run();
    if (!is_ahead) note();
    if (is_ahead) wrong += large.run();
    if (is_ahead && rank == 0) together.arrive_and_wait();
    if (is_ahead) note();
    for (int i = 0; i < 2; ++i) {
      wrong += large.run();
      note();
    }
    return wrong;
  });
  if (ran) CHECK(pulled == ".pp");
}

TEST_CASE("what a root finds of its calls is no wish to those who receive from it") {
  constexpr Trial kLarge{.slots = 6};
  constexpr int kCalls = kLarge.end() + 2;
  std::string pulled(kCalls, '.'), expected = pulled;
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    Broadcast call{comm, rank, std::vector<float>(64 * kOneSlice)};  // more than slots hold
    std::string wrong;
    for (int i = 0; i < kCalls; ++i) {
      together.arrive_and_wait();
      int before = pulls;
      if (rank == 1 && !kLarge.pulls_in(i)) std::this_thread::sleep_for(kLong);
      wrong += call.run(i < kLarge.end() ? 0 : 1);
      together.arrive_and_wait();
      if (rank == 0 && pulls > before) pulled[i] = 'p';
    }
    return wrong;
  });
  for (int i = 0; i < kCalls; ++i) {
    if (kLarge.pulls_in(i)) expected[i] = 'p';
  }
  if (ran) CHECK(pulled == expected);
}

TEST_CASE("where all ranks receive, each has it come the way that is quicker for it") {
  std::array<int, 2> pulled{};
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    std::vector<float> mine(kOneSlice, static_cast<float>(rank)), all(2 * kOneSlice);
    std::string wrong;
    for (int i = 0; i < kOfTwoSlices.end() + 10; ++i) {
      together.arrive_and_wait();
      bool counts = i < kOfTwoSlices.begin || kOfTwoSlices.counts(i);
      // Rank 0 waits for what comes through slots, and less long for rank 1's pulls.
      if (rank == 1 && counts && !kOfTwoSlices.pulls_in(i)) std::this_thread::sleep_for(2 * kLong);
      are_own_pulls_slow = rank == 1 && counts;
      own_pulls = i < kOfTwoSlices.end() + 2 ? 0 : own_pulls;  // a wish may be seen a call later
      if (tutti_all_gather(mine.data(), all.data(), kOneSlice, TUTTI_FLOAT32, comm, nullptr) != TUTTI_SUCCESS) {
        return std::string(tutti_last_error(comm));
      }
      for (size_t at = 0; at < all.size(); at += 1000) {
        if (all[at] != static_cast<float>(at / kOneSlice)) wrong = "wrong data";
      }
    }
    are_own_pulls_slow = false;
    pulled[static_cast<size_t>(rank)] = own_pulls;
    return wrong;
  });
  if (ran) CHECK(pulled == std::array{9, 0});
}

TEST_CASE("what is to be combined is tried, too") {
  std::array<int, 2> pulled{};
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    std::vector<float> mine(kOneSlice, 1), sum(kOneSlice / 2);
    for (int i = 0; i < kOfSlices.end(); ++i) {
      own_pulls = i == 0 ? 0 : own_pulls;
      auto status = tutti_reduce_scatter(mine.data(), sum.data(), sum.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
      if (status != TUTTI_SUCCESS) return std::string(tutti_last_error(comm));
      if (sum != std::vector<float>(sum.size(), 2)) return std::string("wrong data");
    }
    pulled[static_cast<size_t>(rank)] = own_pulls;
    return std::string();
  });
  if (ran) CHECK(pulled == std::array{kOfSlices.pulls, kOfSlices.pulls});
}

TEST_CASE("of messages that come at once one is tried, and all go the way that was quicker") {
  const int rounds = end_of_messages(kOfTwoSlices) + 4;
  const int at_once = GENERATE(1, 2, 8);
  INFO(at_once << " at once");
  std::vector<int> pulled(rounds);
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    are_pulls_slow = true;
    std::vector<std::vector<float>> data(at_once, std::vector<float>(2 * kOneSlice));
    std::string wrong;
    for (int round = 0; round < rounds; ++round) {
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
  // Some of those at once may come alone.
  int all = std::accumulate(pulled.begin(), pulled.end(), 0);
  int tried = end_of_messages(kOfTwoSlices) - kOfTwoSlices.begin - kOfTwoSlices.slots;
  CHECK(all >= tried);
  CHECK(all <= (at_once == 1 ? 1 : 2) * tried);
  CHECK(pulled.back() == 0);
}

TEST_CASE("the sender of a message pushes a half of it while that is tried, and no more where that takes longer") {
  if (!are_halves_tried()) {
    WARN("skipped: needs two processors");
    return;
  }
  const int rounds = end_of_messages(kOfTwoSlices) + 4;
  std::string pushed(rounds, '.'), expected = pushed;
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    are_pushes_slow = true;
    std::vector<float> data(2 * kOneSlice);
    std::string wrong;
    for (int round = 0; round < rounds; ++round) {
      if (rank == 0) fill(data, 0, 1, round);
      together.arrive_and_wait();
      int before = pushes;
      wrong += rank == 0 ? send(comm, data, 1, round) : receive(comm, data, 0, round);
      wrong += compare(data, 0, 1, round);
      together.arrive_and_wait();
      if (rank == 0 && pushes > before) pushed[round] = 'p';
    }
    return wrong;
  });
  are_pushes_slow = false;
  for (int i = kOfTwoSlices.end(); i < end_of_messages(kOfTwoSlices); ++i) expected[i] = 'p';
  if (ran) CHECK(pushed == expected);
}

TEST_CASE("what a sender cannot push its receiver pulls") {
  if (!are_halves_tried()) {
    WARN("skipped: needs two processors");
    return;
  }
  const int rounds = end_of_messages(kOfTwoSlices) + 4, before = pushes;
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    are_pushes_refused = true;
    std::vector<float> data(2 * kOneSlice);
    std::string wrong;
    for (int round = 0; round < rounds; ++round) {
      if (rank == 0) fill(data, 0, 1, round);
      wrong += rank == 0 ? send(comm, data, 1, round) : receive(comm, data, 0, round);
      wrong += compare(data, 0, 1, round);
    }
    return wrong;
  });
  are_pushes_refused = false;
  if (ran) CHECK(pushes >= before + kOfTwoSlices.pulls);
}

TEST_CASE("memory that a sender pushes into is its receiver's again only when the sender is out of it") {
  if (!are_halves_tried()) {
    WARN("skipped: needs two processors");
    return;
  }
  late_pushes = 0;
  const int before_pushes = pushes;
  std::barrier together(2);
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    std::vector<float> data(2 * kOneSlice);
    std::string wrong;
    for (int round = 0; round < kOfTwoSlices.end(); ++round) {
      together.arrive_and_wait();
      wrong += rank == 0 ? send(comm, data, 1, round) : receive(comm, data, 0, round);
    }
    are_pushes_slow = true;
    together.arrive_and_wait();
    auto* request = start(comm, rank == 0 ? TUTTI_SEND : TUTTI_RECV, data, 1 - rank, 0);
    if (rank == 1) {
      auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (pushes == before_pushes && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      tutti_comm_abort(comm);
    }
    if (tutti_wait(&request) != TUTTI_ABORTED) wrong += "the message was not given up; ";
    if (rank == 1) is_given_back = true;
    together.arrive_and_wait();
    std::this_thread::sleep_for(2 * kLong);
    return wrong;
  });
  are_pushes_slow = false;
  is_given_back = false;
  if (!ran) return;
  CHECK(pushes == before_pushes + 1);
  CHECK(late_pushes == 0);
}

TEST_CASE("a message that fits into a slot is sent without asking who receives it, and not pulled") {
  std::array<int, 2> pulled{};
  bool ran = with_two_ranks([&](tutti_comm_t* comm, int rank) {
    std::vector<float> data(kOneSlice);
    std::string wrong;
    int before = own_pulls;
    for (int i = 0; i < kOfSlices.end() && wrong.empty(); ++i) {
      if (rank == 0) fill(data, 0, 1, i);
      // A send that waited for its receiver would not return before the barrier.
      if (rank == 0) wrong += send(comm, data, 1, i);
      if (tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
      if (rank == 0) continue;
      wrong += receive(comm, data, 0, i);
      wrong += compare(data, 0, 1, i);
    }
    pulled[rank] = own_pulls - before;
    return wrong;
  });
  if (ran) CHECK(pulled == std::array{0, 0});
}

}  // namespace tutti::test
