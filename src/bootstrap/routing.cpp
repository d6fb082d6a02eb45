#include "bootstrap/routing.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace tutti::bootstrap {

std::vector<int> neighbours_of(int rank, int nranks) {
  std::set<int> found;
  for (int step = 1; step < nranks; step *= 2) {
    found.insert((rank + step) % nranks);
    found.insert((rank - step + nranks) % nranks);
  }
  return {found.begin(), found.end()};
}

int circle_distance(int a, int b, int nranks) {
  int apart = std::abs(a - b);
  return std::min(apart, nranks - apart);
}

int next_hop(int to, int nranks, std::span<const int> links, std::span<const int> visited) {
  int best = -1;
  for (int link : links) {
    if (std::find(visited.begin(), visited.end(), link) != visited.end()) continue;
    if (best < 0 || circle_distance(link, to, nranks) < circle_distance(best, to, nranks)) best = link;
  }
  return best;
}

}  // namespace tutti::bootstrap
