// The tree by which reduce() combines its sources (kernels.h), in vectors. Included once per instruction set.
#if defined(TUTTI_KERNELS_VECTOR_TREE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_VECTOR_TREE_INL_H
#undef TUTTI_KERNELS_VECTOR_TREE_INL_H
#else
#define TUTTI_KERNELS_VECTOR_TREE_INL_H
#endif

#include <algorithm>
#include <bit>

#include "kernels/kernels.h"
#include "kernels/simd_targets.h"
#include "kernels/vector_ops-inl.h"

#if !TUTTI_NO_VECTORS

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

// count: 1..4
template <class Op, class Load>
HWY_INLINE auto combine_up_to_4(const Load& load, size_t first, size_t count) {
  auto all = load(first);
  if (count > 1) all = combine(Op(), all, load(first + 1));
  if (count > 2) {
    auto right = load(first + 2);
    if (count > 3) right = combine(Op(), right, load(first + 3));
    all = combine(Op(), all, right);
  }
  return all;
}

// `load(j)` gives the block of source j. Trees of 4, 8, 16, ... sources wait on a stack, the largest at its bottom, and
// are joined as soon as two have the same size; what is left at the end is joined from the right. The loops are not
// unrolled, for which gcc would take the stack's size as an invitation.
template <class Op, class Load>
HWY_INLINE auto combine_all(const Load& load, size_t count) {
  constexpr size_t kDepth = std::bit_width(kMaxSources / 4);
  decltype(load(0)) stack[kDepth];
  size_t top = 0;
  auto tree = combine_up_to_4<Op>(load, 0, std::min<size_t>(count, 4));
  HWY_UNROLL(1)
  for (size_t first = 4; first < count; first += 4) {
    HWY_UNROLL(1)
    for (size_t waiting = first / 4 - 1; waiting % 2 == 1; waiting /= 2) tree = combine(Op(), stack[--top], tree);
    stack[top++] = tree;
    tree = combine_up_to_4<Op>(load, first, std::min<size_t>(count - first, 4));
  }
  HWY_UNROLL(1)
  while (top > 0) tree = combine(Op(), stack[--top], tree);
  return tree;
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // vectors
#endif  // include guard
