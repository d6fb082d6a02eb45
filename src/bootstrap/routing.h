// The shape of the overlay: rank r is linked to r +- 2^k (mod n). Pure functions.
#pragma once

#include <span>
#include <vector>

namespace tutti::bootstrap {

// The ranks linked to `rank` of `nranks`, ascending, each once. Symmetric: a is in b's list if and only if b is in a's.
std::vector<int> neighbours_of(int rank, int nranks);

// Steps between two ranks on the circle, whichever way is shorter.
int circle_distance(int a, int b, int nranks);

// The one of `links` to hand a message for `to` to: the nearest to it that is not in `visited`; -1 when there is none.
int next_hop(int to, int nranks, std::span<const int> links, std::span<const int> visited);

}  // namespace tutti::bootstrap
