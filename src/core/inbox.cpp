#include "core/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

constexpr size_t kMostSpare = 64;

bool belong_together(const tutti_request& receive, const Arrival& arrival) {
  const CallArguments& wanted = receive.arguments;
  return (wanted.peer == TUTTI_ANY_SOURCE || wanted.peer == arrival.source) &&
         (wanted.tag == TUTTI_ANY_TAG || wanted.tag == arrival.tag);
}

}  // namespace

tutti_request* Inbox::match(const Arrival& arrival) {
  auto found = std::find_if(posted_.begin(), posted_.end(),
                            [&](const tutti_request* receive) { return belong_together(*receive, arrival); });
  if (found == posted_.end()) return nullptr;
  tutti_request* receive = *found;
  posted_.erase(found);
  return receive;
}

void Inbox::keep(const Arrival& arrival) {
  Kept kept{.arrival = arrival, .data = {}};
  if (arrival.data != nullptr && arrival.size_bytes > 0) {
    kept.data = BufferPool::of_process().take(arrival.size_bytes);
    std::memcpy(kept.data.data(), arrival.data, arrival.size_bytes);
    kept.arrival.data = kept.data.data();
  }
  if (spare_.empty()) spare_.emplace_back();
  spare_.front() = std::move(kept);
  kept_.splice(kept_.end(), spare_, spare_.begin());
}

std::optional<Inbox::Kept> Inbox::take(const tutti_request& receive) {
  auto found = std::find_if(kept_.begin(), kept_.end(),
                            [&](const Kept& kept) { return belong_together(receive, kept.arrival); });
  if (found == kept_.end()) return std::nullopt;
  Kept kept = std::move(*found);
  if (spare_.size() < kMostSpare) {
    spare_.splice(spare_.begin(), kept_, found);
  } else {
    kept_.erase(found);
  }
  return kept;
}

bool Inbox::waits_for(int rank) const {
  return std::any_of(posted_.begin(), posted_.end(),
                     [rank](const tutti_request* receive) { return receive->arguments.peer == rank; });
}

uint64_t Inbox::kept_bytes() const {
  uint64_t bytes = 0;
  for (const Kept& each : kept_) bytes += sizeof each + each.data.size();
  return bytes;
}

std::string Inbox::kept_text() const {
  constexpr size_t kMostNamed = 3;
  std::string text;
  size_t named = 0;
  for (auto each = kept_.begin(); each != kept_.end() && named < kMostNamed; ++each, ++named) {
    const Arrival& arrival = each->arrival;
    text += fmt::format("{}tag {} of rank {} ({} bytes)", named == 0 ? "" : ", ", arrival.tag, arrival.source,
                        arrival.size_bytes);
  }
  return text + (kept_.size() > kMostNamed ? ", ..." : "");
}

void Inbox::clear() {
  posted_.clear();
  kept_.clear();
}

}  // namespace tutti
