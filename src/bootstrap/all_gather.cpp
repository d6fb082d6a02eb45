#include "bootstrap/meeting.h"
#include "bootstrap/overlay.h"

namespace tutti::bootstrap {
namespace {

// An event that ends the call, if there is one.
Status failure_of(Overlay& overlay, std::vector<Event>& events) {
  for (Event& event : overlay.take_events()) {
    events.push_back(std::move(event));
    if (events.back().kind != Event::Kind::kMessage) return events.back().why;
  }
  return {};
}

// At the deadline many blocks may be missing because one rank did not pass them on. Whoever is in the call says so; the
// ranks that stay silent are the ones to name.
Status name_the_late(Overlay& overlay, std::string_view what, std::vector<Event>& events) {
  Deadline deadline = RollCall(overlay).begin();
  while (!deadline.passed()) overlay.turn(deadline.left_ms(), -1);
  if (Status failed = failure_of(overlay, events); !failed.ok()) return failed;
  std::vector<int> late = overlay.not_here();
  if (late.empty())
    return error(Code::kTimeout,
                 "the exchange of the {} was not complete at its deadline: raise TUTTI_BOOTSTRAP_TIMEOUT_MS", what);
  return error(Code::kTimeout,
               "timed out waiting for the {} of {}: check what these processes are doing, or raise "
               "TUTTI_BOOTSTRAP_TIMEOUT_MS",
               what, list_ranks(late));
}

}  // namespace

Result<std::vector<Bytes>> all_gather(Overlay& overlay, ByteView mine, std::string_view what, Deadline deadline,
                                      std::vector<Event>& events) {
  overlay.begin_gather();
  const int n = overlay.nranks();
  const int me = overlay.rank();
  std::map<int, Bytes>& blocks = overlay.blocks();
  blocks[me] = Bytes(mine.begin(), mine.end());
  for (int distance = 1; distance < n; distance *= 2) {
    // After this step the rank holds the blocks of the next `2 * distance` ranks, itself first.
    int count = std::min(distance, n - distance);
    int to = (me - distance + n) % n;
    int from = (me + distance) % n;
    for (int i = 0; i < count; ++i) overlay.send_block(to, (me + i) % n, blocks.at((me + i) % n));
    auto arrived = [&] {
      for (int i = 0; i < count; ++i) {
        if (!blocks.contains((me + distance + i) % n)) return false;
      }
      return true;
    };
    overlay.turn(0, -1);
    while (!arrived()) {
      if (Status failed = failure_of(overlay, events); !failed.ok())
        return std::move(failed).within(fmt::format("waiting for the {}", what));
      if (overlay.is_gone(from))
        return error(Code::kRemote, "rank {} left while the others exchanged the {}", from, what);
      if (deadline.passed()) return name_the_late(overlay, what, events);
      overlay.turn(deadline.left_ms(), -1);
    }
  }
  // The last step's blocks must not wait in a buffer for the next call.
  while (!overlay.all_sent() && !deadline.passed()) overlay.turn(deadline.left_ms(), -1);
  std::vector<Bytes> all;
  for (int rank = 0; rank < n; ++rank) all.push_back(std::move(blocks.at(rank)));
  return all;
}

}  // namespace tutti::bootstrap
