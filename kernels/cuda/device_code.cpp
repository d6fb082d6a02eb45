#include "kernels/cuda/device_code.h"

#define TUTTI_EMBED(symbol, file) \
  asm(".section .rodata\n"        \
      ".balign 64\n"              \
      ".hidden " #symbol "\n"     \
      ".globl " #symbol "\n"      \
      #symbol ":\n"               \
      ".incbin \"" file "\"\n"    \
      ".byte 0\n"                 \
      ".text\n");                 \
  extern "C" const char symbol[]

#ifdef TUTTI_FUSED_FATBIN
TUTTI_EMBED(tutti_fused_fatbin, TUTTI_FUSED_FATBIN);
TUTTI_EMBED(tutti_programs_fatbin, TUTTI_PROGRAMS_FATBIN);
#else
static constexpr const char* tutti_fused_fatbin = nullptr;
static constexpr const char* tutti_programs_fatbin = nullptr;
#endif

namespace tutti::cuda {
namespace {

constexpr const char* kFusedKernels[] = {
#define TUTTI_FUSED(name, element, operation, sources) "tutti_fused_" #name,
#include "kernels/cuda/fused_kernels.inc"
#undef TUTTI_FUSED
};

constexpr const char* kProgramKernels[] = {
#define TUTTI_PROGRAM(name, element) "tutti_program_" #name,
#include "kernels/cuda/program_kernels.inc"
#undef TUTTI_PROGRAM
};

}  // namespace

const DeviceCode kFusedCode{tutti_fused_fatbin, kFusedKernels};
const DeviceCode kProgramCode{tutti_programs_fatbin, kProgramKernels};

}  // namespace tutti::cuda
