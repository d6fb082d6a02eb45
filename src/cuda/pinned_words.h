// Words in pinned memory that streams wait for and store to.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/contexts.h"

namespace tutti::cuda {

// Where devices see host memory that was pinned. Any thread.
class PinnedMemory {
 public:
  explicit PinnedMemory(const Driver& driver) : driver_(driver) {}
  const Driver& driver() const { return driver_; }

  Status add(std::span<std::byte> memory) {
    Range range{.size_bytes = memory.size()};
    TUTTI_CUDA_TRY(driver_, cuMemHostGetDevicePointer, &range.seen, memory.data(), 0);
    std::lock_guard lock(mutex_);
    ranges_[memory.data()] = range;
    return {};
  }
  void remove(std::byte* memory) {
    std::lock_guard lock(mutex_);
    ranges_.erase(memory);
  }
  // By all contexts, since the memory is portable. `word` is in such memory.
  CUdeviceptr seen(const uint32_t* word) const {
    auto* at = reinterpret_cast<const std::byte*>(word);
    std::lock_guard lock(mutex_);
    auto behind = ranges_.upper_bound(at);
    TUTTI_CHECK(behind != ranges_.begin());
    auto offset = static_cast<size_t>(at - std::prev(behind)->first);
    TUTTI_CHECK(offset < std::prev(behind)->second.size_bytes);
    return std::prev(behind)->second.seen + offset;
  }

 private:
  struct Range {
    CUdeviceptr seen = 0;
    size_t size_bytes = 0;
  };
  const Driver& driver_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Range> ranges_;  // by where they begin
};

// What a stream does with words, one after another, by as few calls as the driver takes.
class WordOps {
 public:
  explicit WordOps(const PinnedMemory& pinned) : pinned_(pinned) {}

  // Until the word has that number, or one that comes behind it.
  void wait(const WordValue& until) { add(until, CU_STREAM_WAIT_VALUE_GEQ); }
  // And then until the device sees what others, such as NICs, had written to its memory before that.
  void wait_and_flush(const WordValue& until) { add(until, CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH); }
  // Until it has just that.
  void wait_for(const WordValue& value) { add(value, CU_STREAM_WAIT_VALUE_EQ); }
  void store(const WordValue& stored) {
    CUstreamBatchMemOpParams op{};
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = pinned_.seen(stored.word);
    op.writeValue.value = stored.value;
    op.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    ops_.push_back(op);
  }

  // With the stream's context.
  Status put(CUstream stream) {
    constexpr size_t kMost = 256;  // what the driver takes at once
    for (size_t at = 0; at < ops_.size(); at += kMost) {
      auto count = static_cast<unsigned>(std::min(kMost, ops_.size() - at));
      TUTTI_CUDA_TRY(pinned_.driver(), cuStreamBatchMemOp, stream, count, ops_.data() + at, 0);
    }
    return {};
  }

 private:
  void add(const WordValue& value, unsigned flags) {
    CUstreamBatchMemOpParams op{};
    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = pinned_.seen(value.word);
    op.waitValue.value = value.value;
    op.waitValue.flags = flags;
    ops_.push_back(op);
  }
  const PinnedMemory& pinned_;
  std::vector<CUstreamBatchMemOpParams> ops_;
};

}  // namespace tutti::cuda
