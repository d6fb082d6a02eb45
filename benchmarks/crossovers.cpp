#include "crossovers.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tutti::bench {
namespace {

// By which a call's algorithm is looked up.
uint64_t class_of(const TunedRow& row) { return std::bit_ceil(std::max(row.size_bytes, kFirstClassBytes)); }

uint64_t border_between(uint64_t smaller, uint64_t larger) {
  return static_cast<uint64_t>(std::sqrt(static_cast<double>(smaller) * static_cast<double>(larger)));
}

}  // namespace

std::vector<Crossover> crossovers(const std::vector<TunedRow>& rows) {
  std::vector<Crossover> found;
  if (!rows.empty() && class_of(rows.front()) > kFirstClassBytes) found.push_back({class_of(rows.front()) - 1, ""});
  for (size_t i = 0; i < rows.size(); ++i) {
    bool is_last = i + 1 == rows.size();
    uint64_t size = class_of(rows[i]);
    if (!is_last && class_of(rows[i + 1]) == size) continue;  // the largest stands for its class
    uint64_t up_to = is_last ? size : border_between(size, class_of(rows[i + 1]));
    std::string algorithm = rows[i].gains() ? rows[i].fastest.algorithm : "";
    if (!found.empty() && found.back().algorithm == algorithm) {
      found.back().up_to_bytes = up_to;
    } else {
      found.push_back({up_to, algorithm});
    }
  }
  return found;
}

}  // namespace tutti::bench
