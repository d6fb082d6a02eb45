// All cores copying at once: what the memory gives to all of them together.
#include <barrier>
#include <numeric>
#include <vector>

#include "discovery/probe_buffer.h"
#include "discovery/probes.h"

namespace tutti {
namespace {

constexpr int kRounds = 3;
constexpr int kPasses = 3;

// One core's part. Its buffers are its own, and so in its own node's memory.
class Copier {
 public:
  // Comes to `start` once for every round, whether it has memory or not.
  void run(size_t bytes, std::barrier<>& start) {
    ProbeBuffer from(bytes);
    ProbeBuffer to(bytes);
    bool ready = from.data() != nullptr && to.data() != nullptr;
    for (uint64_t& rate : rates_) {
      start.arrive_and_wait();
      if (!ready) continue;
      auto begin = Clock::now();
      for (int pass = 0; pass < kPasses; ++pass) probe_copy(to.data(), from.data(), bytes);
      rate = rate_of(kPasses * bytes, ns_since(begin));
    }
  }
  uint64_t rate(int round) const { return rates_[round]; }  // 0: it had no memory

 private:
  uint64_t rates_[kRounds] = {};
};

}  // namespace

std::optional<uint64_t> probe_crowd(const std::vector<int>& cpus, uint64_t bytes_of_each) {
  if (cpus.size() < 2) return std::nullopt;
  std::vector<Copier> copiers(cpus.size());
  std::barrier start(static_cast<std::ptrdiff_t>(cpus.size()));
  bool all_ran = run_pinned_on(
      cpus, [&](size_t i) { copiers[i].run(bytes_of_each, start); }, [&] { start.arrive_and_drop(); });
  if (!all_ran) return std::nullopt;
  uint64_t best = 0;
  for (int round = 0; round < kRounds; ++round) {
    uint64_t together = 0;
    for (const Copier& copier : copiers) {
      if (copier.rate(round) == 0) return std::nullopt;
      together += copier.rate(round);
    }
    best = std::max(best, together);
  }
  return best;
}

}  // namespace tutti
