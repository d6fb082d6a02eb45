// widen() and narrow(): 8- and 16-bit floats as float32 and back.
#include "kernels/instruction_set.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"

#define HWY_TARGET_INCLUDE "kernels/widen.cpp"
#include <hwy/foreach_target.h>

#include "base/check.h"
#include "kernels/vector_elements-inl.h"

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

// One element at a time, from element `at` on: the whole work of processors without vectors.
template <class Element>
void widen_rest(float* to, const std::byte* from, uint64_t at, uint64_t count) {
  for (; at < count; ++at) {
    typename Element::Storage stored;
    memcpy(&stored, from + at * sizeof stored, sizeof stored);
    to[at] = Element::load(stored);
  }
}

template <class Element>
void narrow_rest(std::byte* to, const float* from, uint64_t at, uint64_t count) {
  for (; at < count; ++at) {
    const typename Element::Storage stored = Element::store(from[at]);
    memcpy(to + at * sizeof stored, &stored, sizeof stored);
  }
}

constexpr bool is_narrow_float(Datatype datatype) {
  return !is_integer(datatype) && size_of(datatype) < sizeof(float);
}

#if TUTTI_NO_VECTORS

template <class Element>
void widen_all(float* to, const std::byte* from, uint64_t count) {
  widen_rest<Element>(to, from, 0, count);
}

template <class Element>
void narrow_all(std::byte* to, const float* from, uint64_t count) {
  narrow_rest<Element>(to, from, 0, count);
}

#else

// Whole registers from element `at` on; returns where it stopped.
template <class Element, class D8>
HWY_INLINE uint64_t widen_vectors(D8 d8, float* to, const std::byte* from, uint64_t at, uint64_t count) {
  constexpr size_t size = sizeof(typename Element::Storage);
  const size_t n = hn::Lanes(d8) / size;
  for (; count - at >= n; at += n) {
    auto block = Vectors<Element>::unpack(d8, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(from + at * size)));
    Vectors<Element>::spread(block, to + at);
  }
  return at;
}

template <class Element, class D8>
HWY_INLINE uint64_t narrow_vectors(D8 d8, std::byte* to, const float* from, uint64_t at, uint64_t count) {
  constexpr size_t size = sizeof(typename Element::Storage);
  const size_t n = hn::Lanes(d8) / size;
  for (; count - at >= n; at += n) {
    auto block = Vectors<Element>::collect(hn::Repartition<float, D8>(), from + at);
    hn::StoreU(Vectors<Element>::pack(d8, block), d8, reinterpret_cast<uint8_t*>(to + at * size));
  }
  return at;
}

template <class Element>
void widen_all(float* to, const std::byte* from, uint64_t count) {
  uint64_t at = widen_vectors<Element>(hn::ScalableTag<uint8_t>(), to, from, 0, count);
  at = widen_vectors<Element>(hn::FixedTag<uint8_t, 16>(), to, from, at, count);
  widen_rest<Element>(to, from, at, count);
}

template <class Element>
void narrow_all(std::byte* to, const float* from, uint64_t count) {
  uint64_t at = narrow_vectors<Element>(hn::ScalableTag<uint8_t>(), to, from, 0, count);
  at = narrow_vectors<Element>(hn::FixedTag<uint8_t, 16>(), to, from, at, count);
  narrow_rest<Element>(to, from, at, count);
}

#endif

void widen(Datatype datatype, float* to, const std::byte* from, uint64_t count) {
  switch (datatype) {
    case TUTTI_FLOAT16: return widen_all<ops::Float16>(to, from, count);
    case TUTTI_BFLOAT16: return widen_all<ops::Bfloat16>(to, from, count);
    case TUTTI_FLOAT8_E4M3: return widen_all<ops::Float8E4m3>(to, from, count);
    case TUTTI_FLOAT8_E5M2: return widen_all<ops::Float8E5m2>(to, from, count);
    default: TUTTI_CHECK(is_narrow_float(datatype));
  }
}

void narrow(Datatype datatype, std::byte* to, const float* from, uint64_t count) {
  switch (datatype) {
    case TUTTI_FLOAT16: return narrow_all<ops::Float16>(to, from, count);
    case TUTTI_BFLOAT16: return narrow_all<ops::Bfloat16>(to, from, count);
    case TUTTI_FLOAT8_E4M3: return narrow_all<ops::Float8E4m3>(to, from, count);
    case TUTTI_FLOAT8_E5M2: return narrow_all<ops::Float8E5m2>(to, from, count);
    default: TUTTI_CHECK(is_narrow_float(datatype));
  }
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

void widen(Datatype datatype, float* to, const std::byte* from, uint64_t count) {
  TUTTI_KERNEL(widen)(datatype, to, from, count);
}

void narrow(Datatype datatype, std::byte* to, const float* from, uint64_t count) {
  TUTTI_KERNEL(narrow)(datatype, to, from, count);
}

}  // namespace tutti
#endif
