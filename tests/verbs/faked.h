// A job of two ranks over the fake, with the fake at hand.
#pragma once

#include "transports/checks.h"
#include "transports/fabric.h"
#include "transports/verbs/verbs.h"
#include "verbs/fake/fake.h"

namespace tutti::test {

inline Factory verbs_with(const VerbsOptions& wanted) {
  return [wanted](const TransportContext& context) {
    VerbsOptions options = wanted;
    options.library = TUTTI_TEST_VERBS_LIBRARY;
    return make_verbs_transport(context, options);
  };
}

// The same from a port of each rank's own: there is one lane, from fake0 to fake1.
inline Factory verbs_over_one_lane(const VerbsOptions& wanted = {}) {
  return [wanted](const TransportContext& context) {
    VerbsOptions options = wanted;
    options.device = context.rank == 0 ? "fake0" : "fake1";
    return verbs_with(options)(context);
  };
}

// The fake as it was made, before and after.
struct Fake {
  Fake() { verbs->reset(); }
  ~Fake() { verbs->reset(); }
  FakeCounts counts() const { return verbs->counts(); }
  FakeVerbs* const verbs = tutti_fake_verbs();
};

// What its user may not do, it has not done.
inline void check_used_well(const Fake& fake) {
  INFO(fake.counts().last_mistake);
  CHECK(fake.counts().mistakes == 0);
  CHECK(fake.counts().not_ready == 0);
}

}  // namespace tutti::test
