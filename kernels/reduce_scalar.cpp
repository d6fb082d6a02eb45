#include <bit>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"
#include "kernels/reduce_types.h"

namespace tutti {
namespace {

// kernels.h's tree, seen from its root: the largest power of two of the sources is on the left.
template <class Op, class Load>
[[gnu::noinline]] auto combine_all(const Load& load, size_t first, size_t count) {
  if (count == 1) return load(first);
  const size_t left_count = std::bit_floor(count - 1);
  const auto left = combine_all<Op>(load, first, left_count);
  return Op::combine(left, combine_all<Op>(load, first + left_count, count - left_count));
}

template <class Element, class Op>
void reduce_elements(const ReduceArgs& args) {
  using Storage = typename Element::Storage;
  for (size_t at = 0; at < args.count * sizeof(Storage); at += sizeof(Storage)) {
    const auto load = [&](size_t j) {
      Storage stored;
      memcpy(&stored, args.sources[j] + at, sizeof stored);
      return Element::load(stored);
    };
    const auto value = combine_all<Op>(load, 0, args.sources.size());
    const Storage result = Element::store(ops::finish(value, args.divisor));
    for (std::byte* destination : args.destinations) memcpy(destination + at, &result, sizeof result);
  }
}

// Floats have no such operations; reduce_scalar() has checked that this is no float.
template <class Element, class Op>
void reduce_bits(const ReduceArgs& args) {
  if constexpr (std::is_integral_v<typename Element::Accumulator>) reduce_elements<Element, Op>(args);
}

template <class Element>
void reduce_type(const ReduceArgs& args) {
  switch (args.op) {
    case TUTTI_SUM:
    case TUTTI_AVG: return reduce_elements<Element, ops::Sum>(args);
    case TUTTI_PROD: return reduce_elements<Element, ops::Prod>(args);
    case TUTTI_MIN: return reduce_elements<Element, ops::Min>(args);
    case TUTTI_MAX: return reduce_elements<Element, ops::Max>(args);
    case TUTTI_BAND: return reduce_bits<Element, ops::BitAnd>(args);
    case TUTTI_BOR: return reduce_bits<Element, ops::BitOr>(args);
    case TUTTI_BXOR: return reduce_bits<Element, ops::BitXor>(args);
  }
  TUTTI_CHECK(is_valid(args.op));
}

}  // namespace

void reduce_scalar(const ReduceArgs& args) {
  check_args(args);
  switch (args.datatype) {
    case TUTTI_INT8: return reduce_type<ops::Plain<int8_t>>(args);
    case TUTTI_UINT8: return reduce_type<ops::Plain<uint8_t>>(args);
    case TUTTI_INT32: return reduce_type<ops::Plain<int32_t>>(args);
    case TUTTI_UINT32: return reduce_type<ops::Plain<uint32_t>>(args);
    case TUTTI_INT64: return reduce_type<ops::Plain<int64_t>>(args);
    case TUTTI_UINT64: return reduce_type<ops::Plain<uint64_t>>(args);
    case TUTTI_FLOAT16: return reduce_type<ops::Float16>(args);
    case TUTTI_FLOAT32: return reduce_type<ops::Plain<float>>(args);
    case TUTTI_FLOAT64: return reduce_type<ops::Plain<double>>(args);
    case TUTTI_BFLOAT16: return reduce_type<ops::Bfloat16>(args);
    case TUTTI_FLOAT8_E4M3: return reduce_type<ops::Float8E4m3>(args);
    case TUTTI_FLOAT8_E5M2: return reduce_type<ops::Float8E5m2>(args);
  }
  TUTTI_CHECK(is_valid(args.datatype));
}

}  // namespace tutti
