#include "crossovers.h"

#include <cmath>

namespace tutti::bench {
namespace {

uint64_t border_between(uint64_t smaller, uint64_t larger) {
  return static_cast<uint64_t>(std::sqrt(static_cast<double>(smaller) * static_cast<double>(larger)));
}

}  // namespace

std::vector<Crossover> crossovers(const std::vector<TunedRow>& rows) {
  std::vector<Crossover> found;
  if (!rows.empty() && rows.front().size_bytes > kFirstClassBytes) found.push_back({rows.front().size_bytes - 1, ""});
  for (size_t i = 0; i < rows.size(); ++i) {
    bool is_last = i + 1 == rows.size();
    uint64_t size = rows[i].size_bytes;
    uint64_t up_to = is_last ? size : border_between(size, rows[i + 1].size_bytes);
    std::string algorithm = rows[i].gains() ? rows[i].fastest.algorithm : "";
    if (!found.empty() && found.back().algorithm == algorithm) {
      found.back().up_to_bytes = up_to;
    } else {
      found.push_back({up_to, algorithm});
    }
  }
  if (!found.empty() && found.back().algorithm.empty()) found.pop_back();
  return found;
}

}  // namespace tutti::bench
