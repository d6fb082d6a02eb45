#include "core/pull_trials.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

using tutti::DataWay;
using tutti::PullTrials;
using std::chrono::nanoseconds;

namespace {

constexpr int kSome = 4000;
constexpr uint64_t kSmall = 1 << 20, kLarge = 64 << 20;
// Of very large calls: those before the first trial, of one and of each way in it, and from one to the next.
constexpr int kBeforeTrial = 2, kOfWay = 3, kOfTrial = 2 * kOfWay, kPeriod = 512 + kOfTrial;
constexpr int kOfSmallWay = 6, kOfFirstSlots = 8, kOfLargeAfterSmaller = 32;  // of 1 MiB, twice; of very large ones

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
  PullTrials slots(kLarge), pulls(kLarge);
  CHECK(pulled(slots, 100, 200) < kSome / 20);
  CHECK(pulled(pulls, 200, 100) > kSome - kSome / 20);
}

TEST_CASE("a trial takes calls in a row of the one way and then of the other one; the first ones do not count") {
  PullTrials trials(kSmall);
  std::string went;
  for (int i = 0; i < 40; ++i) {
    went += trials.pulls() ? 'p' : 's';
    bool was_before_slots = i > 0 && went[i] == 's' && (i < 2 + 4);  // the first trial goes through all slots
    bool was_before_pulls = went[i] == 'p' && i < 2 + kOfFirstSlots + 2;
    trials.took(nanoseconds(was_before_slots ? 1 : went[i] == 's' ? 100 : was_before_pulls ? 1000 : 90), 1);
  }
  CHECK(went == "ss" + std::string(kOfFirstSlots, 's') + std::string(30, 'p'));
}

TEST_CASE("the first trial comes after some calls that do not pull") {
  PullTrials trials(kLarge);
  CHECK(pulled(trials, 200, 100, kBeforeTrial) == 0);
  CHECK(pulled(trials, 200, 100, kOfTrial) == kOfWay);
  CHECK(pulled(trials, 200, 100, 100) == 100);
}

TEST_CASE("what becomes quicker is found out within some trials") {
  PullTrials trials(kLarge);
  pulled(trials, 100, 200);
  CHECK(pulled(trials, 200, 100, 4 * kPeriod) > kPeriod / 2);
  CHECK(pulled(trials, 200, 100) > kSome - kSome / 20);
  CHECK(pulled(trials, 100, 200, 4 * kPeriod) < 3 * kPeriod + kPeriod / 2);
  CHECK(pulled(trials, 100, 200) < kSome / 20);
}

TEST_CASE("calls that waited long for another rank do not decide") {
  for (bool pull_is_quicker : {false, true}) {
    for (int phase = 0; phase < 5; ++phase) {
      INFO(pull_is_quicker << ", late from " << phase);
      PullTrials trials(kSmall);
      auto make = [&](int calls) {
        int count = 0;
        for (int i = 0; i < calls; ++i) {
          bool pulls = trials.pulls();
          count += pulls ? 1 : 0;
          trials.took(nanoseconds(i % 5 == phase ? 1'000'000 : pulls == pull_is_quicker ? 100 : 200), 1);
        }
        return count;
      };
      make(8 * kPeriod);
      int count = make(kSome);
      CHECK((pull_is_quicker ? kSome - count : count) < kSome / 20);
    }
  }
}

