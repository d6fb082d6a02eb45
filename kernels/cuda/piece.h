// One piece of data as all threads of a block combine it: sources that lie anywhere, to destinations that do.
#pragma once

#include "kernels/cuda/gpu_program.h"
#include "kernels/cuda/vectors.h"

namespace tutti::cuda {

// An operation that is known only when the kernel runs, the same for all of its threads. It is chosen once for all
// elements of a vector.
template <class Element>
struct GivenOp {
  GpuReduceOp which = GpuReduceOp::kSum;

  template <class Values>
  TUTTI_HOST_DEVICE Values of(const Values& a, const Values& b) const {
    if constexpr (std::is_same_v<Element, Bits>) {
      switch (which) {
        case GpuReduceOp::kBitAnd: return combine(ops::BitAnd{}, a, b);
        case GpuReduceOp::kBitOr: return combine(ops::BitOr{}, a, b);
        default: return combine(ops::BitXor{}, a, b);
      }
    } else {
      switch (which) {
        case GpuReduceOp::kProd: return combine(ops::Prod{}, a, b);
        case GpuReduceOp::kMax: return combine(ops::Max{}, a, b);
        case GpuReduceOp::kMin: return combine(ops::Min{}, a, b);
        default: return combine(ops::Sum{}, a, b);
      }
    }
  }
};

template <class Element, class T>
TUTTI_HOST_DEVICE T combine(GivenOp<Element> op, T a, T b) {
  return op.of(a, b);
}

template <class Element, int kWords>
TUTTI_HOST_DEVICE Partial<Element, kWords> combine(GivenOp<Element> op, Partial<Element, kWords> a,
                                                   const Partial<Element, kWords>& b) {
  return op.of(a, b);
}

// Partial results of 8- and 16-bit floats may lie as float32, which is wide.
struct PieceSource {
  uint64_t address = 0;
  bool is_wide = false;
};

// What the threads of a block share. Sources and destinations: kMostGpus of each kind.
struct PieceLists {
  static constexpr uint32_t kMost = 32;
  PieceSource sources[kMost];
  uint64_t destinations[kMost];  // 0: none
};

struct PieceShape {
  uint64_t elements = 0;
  uint32_t sources = 0;
  uint32_t destinations = 0;
  uint32_t divisor = 0;   // > 0: the results are divided by it
  bool is_wide = false;   // the results are
  bool is_moved = false;  // the only source, as it is
};

// `Env`: loads and stores, and which thread of how many this is.
template <class Env, class Element>
class Piece {
 public:
  using Storage = typename Element::Storage;
  static constexpr uint32_t kSize = sizeof(Storage);
  static constexpr bool kIsBits = std::is_same_v<Element, Bits>;
  // Whether there are wide values at all.
  static constexpr bool kIsInFloats = std::is_same_v<typename Element::Accumulator, float>;
  static constexpr bool kGrows = kSize < sizeof(float) && kIsInFloats && !kIsBits;

  TUTTI_HOST_DEVICE Piece(Env& env, const PieceLists& lists, const PieceShape& shape, GpuReduceOp op)
      : env_(env), lists_(lists), shape_(shape), op_{op} {
    for (uint32_t j = 0; j < shape.sources; ++j) look_at(lists.sources[j].address, lists.sources[j].is_wide);
    for (uint32_t j = 0; j < shape.destinations; ++j) {
      if (lists.destinations[j] != 0) look_at(lists.destinations[j], shape.is_wide);
    }
    // Wide values lie apart from the others.
    if (has_wide_ && offset_ != 0) lies_alike_ = false;
  }

  // Vectors where all lies alike, and elements before and after those. A thread has no element of another one's.
  TUTTI_HOST_DEVICE void run() const {
    const uint64_t total = shape_.elements;
    uint64_t first = lies_alike_ ? (kVectorBytes - offset_) % kVectorBytes / kSize : total;
    if (first > total) first = total;
    const uint64_t last = first + (total - first) / kLanes * kLanes;
    if (last > first) run_vectors(first, last);
    for (uint64_t at = env_.thread(); at < total - (last - first); at += env_.threads()) {
      run_element(at < first ? at : at + (last - first));
    }
  }

