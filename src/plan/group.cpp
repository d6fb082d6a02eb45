#include "plan/group.h"

#include <algorithm>
#include <set>

namespace tutti {
namespace {

// Whether `put` sends the value that `first` wrote, or sends too.
bool sends_the_same(const Step& first, const Step& put) {
  if (first.kind == StepKind::kPut) return put.sources == first.sources;
  const auto& written = first.destinations;
  return put.sources.size() == 1 && std::find(written.begin(), written.end(), put.sources[0]) != written.end();
}

}  // namespace

size_t end_of_group(const std::vector<Step>& steps, size_t first) {
  size_t end = first + 1;
  if (steps[first].kind == StepKind::kWait) return end;
  auto belongs = [&](const Step& step) {
    return step.kind == StepKind::kPut && step.lag == steps[first].lag && sends_the_same(steps[first], step);
  };
  std::set<int32_t> peers = {steps[first].peer};
  while (end < steps.size() && belongs(steps[end]) && peers.insert(steps[end].peer).second) ++end;
  return end;
}

}  // namespace tutti