TEST_CASE("a first call that takes long does not decide, where a trial comes soon") {
  PullTrials trials(kSmall);
  trials.took(nanoseconds(100'000), 1);
  CHECK(pulled(trials, 100, 200, kPeriod) == kOfSmallWay);
}

TEST_CASE("neither way gains by how many of its calls are known, where single calls are quicker or slower by chance") {
  constexpr int kPrograms = 20;
  auto share_pulled = [](double pull_ns) {
    double count = 0;
    for (unsigned seed = 0; seed < kPrograms; ++seed) {
      std::mt19937 random(seed);
      std::uniform_real_distribution<double> spread(0.5, 1.5);
      PullTrials trials(kLarge);
      for (int i = 0; i < 20 * kPeriod; ++i) {
        bool pulls = trials.pulls();
        count += pulls ? 1 : 0;
        trials.took(nanoseconds(static_cast<int64_t>(spread(random) * (pulls ? pull_ns : 100'000))), 1);
      }
    }
    return count / (20.0 * kPeriod * kPrograms);
  };
  CHECK(share_pulled(70'000) > 0.85);
  CHECK(share_pulled(143'000) < 0.15);
}

TEST_CASE("the way changes where that gains more than a few percents") {
  PullTrials hardly(kLarge), enough(kLarge);
  CHECK(pulled(hardly, 100, 97) < kSome / 20);
  CHECK(pulled(enough, 100, 90) > kSome - kSome / 20);
}

TEST_CASE("where all slots of a trial are late, pulls are not preferred to what slots took before it") {
  PullTrials trials(kLarge);
  pulled(trials, 100, 300, kBeforeTrial);
  pulled(trials, 1'000'000, 300, kOfTrial);
  CHECK(pulled(trials, 100, 300, kPeriod - kOfTrial) == 0);
}

TEST_CASE("pulls that are preferred stay so where those of a trial are late") {
  PullTrials trials(kLarge);
  pulled(trials, 300, 100, kBeforeTrial + kPeriod);
  pulled(trials, 300, 1'000'000, kOfTrial);
  CHECK(pulled(trials, 300, 100, kPeriod - kOfTrial) == kPeriod - kOfTrial);
}

TEST_CASE("what the other way took when it was tried before does not count") {
  PullTrials trials(kLarge);
  CHECK(pulled(trials, 70, 80, kBeforeTrial + kOfTrial) == kOfWay);
  CHECK(pulled(trials, 300, 400, kPeriod) == kOfWay);
  CHECK(pulled(trials, 300, 400, kOfWay) == 0);
}

TEST_CASE("trials of calls that are not large begin soon, and become rare") {
  auto begun = [](uint64_t size_bytes, int calls) {
    PullTrials trials(size_bytes);
    std::vector<int> first;
    for (bool before = false; calls > 0; --calls) {
      if (trials.in_trial() && !before) first.push_back(calls);
      before = trials.in_trial();
      trials.took(nanoseconds(trials.pulls() ? 200 : 100), 1);
    }
    std::vector<int> apart;
    for (size_t i = 1; i < first.size(); ++i) apart.push_back(first[i - 1] - first[i]);
    return apart;
  };
  constexpr int kFirst = kOfFirstSlots + kOfSmallWay, kOther = 2 * kOfSmallWay;
  CHECK(begun(kSmall, 6'000) == std::vector{kFirst + 512, kOther + 1024, kOther + 2048, kOther + 2048});
  CHECK(begun(kLarge, 2'000) == std::vector{kPeriod, kPeriod, kPeriod});
  CHECK(begun(tutti::kLeastTried, 200'000).back() == kOther + 16 * 1024);
}

TEST_CASE("a way that is quick or slow only at first is taken for what it is in many calls") {
  // Slots that have left the receiver's caches, or that no call has touched yet.
  for (int64_t first_ns : {10, 2'000}) {
    for (int64_t others_ns : {40, 400}) {
      INFO("slots: at first " << first_ns << ", then " << others_ns);
      PullTrials trials(kSmall, DataWay::kPulled);
      int slots = 0, in_a_row = 0;
      for (int i = 0; i < 10 * kSome; ++i) {
        bool pulls = trials.pulls(), stays = trials.stays();
        slots += pulls ? 0 : 1;
        in_a_row = pulls ? 0 : in_a_row + 1;
        trials.took(nanoseconds(pulls ? 80 : in_a_row <= 2 ? first_ns : others_ns), 1);
        if (stays) CHECK(trials.pulls() == pulls);
      }
      CHECK((others_ns < 80 ? 10 * kSome - slots : slots) < kSome / 10);
    }
  }
}

TEST_CASE("calls begin the way that smaller ones like them go") {
  PullTrials smaller(kSmall);
  pulled(smaller, 200, 100);
  PullTrials larger(kLarge, smaller);
  CHECK(pulled(larger, 200, 100, kOfLargeAfterSmaller) == kOfLargeAfterSmaller);
  CHECK(pulled(larger, 200, 100, kOfTrial) == kOfWay);
  CHECK(pulled(larger, 100, 200) < kSome / 2);
  CHECK(pulled(larger, 100, 200) < kSome / 20);
  PullTrials even_larger(2 * kLarge, PullTrials(kLarge, smaller));
  CHECK(pulled(even_larger, 200, 100, kOfLargeAfterSmaller) == kOfLargeAfterSmaller);
  // If these were not tried, others may not wait for long.
  PullTrials untried(kSmall, DataWay::kPulled);
  PullTrials after_untried(kLarge, untried);
  CHECK(pulled(after_untried, 200, 100, kBeforeTrial) == kBeforeTrial);
  CHECK(pulled(after_untried, 200, 100, kOfTrial) == kOfWay);
}

TEST_CASE("where there are three ways all are tried one after the other, and nearly all calls go the quickest") {
  std::string letters = "spb";
  for (size_t quickest : {0u, 1u, 2u}) {
    PullTrials trials(kSmall, DataWay::kSlots, DataWay::kHalves);
    std::string went;
    for (int i = 0; i < kSome; ++i) {
      auto way = static_cast<size_t>(trials.way());
      CHECK(trials.pulls() == (way != 0));
      went += letters[way];
      trials.took(nanoseconds(way == quickest ? 100 : 120), 1);
    }
    INFO(went.substr(0, 40));
    std::string first = "ss" + std::string(kOfFirstSlots, 's') + "pppppp" + "bbbbbb";
    CHECK(went.substr(0, first.size()) == first);
    CHECK(std::count(went.begin(), went.end(), letters[quickest]) > kSome - kSome / 20);
    CHECK(static_cast<size_t>(trials.preferred()) == quickest);
    CHECK(static_cast<size_t>(PullTrials(kLarge, trials).way()) == quickest);
  }
}

TEST_CASE("of three ways the quickest is taken where one of them showed nothing, and what becomes quicker later") {
  PullTrials trials(kLarge, DataWay::kSlots, DataWay::kHalves);
  auto make = [&](std::array<int64_t, 3> ns, int calls) {
    for (int i = 0; i < calls; ++i) {
      int64_t took = ns[static_cast<size_t>(trials.way())];
      took == 0 ? trials.showed_nothing() : trials.took(nanoseconds(took), 1);
    }
  };
  make({300, 0, 200}, kPeriod);
  CHECK(trials.preferred() == DataWay::kHalves);
  make({300, 100, 200}, 2 * kPeriod);
  CHECK(trials.preferred() == DataWay::kPulled);
  make({100, 300, 300}, 4 * kPeriod);
  CHECK(trials.preferred() == DataWay::kSlots);
}

TEST_CASE("calls for which both ways are the same decide nothing") {
  PullTrials trials(kLarge);
  pulled(trials, 200, 100, kBeforeTrial);
  for (int i = 0; i < kOfTrial; ++i) trials.showed_nothing();
  CHECK_FALSE(trials.pulls());
  CHECK(trials.stays());  // they were counted
  pulled(trials, 200, 100, kPeriod);
  CHECK(trials.pulls());
  // Where one way is not known, the other one is not preferred to it.
  PullTrials half(kLarge);
  for (int i = 0; i < kBeforeTrial + kOfTrial; ++i) {
    half.pulls() ? half.took(nanoseconds(50), 1) : half.showed_nothing();
  }
  CHECK_FALSE(half.pulls());
  // As a program does that makes five calls on shared memory after five on private memory.
  int private_pulls = 0;
  PullTrials mixed(kLarge);
  for (int i = 0; i < kSome; ++i) {
    if (i / 5 % 2 == 1) {
      mixed.showed_nothing();
      continue;
    }
    bool pulls = mixed.pulls();
    private_pulls += pulls ? 1 : 0;
    mixed.took(nanoseconds(pulls ? 300 : 100), 1);
  }
  CHECK(private_pulls < kSome / 20);
}

TEST_CASE("ranks go the same way in a trial, whatever they prefer") {
  PullTrials one(kLarge), other(kLarge);
  int apart = 0;
  for (int i = 0; i < kSome; ++i) {
    bool first = one.pulls(), second = other.pulls();
    apart += first != second ? 1 : 0;
    one.took(nanoseconds(first ? 100 : 200), 1);
    other.took(nanoseconds(second ? 200 : 100), 1);
  }
  // They differ outside of trials alone.
  CHECK(apart > kSome - kSome / 20);
  PullTrials a(kLarge), b(kLarge);
  for (int i = 0; i < kBeforeTrial + kOfTrial; ++i) {
    CHECK(a.pulls() == b.pulls());
    a.took(nanoseconds(i), 1);
    b.took(nanoseconds(100 - i), 1);
  }
}

TEST_CASE("two sizes in turn do not make the way of one of them look quicker") {
  PullTrials trials(kLarge);
  int pulls = 0;
  for (int i = 0; i < kSome; ++i) {
    bool pulled = trials.pulls();
    pulls += pulled ? 1 : 0;
    int64_t size = i % 2 == 0 ? 1000 : 600;
    trials.took(nanoseconds(size * (pulled ? 12 : 10)), static_cast<uint64_t>(size));
  }
  CHECK(pulls < kSome / 20);
}

TEST_CASE("nor do three unlike calls in turn") {
  for (int phase = 0; phase < 3; ++phase) {
    for (uint64_t size_class : {kSmall, kLarge}) {
      PullTrials trials(size_class);
      int pulls = 0;
      for (int i = 0; i < kSome; ++i) {
        pulls += trials.pulls() ? 1 : 0;
        trials.took(nanoseconds((i + phase) % 3 == 0 ? 100 : 300), 1);
      }
      CHECK(pulls < kSome / 20);
    }
  }
}

TEST_CASE("a single call of a way decides nothing, where the others showed nothing") {
  PullTrials trials(kLarge);
  int pulls = 0;
  for (int i = 0; i < kSome; ++i) {
    pulls += trials.pulls() ? 1 : 0;
    i % 4 == 3 ? trials.took(nanoseconds(trials.pulls() ? 50 : 100), 1) : trials.showed_nothing();
  }
  CHECK(pulls < kSome / 20);
}

TEST_CASE("who keeps what it was bound to is told when the way may change") {
  PullTrials trials(kLarge);
  for (int i = 0; i < kSome; ++i) {
    bool stays = trials.stays(), now = trials.pulls();
    trials.took(nanoseconds(now ? 100 : 200), 1);
    if (stays) CHECK(trials.pulls() == now);
  }
}

TEST_CASE("calls have a wish by what they are and how large, from 64 KiB to 2 GiB; barriers none") {
  std::set<int> wishes;
  size_t expected = 0;
  for (auto collective : {TUTTI_ALL_REDUCE, TUTTI_REDUCE, TUTTI_BROADCAST, TUTTI_ALL_GATHER, TUTTI_REDUCE_SCATTER,
                          TUTTI_ALL_TO_ALL, TUTTI_GATHER, TUTTI_SCATTER}) {
    for (uint64_t size = tutti::kLeastTried; size <= uint64_t{2} << 30; size *= 2, ++expected) {
      int wish = tutti::wish_of(collective, size);
      CHECK((wish >= 0 && wish < tutti::StreamLayout::kWishes));
      wishes.insert(wish);
    }
    CHECK(tutti::wish_of(collective, uint64_t{1} << 40) == tutti::wish_of(collective, uint64_t{2} << 30));
  }
  CHECK(wishes.size() == expected);
  CHECK(tutti::wish_of(TUTTI_GATHER_V, 1 << 20) == tutti::wish_of(TUTTI_GATHER, 1 << 20));
  CHECK(tutti::wish_of(TUTTI_BARRIER, 1 << 20) == tutti::kNoWish);
}

TEST_CASE("calls of one wish share their trials, and begin the way of smaller ones of their kind") {
  tutti::TrialsByWish all;
  const int small = tutti::wish_of(TUTTI_REDUCE, kSmall), large = tutti::wish_of(TUTTI_REDUCE, kLarge);
  PullTrials& trials = all.of(small, kSmall);
  CHECK(&all.of(small, kSmall) == &trials);
  pulled(trials, 200, 100);
  CHECK(all.of(large, kLarge).prefers_pulls());
  CHECK(all.of(small, kSmall).prefers_pulls());
  CHECK_FALSE(all.of(tutti::wish_of(TUTTI_BROADCAST, tutti::kLeastTried), tutti::kLeastTried).prefers_pulls());
  CHECK_FALSE(all.of(tutti::wish_of(TUTTI_REDUCE, tutti::kLeastTried), tutti::kLeastTried).prefers_pulls());
}