 private:
  static constexpr uint32_t kVectorBytes = 16;
  static constexpr uint64_t kLanes = kVectorBytes / kSize;
  static constexpr int kLevels = 5;  // for kMostGpus sources
  using Vector = cuda::Vector<4>;
  // Of many sources there are many partial results at once, and registers for few of the narrowest elements.
  using Narrow = cuda::Vector<kSize == 1 && !kIsBits ? 1 : 4>;

  TUTTI_HOST_DEVICE void look_at(uint64_t address, bool is_wide) {
    if (is_wide) {
      has_wide_ = true;
      lies_alike_ = lies_alike_ && address % kVectorBytes == 0;
      return;
    }
    if (!has_narrow_) offset_ = static_cast<uint32_t>(address % kVectorBytes);
    has_narrow_ = true;
    lies_alike_ = lies_alike_ && address % kVectorBytes == offset_ && offset_ % kSize == 0;
    has_whole_elements_ = has_whole_elements_ && address % kSize == 0;
  }

  // kUnroll vectors at a time, so that many loads are under way.
  template <int kUnroll, class Run>
  TUTTI_HOST_DEVICE void stride_over(uint64_t first, uint64_t last, const Run& run) const {
    const uint64_t stride = env_.threads() * kLanes;
    for (uint64_t at = first + env_.thread() * kLanes; at < last; at += kUnroll * stride) {
      const uint64_t left = (last - at + stride - 1) / stride;
      run(at, stride, left < kUnroll ? static_cast<int>(left) : kUnroll);
    }
  }

  TUTTI_HOST_DEVICE void run_vectors(uint64_t first, uint64_t last) const {
    constexpr bool kIsCommon = (kGrows || std::is_same_v<Storage, float>) && kSize > 1;
    if (shape_.is_moved) return move_vectors<4>(first, last);
    if constexpr (kIsCommon) {
      const bool is_plain_sum = op_.which == GpuReduceOp::kSum && !has_wide_;
      if (is_plain_sum && shape_.sources == 2) return sum_vectors<2, 2>(first, last);
      if (is_plain_sum && shape_.sources == 4) return sum_vectors<4, 1>(first, last);
      if (is_plain_sum && shape_.sources == 8) return sum_vectors<8, 1>(first, last);
    }
    stride_over<1>(first, last, [&](uint64_t at, uint64_t, int) {
      for (uint32_t part = 0; part < kLanes; part += sizeof(Narrow) / kSize) {
        const auto load = [&](uint32_t j) { return load_any(j, at + part); };
        store_all(at + part, combine_any<kLevels>(op_, load, shape_.sources));
      }
    });
  }

  template <int kUnroll>
  TUTTI_HOST_DEVICE void move_vectors(uint64_t first, uint64_t last) const {
    const uint64_t size = shape_.is_wide ? sizeof(float) : kSize;
    stride_over<kUnroll>(first, last, [&](uint64_t at, uint64_t stride, int count) {
      for (uint64_t part = 0; part < kLanes * size; part += sizeof(Vector)) {
        Vector values[kUnroll];
        TUTTI_UNROLL
        for (int u = 0; u < kUnroll; ++u) {
          const uint64_t from = lists_.sources[0].address + (at + u * stride) * size + part;
          if (u < count) values[u] = env_.template load<Vector>(from);
        }
        for (uint32_t j = 0; j < shape_.destinations; ++j) {
          const uint64_t to = lists_.destinations[j];
          if (to == 0) continue;
          TUTTI_UNROLL
          for (int u = 0; u < kUnroll; ++u) {
            if (u < count) env_.store(to + (at + u * stride) * size + part, values[u]);
          }
        }
      }
    });
  }

  template <uint32_t kSources, int kUnroll>
  TUTTI_HOST_DEVICE void sum_vectors(uint64_t first, uint64_t last) const {
    stride_over<kUnroll>(first, last, [&](uint64_t at, uint64_t stride, int count) {
      Vector values[kUnroll][kSources];
      TUTTI_UNROLL
      for (int u = 0; u < kUnroll; ++u) {
        TUTTI_UNROLL
        for (uint32_t j = 0; j < kSources; ++j) {
          const uint64_t from = lists_.sources[j].address + (at + u * stride) * kSize;
          if (u < count) values[u][j] = env_.template load<Vector>(from);
        }
      }
      TUTTI_UNROLL
      for (int u = 0; u < kUnroll; ++u) {
        if (u == count) break;
        const auto load = [&](uint32_t j) { return unpack<Element>(values[u][j]); };
        store_all(at + u * stride, combine_known<kSources>(ops::Sum{}, load));
      }
    });
  }

