#include "core/pull_trials.h"

#include <catch2/catch.hpp>

using tutti::PullTrials;
using std::chrono::nanoseconds;

namespace {

constexpr int kSome = 1000;

// Makes calls of which those that pull take `pull` ns and the others `slot`; gives how many of them pulled.
int pulled(PullTrials& trials, int64_t slot, int64_t pull, int calls = kSome) {
  int count = 0;
  for (int i = 0; i < calls; ++i) {
    bool pulls = trials.pulls();
    count += pulls ? 1 : 0;
    trials.took(nanoseconds(pulls ? pull : slot), 1);
  }
  return count;
}

}  // namespace

TEST_CASE("nearly all calls go the way that is quicker") {
  PullTrials slots, pulls;
  CHECK(pulled(slots, 100, 200) < kSome / 20);
  CHECK(pulled(pulls, 200, 100) > kSome - kSome / 20);
}

TEST_CASE("a trial may come after some calls that do not pull") {
  PullTrials trials(16);
  CHECK(pulled(trials, 200, 100, 16) == 0);
  CHECK(pulled(trials, 200, 100, 4) == 2);
  CHECK(pulled(trials, 200, 100, 100) == 100);
}

TEST_CASE("what becomes quicker is found out") {
  PullTrials trials;
  pulled(trials, 100, 200);
  pulled(trials, 200, 100);
  CHECK(pulled(trials, 200, 100) > kSome - kSome / 20);
  pulled(trials, 100, 200);
  CHECK(pulled(trials, 100, 200) < kSome / 20);
}

TEST_CASE("a call that waited long for another rank does not decide") {
  PullTrials trials;
  for (int i = 0; i < kSome; ++i) {
    bool pulls = trials.pulls();
    trials.took(nanoseconds(i % 5 == 0 ? 1'000'000 : pulls ? 100 : 200), 1);
  }
  CHECK(pulled(trials, 200, 100) > kSome - kSome / 20);
}

TEST_CASE("ranks go the same way in a trial, whatever they prefer") {
  PullTrials one, other;
  int apart = 0;
  for (int i = 0; i < kSome; ++i) {
    bool first = one.pulls(), second = other.pulls();
    apart += first != second ? 1 : 0;
    one.took(nanoseconds(first ? 100 : 200), 1);
    other.took(nanoseconds(second ? 200 : 100), 1);
  }
  // They differ outside of trials alone.
  CHECK(apart > kSome - kSome / 20);
  PullTrials a, b;
  for (int i = 0; i < 4; ++i) {
    CHECK(a.pulls() == b.pulls());
    a.took(nanoseconds(i), 1);
    b.took(nanoseconds(100 - i), 1);
  }
}

TEST_CASE("two sizes in turn do not make the way of one of them look quicker") {
  PullTrials trials;
  int pulls = 0;
  for (int i = 0; i < kSome; ++i) {
    bool pulled = trials.pulls();
    pulls += pulled ? 1 : 0;
    int64_t size = i % 2 == 0 ? 1000 : 600;
    trials.took(nanoseconds(size * (pulled ? 12 : 10)), static_cast<uint64_t>(size));
  }
  CHECK(pulls < kSome / 20);
}

TEST_CASE("who keeps what it was bound to is told when the way may change") {
  PullTrials trials;
  for (int i = 0; i < kSome; ++i) {
    bool stays = trials.stays(), now = trials.pulls();
    trials.took(nanoseconds(now ? 100 : 200), 1);
    if (stays) CHECK(trials.pulls() == now);
  }
}
