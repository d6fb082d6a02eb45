#include "core/turn_lock.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace tutti::test {
namespace {

const auto kAskNothing = [] {};

void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("one thread at a time has the turn, and no one who waits for it is forgotten") {
  constexpr int kThreads = 4, kTimes = 20'000;
  TurnLock turn;
  int taken = 0, wanted = 0;  // guarded by the turn
  on_threads(kThreads, [&](int thread) {
    for (int i = 0; i < kTimes; ++i) {
      if ((i + thread) % 3 == 0 && turn.try_lock()) {
        // Has it at once.
      } else if ((i + thread) % 3 != 1 || !turn.drive(kAskNothing)) {
        turn.lock(kAskNothing);
      }
      ++taken;
      while (taken == 1 && !turn.is_wanted()) std::this_thread::yield();  // another one waits by then
      wanted += turn.is_wanted() ? 1 : 0;
      if (i % 64 == 0) std::this_thread::yield();
      turn.unlock();
    }
  });
  CHECK(taken == kThreads * kTimes);
  CHECK(wanted > 0);
  CHECK_FALSE(turn.is_wanted());
  CHECK(turn.try_lock());
}

TEST_CASE("a thread that would drive waits for who has the turn, but not for another driver") {
  TurnLock turn;
  REQUIRE(turn.try_lock());
  std::atomic<int> asked{0}, drivers{0}, refused{0};
  std::atomic<bool> may_end{false};
  std::thread holder([&] {
    while (asked < 3) std::this_thread::yield();
    turn.unlock();
  });
  on_threads(3, [&](int) {
    if (!turn.drive([&] { ++asked; })) {
      if (++refused == 2) may_end = true;
      return;
    }
    ++drivers;
    while (!may_end) std::this_thread::yield();
    CHECK(turn.is_driven());
    turn.unlock();
  });
  holder.join();
  CHECK(drivers == 1);
  CHECK(refused == 2);
  CHECK_FALSE(turn.is_driven());
  CHECK(turn.drive(kAskNothing));
}

}  // namespace tutti::test
