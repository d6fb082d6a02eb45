// SliceFlow: a call whose input comes, and whose output goes, while it runs. Both do so by slices, of all chunks and
// channels alike, as the interpreter walks them: it begins with no slice that is not there, and says which slices of
// the output nobody stores to any more.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace tutti {

class SliceFlow {
 public:
  // So many slices of the output are final: as a thread that makes progress learns of it, and not always in order.
  using Finished = void (*)(void* argument, uint64_t slices);
  static constexpr uint64_t kAll = UINT64_MAX;

  SliceFlow(int channels, Finished finished, void* argument)
      : finished_(static_cast<size_t>(channels)), tell_(finished), argument_(argument) {}

  // Any thread. So many slices of the input are there.
  void arrive(uint64_t slices) { arrived_.store(slices, std::memory_order_release); }
  // The interpreter's threads, each for its channels.
  bool has_arrived(uint64_t slice) const { return slice < arrived_.load(std::memory_order_acquire); }
  void finish(int channel, uint64_t slices) {
    finished_[static_cast<size_t>(channel)].store(slices, std::memory_order_seq_cst);
    uint64_t on_all = kAll;
    for (const auto& each : finished_) on_all = std::min(on_all, each.load(std::memory_order_seq_cst));
    if (on_all > 0) tell_(argument_, on_all);
  }

 private:
  std::atomic<uint64_t> arrived_{0};
  std::vector<std::atomic<uint64_t>> finished_;  // by channel
  const Finished tell_;
  void* const argument_;
};

}  // namespace tutti
