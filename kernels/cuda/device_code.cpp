#include "kernels/cuda/device_code.h"

namespace tutti::cuda {

#ifdef TUTTI_FATBIN
asm(R"(
  .section .rodata
  .balign 64
  .hidden tutti_fatbin
  .globl tutti_fatbin
tutti_fatbin:
  .incbin ")" TUTTI_FATBIN R"("
  .byte 0
  .text
)");
extern "C" const char tutti_fatbin[];
const void* const kDeviceCode = tutti_fatbin;
#else
const void* const kDeviceCode = nullptr;
#endif

}  // namespace tutti::cuda
