// Ranks leave together: who waits for whom, what ends the wait, and what is said.
#include <catch2/catch.hpp>

#include <atomic>

#include "bootstrap/ranks.h"

namespace tutti::bootstrap {
namespace {

constexpr int64_t kLongMs = 20'000;  // no test waits so long

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Runs `leave` with the started control plane of each rank.
std::vector<std::string> on_planes(int nranks, const std::function<ControlEvents(int)>& events,
                                   const std::function<std::string(ControlPlane&)>& leave) {
  UniqueId id = fresh_id(UniqueId::Kind::kLocal);
  return on_ranks<std::string>(nranks, [&](int rank) -> std::string {
    auto plane = join_control_plane(info_of(rank, nranks, id), {}, {}, Deadline::after_ms(kLongMs));
    if (!plane.ok()) return std::string(plane.status().message());
    if (Status started = (*plane)->start(events(rank)); !started.ok()) return std::string(started.message());
    return leave(**plane);
  });
}

std::string leave_within(ControlPlane& plane, int64_t ms) {
  return std::string(plane.leave(Deadline::after_ms(ms), Deadline::after_ms(kLongMs)).message());
}

}  // namespace

TEST_CASE("the ranks that all others wait for are named") {
  auto said = on_planes(8, [](int) { return ControlEvents(); }, [](ControlPlane& plane) -> std::string {
    bool is_late = plane.rank() == 3 || plane.rank() == 5;
    if (is_late) sleep_ms(6000);
    return leave_within(plane, plane.rank() % 2 == 0 ? 1500 : 2500);
  });
  for (int rank : {0, 1, 2, 4, 6, 7}) {
    bool was_told = said[rank].empty() || said[rank] == "ranks 3, 5 did not finalize";
    CHECK(was_told);
  }
  // Whoever leaves first ends the wait of those that wait for its word.
  CHECK(std::count(said.begin(), said.end(), "ranks 3, 5 did not finalize") >= 1);
}

TEST_CASE("an abort ends the wait on the rank that aborts, and is told to all others") {
  std::atomic<int> left{0}, heard{0};
  auto said = on_planes(
      4,
      [&](int) {
        ControlEvents events;
        events.on_abort = [&](int rank, const Status& why) { heard += rank == 0 && why.message() == "enough"; };
        return events;
      },
      [&](ControlPlane& plane) -> std::string {
        if (plane.rank() == 3) {  // it never comes to leave() before the others have
          for (int i = 0; left < 3 && i < 1000; ++i) sleep_ms(10);
          return left == 3 ? "" : "the others still wait";
        }
        std::thread other([&] {
          sleep_ms(200);
          if (plane.rank() == 0) plane.abort(error(Code::kAborted, "enough"));
        });
        std::string why = leave_within(plane, kLongMs);
        ++left;
        other.join();
        return why;
      });
  CHECK(said == std::vector<std::string>(4));
  CHECK(heard == 3);
}

TEST_CASE("an abort right before leaving reaches the others") {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> heard{0};
    on_planes(
        3,
        [&](int) {
          ControlEvents events;
          events.on_abort = [&](int, const Status&) { ++heard; };
          return events;
        },
        [&](ControlPlane& plane) -> std::string {
          if (plane.rank() == 0) plane.abort(error(Code::kAborted, "enough"));
          return leave_within(plane, kLongMs);
        });
    CHECK(heard == 2);
  }
}

}  // namespace tutti::bootstrap
