// When a sleep looks once more.
#include <catch2/catch.hpp>

#include "transports/transport.h"

namespace tutti {
namespace {

constexpr int kForEver = -1;

struct Looks {
  bool operator()() const {
    ++number;
    return finds;
  }

  bool finds;
  mutable int number = 0;
};

TEST_CASE("a sleep looks once more where other processes signal, whose fence has a gap") {
  WaitSet waits;
  waits.need_fence(Signallers::kProcesses);
  Looks finding{true}, in_vain{false};
  CHECK(waits.sleep(kForEver, finding));
  CHECK(finding.number == 1);
  CHECK(!waits.sleep(3, in_vain));
  CHECK(in_vain.number == 1);
}

TEST_CASE("a sleep does not look where threads of the process signal, nor where nobody does without a fence") {
  WaitSet waits;
  Looks looks{true};
  CHECK(!waits.sleep(3, looks));
  waits.need_fence(Signallers::kThreads);
  CHECK(!waits.sleep(3, looks));
  CHECK(looks.number == 0);
}

TEST_CASE("a sleep ends at its timer, with a look and without") {
  WaitSet waits;
  waits.wake_within(5);
  waits.wake_within(3);
  CHECK(!waits.sleep(kForEver));
  waits.need_fence(Signallers::kProcesses);
  Looks in_vain{false};
  CHECK(!waits.sleep(kForEver, in_vain));
  CHECK(in_vain.number == 1);
}

TEST_CASE("nobody sleeps when what would wake him has happened") {
  WaitSet waits;
  waits.need_fence(Signallers::kProcesses);
  waits.wake_now();
  CHECK(waits.sleep(kForEver));
  Looks in_vain{false};
  CHECK(waits.sleep(kForEver, in_vain));
  CHECK(in_vain.number == 0);
  waits.clear();
  CHECK(!waits.sleep(0));
}

}  // namespace
}  // namespace tutti
