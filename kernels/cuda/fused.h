// The fused kernel: one launch combines what the ranks of one GPU send and stores what they receive. Nothing in it
// waits, so nobody else has to run at the same time. The body is C++ that g++ compiles too, for tests.
#pragma once

#include "kernels/cuda/job.h"
#include "kernels/cuda/vectors.h"

namespace tutti::cuda {

// One job, as the threads of a block see it.
template <class Element, class Op, uint32_t kSources>
class FusedJob {
 public:
  using Storage = typename Element::Storage;
  static constexpr uint32_t kSize = sizeof(Storage);
  // Of many sources there are many partial results at once, and registers for few of the narrowest elements.
  static constexpr bool kIsBits = std::is_same_v<Element, Bits>;
  using Vector = cuda::Vector<kSources == 0 && kSize == 1 && !kIsBits ? 1 : 4>;

  TUTTI_HOST_DEVICE FusedJob(const FusedArgs& args, const Job& job)
      : sources_(args.addresses + job.first_source),
        destinations_(args.addresses + job.first_destination),
        job_(job),
        divisor_(args.divisor),
        offset_(static_cast<uint32_t>(*sources_ % sizeof(Vector))) {
    for (uint32_t j = 0; j < sources(); ++j) look_at(sources_[j]);
    for (uint32_t j = 0; j < job.destinations; ++j) look_at(destinations_[j]);
    if (!lies_alike_) offset_ = 0;
  }

  // Tiles begin where vectors do, so that the first one may hold less than the others.
  TUTTI_HOST_DEVICE void run_tile(uint64_t tile, const Place& place) const {
    const uint64_t begin = tile * kTileBytes, end = begin + kTileBytes;
    const uint64_t first = offset_, last = offset_ + job_.count * kSize;
    for (uint64_t at = begin + place.thread * sizeof(Vector); at < end; at += place.threads * sizeof(Vector)) {
      if (lies_alike_ && at >= first && at + sizeof(Vector) <= last) {
        run_vector(at - first);
      } else {
        run_elements(at < first ? first : at, at + sizeof(Vector) < last ? at + sizeof(Vector) : last);
      }
    }
  }

 private:
  TUTTI_HOST_DEVICE uint32_t sources() const { return kSources > 0 ? kSources : job_.sources; }

  TUTTI_HOST_DEVICE void look_at(uint64_t address) {
    lies_alike_ = lies_alike_ && address % sizeof(Vector) == offset_ && offset_ % kSize == 0;
    has_whole_elements_ = has_whole_elements_ && address % kSize == 0;
  }

  template <class Load>
  TUTTI_HOST_DEVICE auto combined(const Load& load) const {
    if constexpr (kSources > 0) {
      return combine_known<kSources>(Op{}, load);
    } else {
      constexpr int kLevels = 7;
      static_assert(kMostSources == 1 << (kLevels - 1));
      return combine_any<kLevels>(Op{}, load, job_.sources);
    }
  }

  // `at`: bytes from where the buffers begin.
  TUTTI_HOST_DEVICE void run_vector(uint64_t at) const {
    const Vector result = pack(combined([&](uint32_t j) {
      return unpack<Element>(*reinterpret_cast<const Vector*>(sources_[j] + at));
    }), divisor_);
    for (uint32_t j = 0; j < job_.destinations; ++j) *reinterpret_cast<Vector*>(destinations_[j] + at) = result;
  }

  TUTTI_HOST_DEVICE void run_elements(uint64_t begin, uint64_t end) const {
    for (uint64_t at = begin; at < end; at += kSize) {
      const uint64_t where = at - offset_;
      const auto value = combined([&](uint32_t j) { return Element::load(load(sources_[j] + where)); });
      const Storage result = Element::store(ops::finish(value, divisor_));
      for (uint32_t j = 0; j < job_.destinations; ++j) store(destinations_[j] + where, result);
    }
  }

  // A GPU reads and writes only at multiples of the size.
  TUTTI_HOST_DEVICE Storage load(uint64_t address) const {
    if (has_whole_elements_) return *reinterpret_cast<const Storage*>(address);
    Storage stored;
    memcpy(&stored, reinterpret_cast<const unsigned char*>(address), kSize);
    return stored;
  }

  TUTTI_HOST_DEVICE void store(uint64_t address, Storage value) const {
    if (has_whole_elements_) {
      *reinterpret_cast<Storage*>(address) = value;
    } else {
      memcpy(reinterpret_cast<unsigned char*>(address), &value, kSize);
    }
  }

  const uint64_t* const sources_;
  const uint64_t* const destinations_;
  const Job& job_;
  const uint32_t divisor_;
  uint32_t offset_;  // of all buffers within a vector, if they lie alike; else 0
  bool lies_alike_ = true;
  bool has_whole_elements_ = true;
};

// Whether the word of the host, which may store there meanwhile, is not 0; null: it never is. All threads of a block
// ask at once and get the same, with one read across the bus.
TUTTI_HOST_DEVICE inline bool is_cancelled(const uint32_t* word, [[maybe_unused]] const Place& place) {
  if (word == nullptr) return false;
#ifdef __CUDA_ARCH__
  return __syncthreads_or(place.thread == 0 && *static_cast<const volatile uint32_t*>(word) != 0) != 0;
#else
  return __atomic_load_n(word, __ATOMIC_RELAXED) != 0;
#endif
}

// The whole launch: tiles go to blocks in turn.
template <class Element, class Op, uint32_t kSources>
TUTTI_HOST_DEVICE void fused(const FusedArgs& args, const Place& place) {
  if (is_cancelled(args.cancelled, place)) return;
  uint32_t job = 0;
  for (uint64_t tile = place.block; tile < args.tiles; tile += place.blocks) {
    while (job + 1 < args.job_count && args.jobs[job + 1].first_tile <= tile) ++job;
    const Job& of_tile = args.jobs[job];
    FusedJob<Element, Op, kSources>(args, of_tile).run_tile(tile - of_tile.first_tile, place);
  }
}

}  // namespace tutti::cuda
