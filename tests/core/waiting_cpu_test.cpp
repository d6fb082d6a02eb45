// Ranks that wait on one processor: one of them leaves, and keeps what it may use.
#include "core/waiting_cpu.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "executor/collective.h"

namespace tutti::test {
namespace {

constexpr int kRounds = 100;  // more than anybody stays

// What the calling thread may use comes back at the end.
class Confined {
 public:
  explicit Confined(const CpuSet& to) { TUTTI_CHECK(to.use()); }
  ~Confined() { (void)before_.use(); }

 private:
  CpuSet before_ = CpuSet::of_this_thread();
};

CpuSet first_of_this_thread(int count) {
  CpuSet all = CpuSet::of_this_thread();
  CpuSet some;
  for (int i = 0; i < count; ++i) some.add(all.at(i));
  return some;
}

// Whether `mine`, of rank 0, finds itself on the processor of rank 1 and leaves it.
bool leaves(WaitingCpu& mine, WaitingCpu& other, Ranks& ranks) {
  for (int round = 0; round < kRounds; ++round) {
    (void)other.is_shared_with(0, ranks[1].peers());
    if (mine.is_shared_with(1, ranks[0].peers()) && mine.leave(ranks[0].peers())) return true;
  }
  return false;
}

bool same(const CpuSet& a, const CpuSet& b) {
  if (a.count() != b.count()) return false;
  for (int i = 0; i < a.count(); ++i) {
    if (!b.has(a.at(i))) return false;
  }
  return true;
}

TEST_CASE("a set of processors: counted, listed, and without what was removed") {
  CpuSet set;
  CHECK(set.count() == 0);
  CHECK(set.at(0) == -1);
  for (int cpu : {3, 0, 1500, kMaxCpus - 1}) set.add(cpu);
  CHECK(set.count() == 4);
  CHECK(set.at(1) == 3);
  CHECK(set.at(2) == 1500);
  CHECK(set.at(3) == kMaxCpus - 1);
  set.remove(3);
  set.remove(-1);
  CHECK_FALSE(set.has(3));
  CHECK(set.at(1) == 1500);
}

TEST_CASE("a rank that waits where another one waits goes to a processor where nobody does") {
  if (CpuSet::of_this_thread().count() < 2) {
    WARN("skipped: needs two processors");
    return;
  }
  // Both ranks are this thread: it is on their processor, whichever that is, until one of them moves.
  Confined to_two(first_of_this_thread(2));
  Ranks ranks(StreamLayout{.nranks = 2}, fabric("loopback").make);
  WaitingCpu first(0);
  WaitingCpu second(1);
  CpuSet allowed = CpuSet::of_this_thread();
  REQUIRE(leaves(first, second, ranks));
  CHECK(same(CpuSet::of_this_thread(), allowed));
  // Rank 1 was told where rank 0 is, and that is not where rank 1 said it waits.
  CHECK(ranks[1].link(0).peer_cpu() != ranks[0].link(1).peer_cpu());
  CHECK(allowed.has(ranks[1].link(0).peer_cpu()));
}

TEST_CASE("a rank stays where it is when there is no other processor") {
  Confined to_one(first_of_this_thread(1));
  Ranks ranks(StreamLayout{.nranks = 2}, fabric("loopback").make);
  WaitingCpu first(0);
  WaitingCpu second(1);
  CHECK_FALSE(leaves(first, second, ranks));
  CHECK(first.is_shared_with(1, ranks[0].peers()));
  CHECK(ranks[1].link(0).peer_cpu() == ranks[0].link(1).peer_cpu());
}

// Whether rank 0, of a host with so many, leaves the processor that it is on, of two, where of its three peers so many
// tell that they wait there, and so many on the other one.
bool evens_out(WaitingCpu& mine, Ranks& ranks, size_t of, int here, int there) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // it does not look all the time
  CpuSet two = CpuSet::of_this_thread();
  for (int round = 0; round < kRounds; ++round) {
    int cpu = ::sched_getcpu();
    int other = two.at(0) == cpu ? two.at(1) : two.at(0);
    for (int rank = 1; rank < 4; ++rank) {
      ranks[rank].link(0).tell_cpu(rank <= here ? cpu : rank <= here + there ? other : -1);
    }
    if (mine.even_out(of, ranks[0].peers())) return true;
  }
  return false;
}

TEST_CASE("a rank that waits where two more do than on another processor goes there, once all tell where they wait") {
  if (CpuSet::of_this_thread().count() < 2) {
    WARN("skipped: needs two processors");
    return;
  }
  Confined to_two(first_of_this_thread(2));
  Ranks ranks(StreamLayout{.nranks = 4}, fabric("loopback").make);
  WaitingCpu mine(0, [] { return 4; });
  CpuSet allowed = CpuSet::of_this_thread();
  CHECK_FALSE(evens_out(mine, ranks, 4, 1, 2));
  CHECK_FALSE(evens_out(mine, ranks, 4, 0, 3));
  CHECK_FALSE(evens_out(mine, ranks, 3, 1, 1));  // one more than there, but one more there would be no better
  CHECK_FALSE(evens_out(mine, ranks, 4, 2, 0));  // one may be anywhere
  auto begin = Clock::now();
  REQUIRE(evens_out(mine, ranks, 4, 2, 1));
  CHECK(same(CpuSet::of_this_thread(), allowed));
  // All were told where it went, and that is not where the two wait.
  for (int rank = 1; rank < 4; ++rank) {
    CHECK(ranks[rank].link(0).peer_cpu() != ranks[0].link(1).peer_cpu());
    CHECK(ranks[rank].link(0).peer_cpu() == ranks[0].link(3).peer_cpu());
  }
  bool moves_again = evens_out(mine, ranks, 4, 3, 0);
  if (Clock::now() - begin < std::chrono::milliseconds(10)) CHECK_FALSE(moves_again);
}

TEST_CASE("a rank stays where more do than elsewhere while other programs want processors, too") {
  if (CpuSet::of_this_thread().count() < 2) {
    WARN("skipped: needs two processors");
    return;
  }
  Confined to_two(first_of_this_thread(2));
  Ranks ranks(StreamLayout{.nranks = 4}, fabric("loopback").make);
  static int asked;
  for (int runnable : {5, -1}) {  // -1: the kernel does not say
    static int answer;
    answer = runnable;
    asked = 0;
    WaitingCpu mine(0, [] { return ++asked, answer; });
    CHECK_FALSE(evens_out(mine, ranks, 4, 2, 1));
    CHECK(asked > 0);
  }
}

TEST_CASE("threads that want a processor are counted") {
  int runnable = runnable_threads();
  if (runnable <= 0) {
    WARN("skipped: needs a /proc/loadavg that tells how many threads can run");
    return;
  }
  std::atomic<bool> stops = false;
  std::thread busy([&] { while (!stops) std::this_thread::yield(); });
  int most = 0;
  for (int i = 0; i < 1000 && most < 2; ++i) most = std::max(most, runnable_threads());
  stops = true;
  busy.join();
  CHECK(most >= 2);
}

TEST_CASE("a peer that comes later is told, too") {
  Confined to_one(first_of_this_thread(1));
  Ranks ranks(StreamLayout{.nranks = 2}, fabric("loopback").make);
  WaitingCpu mine(0);
  (void)mine.is_shared_with(1, ranks[0].peers());
  ranks[0].link(1).tell_cpu(-1);
  (void)mine.is_shared_with(1, ranks[0].peers());
  CHECK(ranks[1].link(0).peer_cpu() == -1);
  mine.tell_again();
  (void)mine.is_shared_with(1, ranks[0].peers());
  CHECK(ranks[1].link(0).peer_cpu() == CpuSet::of_this_thread().at(0));
}

}  // namespace
}  // namespace tutti::test
