// Ranks meet, exchange, and leave.
#include <catch2/catch.hpp>

#include "bootstrap/ranks.h"

namespace tutti::bootstrap {
namespace {

std::string part_of(int rank, int round) {
  return fmt::format("{}:{}", round, std::string(static_cast<size_t>(rank * 3), 'x'));
}

// Joins, exchanges twice, leaves; "" or what went wrong.
std::string whole_life(const JoinInfo& info, const JoinOptions& options) {
  auto plane = join_control_plane(info, {}, options, Deadline::after_ms(20'000));
  if (!plane.ok()) return std::string(plane.status().message());
  for (int round = 0; round < 2; ++round) {
    auto parts = (*plane)->all_gather(as_bytes(part_of(info.rank, round)), "parts", Deadline::after_ms(20'000));
    if (!parts.ok()) return std::string(parts.status().message());
    if (parts->size() != static_cast<size_t>(info.nranks)) return "wrong number of parts";
    for (int rank = 0; rank < info.nranks; ++rank) {
      if ((*parts)[static_cast<size_t>(rank)] != bytes_of(part_of(rank, round)))
        return fmt::format("wrong part of rank {}", rank);
    }
  }
  if (Status started = (*plane)->start({}); !started.ok()) return std::string(started.message());
  (void)(*plane)->leave(Deadline::after_ms(5'000), Deadline::after_ms(5'000));
  return "";
}

TEST_CASE("1 to 16 local ranks join, gather in rank order and leave") {
  for (int nranks = 1; nranks <= 16; ++nranks) {
    UniqueId id = fresh_id(UniqueId::Kind::kLocal);
    auto problems = on_ranks<std::string>(nranks, [&](int rank) { return whole_life(info_of(rank, nranks, id), {}); });
    INFO("ranks: " << nranks);
    CHECK(problems == std::vector<std::string>(static_cast<size_t>(nranks)));
  }
}

TEST_CASE("ranks on different hosts join over TLS") {
  for (int nranks : {2, 3, 5, 8}) {
    auto server = Rendezvous::create({"", false, true, {}});
    REQUIRE(server.ok());
    UniqueId id = (*server)->id();
    auto problems = on_ranks<std::string>(
        nranks, [&](int rank) { return whole_life(info_of(rank, nranks, id), on_own_host(rank)); });
    INFO("ranks: " << nranks);
    CHECK(problems == std::vector<std::string>(static_cast<size_t>(nranks)));
  }
}

}  // namespace
}  // namespace tutti::bootstrap
