// The instruction sets that kernels are compiled for, and the one in use: the best that this processor has.
//
// Highway would choose too, but then every program has to load its shared library, which (1.0.3) spends 4 ms with a
// timer that only its benchmarks use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/simd_targets.h"

#include <hwy/detect_targets.h>

namespace tutti {

// Best first.
enum class InstructionSet : uint8_t { kAvx512, kAvx2, kSse4, kNeon, kNone };

// Those that this processor has and kernels are compiled for, best first.
std::vector<InstructionSet> instruction_sets();

InstructionSet instruction_set_in_use();
// For tests. No kernel runs meanwhile.
void use_instruction_set(InstructionSet set);

}  // namespace tutti

// Of the functions HWY_NAMESPACE::f the one for the instruction set in use. Behind the code of all targets.
#define TUTTI_KERNEL(f)                                                                                             \
  ([] {                                                                                                             \
    static constexpr decltype(&HWY_STATIC_DISPATCH(f)) kKernels[] = {                                               \
        HWY_CHOOSE_AVX3(f), HWY_CHOOSE_AVX2(f), HWY_CHOOSE_SSE4(f), HWY_CHOOSE_NEON(f), HWY_CHOOSE_FALLBACK(f)};    \
    return kKernels[static_cast<size_t>(::tutti::instruction_set_in_use())];                                        \
  }())
