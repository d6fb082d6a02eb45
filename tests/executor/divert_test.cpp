// Payloads that a rank lets come over sockets to where its results go (Link::divert()), not to its slots.
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>

#include "executor/collective.h"

namespace tutti::test {
namespace {

constexpr uint64_t kSlice = 128 * 1024;
constexpr uint64_t kCount = 3 * kSlice / sizeof(int32_t) + 5;  // the last slice is short

const Algorithm& algorithm_named(const std::string& name) {
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective == TUTTI_BROADCAST && algorithm->name == name) return *algorithm;
  }
  FAIL("no broadcast is named " << name);
  std::abort();
}

}  // namespace

TEST_CASE("what a rank waits for comes over sockets to its output, and not to its slots") {
  const std::string name = GENERATE("direct", "chain", "binomial_tree");
  const int channels = GENERATE(1, 2);
  INFO(name << " on " << channels << " channels");
  constexpr int kRanks = 3;
  Case which{.algorithm = &algorithm_named(name), .collective = TUTTI_BROADCAST};
  which.nranks = kRanks;
  which.root = 0;
  which.channels = channels;
  which.slice_bytes = kSlice;
  which.count = kCount;
  StreamLayout layout{.nranks = kRanks, .channels = channels, .slots = 4, .slot_bytes = kSlice};
  Ranks ranks(layout, fabric("tcp").make);
  Plan plan = plan_for(which);
  std::deque<Buffers> buffers;
  std::deque<BoundCall> calls;
  std::vector<std::vector<Program>> programs;
  for (int rank = 0; rank < kRanks; ++rank) {
    buffers.emplace_back(ranks[rank], room_for(which)).fill(which, rank, 1);
    calls.emplace_back(buffers.back(), plan.shape(), which, rank, 1);
    programs.push_back(programs_of(plan, rank));
  }
  auto index = [](int rank) { return static_cast<size_t>(rank); };
  for (int rank = 1; rank < kRanks; ++rank) {
    constexpr int kNoTime = 0;
    CHECK(ranks[rank].run(programs[index(rank)], calls[index(rank)].call, kNoTime).code() == Code::kTimeout);
  }
  auto statuses = ranks.each([&](int rank) {
    return rank == 0 ? ranks[rank].run(programs[0], calls[0].call) : ranks[rank].go_on();
  });
  for (const Status& status : statuses) CHECK(status.message() == "");
  const std::vector<std::byte> untouched(kSlice);
  for (int rank = 1; rank < kRanks; ++rank) {
    INFO("rank " << rank);
    CHECK(buffers[index(rank)].wrong_result().empty());
    CHECK(buffers[index(rank)].rest_untouched());
    for (int peer = 0; peer < kRanks; ++peer) {
      for (int channel = 0; channel < channels; ++channel) {
        // The slot of the first slice.
        const std::byte* slot = ranks[rank].arena() + layout.payload_offset(peer, channel, 0);
        CHECK(std::memcmp(slot, untouched.data(), untouched.size()) == 0);
      }
    }
  }
}

}  // namespace tutti::test