  TUTTI_HOST_DEVICE auto load_any(uint32_t j, uint64_t at) const {
    const PieceSource& source = lists_.sources[j];
    if constexpr (kGrows) {
      if (source.is_wide) {
        decltype(unpack<Element>(Narrow{})) values;
        TUTTI_UNROLL
        for (int i = 0; i < values.kElements; ++i) {
          values.values[i] = env_.template load<float>(source.address + (at + i) * sizeof(float));
        }
        return values;
      }
    }
    return unpack<Element>(env_.template load<Narrow>(source.address + at * kSize));
  }

  template <int kWords>
  TUTTI_HOST_DEVICE void store_all(uint64_t at, const Partial<Element, kWords>& result) const {
    if constexpr (kGrows) {
      if (shape_.is_wide) {
        for (uint32_t j = 0; j < shape_.destinations; ++j) {
          const uint64_t to = lists_.destinations[j];
          if (to == 0) continue;
          TUTTI_UNROLL
          for (int i = 0; i < result.kElements; ++i) env_.store(to + (at + i) * sizeof(float), result.values[i]);
        }
        return;
      }
    }
    const auto packed = pack(result, shape_.divisor);
    for (uint32_t j = 0; j < shape_.destinations; ++j) {
      if (lists_.destinations[j] != 0) env_.store(lists_.destinations[j] + at * kSize, packed);
    }
  }

  TUTTI_HOST_DEVICE void run_element(uint64_t at) const {
    if (shape_.is_moved) {
      if (shape_.is_wide) return move_element<float>(at);
      return move_element<Storage>(at);
    }
    const auto value = combine_any<kLevels>(op_, [&](uint32_t j) { return load_element(j, at); }, shape_.sources);
    if constexpr (kGrows) {
      if (shape_.is_wide) {
        for (uint32_t j = 0; j < shape_.destinations; ++j) {
          if (lists_.destinations[j] != 0) env_.store(lists_.destinations[j] + at * sizeof(float), value);
        }
        return;
      }
    }
    const Storage result = Element::store(ops::finish(value, shape_.divisor));
    for (uint32_t j = 0; j < shape_.destinations; ++j) {
      if (lists_.destinations[j] != 0) store(lists_.destinations[j] + at * kSize, result);
    }
  }

  template <class Value>
  TUTTI_HOST_DEVICE void move_element(uint64_t at) const {
    const Value value = load<Value>(lists_.sources[0].address + at * sizeof(Value));
    for (uint32_t j = 0; j < shape_.destinations; ++j) {
      if (lists_.destinations[j] != 0) store(lists_.destinations[j] + at * sizeof(Value), value);
    }
  }

  TUTTI_HOST_DEVICE typename Element::Accumulator load_element(uint32_t j, uint64_t at) const {
    const PieceSource& source = lists_.sources[j];
    if constexpr (kGrows) {
      if (source.is_wide) return env_.template load<float>(source.address + at * sizeof(float));
    }
    return Element::load(load<Storage>(source.address + at * kSize));
  }

  // A GPU reads and writes only at multiples of the size.
  template <class Value>
  TUTTI_HOST_DEVICE Value load(uint64_t address) const {
    if (has_whole_elements_) return env_.template load<Value>(address);
    unsigned char bytes[sizeof(Value)];
    for (uint32_t i = 0; i < sizeof(Value); ++i) bytes[i] = env_.template load<unsigned char>(address + i);
    Value value;
    memcpy(&value, bytes, sizeof value);
    return value;
  }
  template <class Value>
  TUTTI_HOST_DEVICE void store(uint64_t address, Value value) const {
    if (has_whole_elements_) return env_.store(address, value);
    unsigned char bytes[sizeof(Value)];
    memcpy(bytes, &value, sizeof value);
    for (uint32_t i = 0; i < sizeof(Value); ++i) env_.store(address + i, bytes[i]);
  }

  Env& env_;
  const PieceLists& lists_;
  const PieceShape shape_;
  const GivenOp<Element> op_;
  uint32_t offset_ = 0;  // of the narrow buffers within a vector, if they lie alike
  bool lies_alike_ = true;
  bool has_narrow_ = false;
  bool has_wide_ = false;
  bool has_whole_elements_ = true;
};

}  // namespace tutti::cuda
