// Include before any header of Highway: the instruction sets the kernels are compiled for. SSE4, AVX2 and AVX3 (AVX-512
// of Skylake) with a plain fallback on x86-64; NEON on aarch64. More would cost compile time: from the second-level
// cache on most types wait for memory, and 8- and 16-bit floats, which do not, gain nothing by AVX3_DL
// (docs/benchmarks.md). SVE's vectors have no size, so they cannot be members of a struct.
#pragma once

#define TUTTI_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
// What AddressSanitizer adds takes many minutes to compile for each of them.
#ifdef __SANITIZE_ADDRESS__
#define HWY_DISABLED_TARGETS (TUTTI_DISABLED_TARGETS | HWY_SSE4 | HWY_AVX3)
#else
#define HWY_DISABLED_TARGETS TUTTI_DISABLED_TARGETS
#endif

// The fallback for processors below SSE4 runs reduce_scalar() and needs no vector operations.
#define TUTTI_NO_VECTORS (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128)
