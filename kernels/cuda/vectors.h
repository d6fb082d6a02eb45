// What the kernels' bodies are made of: vectors of elements, how they are unpacked, combined and packed again. C++ that
// nvcc and g++ both compile.
#pragma once

#include "kernels/ops.h"

#ifdef __CUDACC__
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL
#endif

namespace tutti::cuda {

// What a thread loads or stores at once: up to 16 bytes.
template <int kWords>
struct alignas(4 * kWords) Vector {
  uint32_t words[kWords];
};

// The elements of a vector, as they are combined.
template <class Element, int kWords>
struct Partial {
  static constexpr int kElements = 4 * kWords / sizeof(typename Element::Storage);
  typename Element::Accumulator values[kElements];
};

// Bytes of any type, for operations on bits and for copies: a word of them at a time is as good.
struct Bits : ops::Plain<uint8_t> {};

template <int kWords>
struct Partial<Bits, kWords> {
  static constexpr int kElements = kWords;
  uint32_t values[kElements];
};

template <class Storage, int kWords>
TUTTI_HOST_DEVICE Storage element_of(const Vector<kWords>& vector, int i) {
  if constexpr (sizeof(Storage) == 8) {
    return ops::bits_as<Storage>(vector.words[2 * i] | static_cast<uint64_t>(vector.words[2 * i + 1]) << 32);
  } else if constexpr (sizeof(Storage) == 4) {
    return ops::bits_as<Storage>(vector.words[i]);
  } else {
    constexpr int kInWord = 4 / sizeof(Storage);
    return static_cast<Storage>(vector.words[i / kInWord] >> (i % kInWord * 8 * sizeof(Storage)));
  }
}

template <class Element, int kWords>
TUTTI_HOST_DEVICE Partial<Element, kWords> unpack(const Vector<kWords>& vector) {
  Partial<Element, kWords> partial;
  TUTTI_UNROLL
  for (int i = 0; i < partial.kElements; ++i) {
    if constexpr (std::is_same_v<Element, Bits>) {
      partial.values[i] = vector.words[i];
    } else {
      partial.values[i] = Element::load(element_of<typename Element::Storage>(vector, i));
    }
  }
  return partial;
}

template <class Element, int kWords>
TUTTI_HOST_DEVICE Vector<kWords> pack(const Partial<Element, kWords>& partial, uint32_t divisor) {
  using Storage = typename Element::Storage;
  Vector<kWords> vector{};
  TUTTI_UNROLL
  for (int i = 0; i < partial.kElements; ++i) {
    if constexpr (std::is_same_v<Element, Bits>) {
      vector.words[i] = partial.values[i];
      continue;
    }
    const Storage stored = Element::store(ops::finish(partial.values[i], divisor));
    if constexpr (sizeof(Storage) == 8) {
      const auto bits = ops::bits_as<uint64_t>(stored);
      vector.words[2 * i] = static_cast<uint32_t>(bits);
      vector.words[2 * i + 1] = static_cast<uint32_t>(bits >> 32);
    } else if constexpr (sizeof(Storage) == 4) {
      vector.words[i] = ops::bits_as<uint32_t>(stored);
    } else {
      using Unsigned = std::make_unsigned_t<Storage>;
      constexpr int kInWord = 4 / sizeof(Storage);
      vector.words[i / kInWord] |= static_cast<uint32_t>(static_cast<Unsigned>(stored))
                                   << (i % kInWord * 8 * sizeof(Storage));
    }
  }
  return vector;
}

template <class Op, class T>
TUTTI_HOST_DEVICE T combine(Op, T a, T b) {
  return Op::combine(a, b);
}

template <class Op, class Element, int kWords>
TUTTI_HOST_DEVICE Partial<Element, kWords> combine(Op, Partial<Element, kWords> a, const Partial<Element, kWords>& b) {
  TUTTI_UNROLL
  for (int i = 0; i < a.kElements; ++i) a.values[i] = Op::combine(a.values[i], b.values[i]);
  return a;
}

// The tree of kernels.h over a number of sources that is known, so that all are loaded before the first is used.
template <uint32_t kSources, class Op, class Load>
TUTTI_HOST_DEVICE auto combine_known(Op op, const Load& load, uint32_t first = 0) {
  if constexpr (kSources == 1) {
    return load(first);
  } else {
    static_assert((kSources & (kSources - 1)) == 0);
    const auto left = combine_known<kSources / 2>(op, load, first);
    return combine(op, left, combine_known<kSources / 2>(op, load, first + kSources / 2));
  }
}

// The same tree over any number of sources, which are added one after the other: as in a binary counter, the partial
// result on level l stands for 2^l of them; 2^(kLevels - 1) sources at most.
template <int kLevels, class Op, class Load>
TUTTI_HOST_DEVICE auto combine_any(Op op, const Load& load, uint32_t sources) {
  decltype(load(0)) levels[kLevels];
  auto carried = load(0);
  for (uint32_t j = 0; j < sources; ++j) {
    carried = load(j);
    bool is_carried = true;
    TUTTI_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      const bool is_taken = j >> level & 1;
      if (is_carried && is_taken) carried = combine(op, levels[level], carried);
      if (is_carried && !is_taken) levels[level] = carried;
      is_carried = is_carried && is_taken;
    }
  }
  bool has_any = false;
  TUTTI_UNROLL
  for (int level = 0; level < kLevels; ++level) {
    if (!(sources >> level & 1)) continue;
    carried = has_any ? combine(op, levels[level], carried) : levels[level];
    has_any = true;
  }
  return carried;
}

}  // namespace tutti::cuda
