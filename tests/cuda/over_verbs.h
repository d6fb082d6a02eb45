// Ranks with GPUs that RDMA devices join, on the driver and the libibverbs of the tests.
#pragma once

#include <catch2/catch.hpp>

#include <string>

#include "cuda/fake/direct_access.h"
#include "cuda/jobs.h"
#include "verbs/fake/fake.h"

namespace tutti::test {

inline Options over_verbs(const Options& more = {}, const char* library = TUTTI_TEST_VERBS_LIBRARY) {
  Options options = {{"transport", "verbs"}, {"ib_library", library}};
  options.insert(more.begin(), more.end());
  return options;
}

// The fakes as they were, before and after.
struct Fakes {
  Fakes() { reset(); }
  ~Fakes() { reset(); }
  void reset() const {
    verbs->reset();
    gpu.fake_fail("", 0, CUDA_SUCCESS);
    gpu.fake_give_direct_access(kFakeDmaBuf | kFakeOrdered);
  }
  uint64_t registered() const { return verbs->counts().dma_bufs; }
  void check_used_well() const {
    INFO(verbs->counts().last_mistake);
    CHECK(verbs->counts().mistakes == 0);
  }
  FakeVerbs* const verbs = tutti_fake_verbs();
  const Gpu& gpu = Gpu::driver();
};

inline int count_of(const std::string& what, const std::string& text) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace tutti::test
