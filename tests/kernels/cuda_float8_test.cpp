// The 8-bit floats against CUDA's own conversions on the host. Skipped, and says so, where the toolkit is not.
#include <cstdio>

#if __has_include(<cuda_fp8.h>)

#include <cuda_fp8.h>

#include <cmath>

#include "kernels/ops.h"

namespace tutti {
namespace {

template <class Element, class Cuda>
int count_wrong_loads() {
  int wrong = 0;
  for (int stored = 0; stored < 256; ++stored) {
    Cuda cuda;
    cuda.__x = static_cast<__nv_fp8_storage_t>(stored);
    const float expected = static_cast<float>(cuda), loaded = Element::load(static_cast<uint8_t>(stored));
    wrong += std::isnan(expected) ? !std::isnan(loaded)
                                  : ops::bits_as<uint32_t>(expected) != ops::bits_as<uint32_t>(loaded);
  }
  return wrong;
}

// Every sign and exponent with the mantissa bits that 8-bit floats look at, and all kinds of bits below them.
template <class Element, class Cuda>
int count_wrong_stores() {
  int wrong = 0;
  for (uint32_t upper = 0; upper < 1 << 16; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float number = ops::bits_as<float>(upper << 16 | lower);
      wrong += Element::store(number) != Cuda(number).__x;
    }
  }
  return wrong;
}

template <class Element, class Cuda>
bool agrees(const char* name) {
  const int loads = count_wrong_loads<Element, Cuda>(), stores = count_wrong_stores<Element, Cuda>();
  std::printf("%s: %d loads and %d stores differ from CUDA's\n", name, loads, stores);
  return loads == 0 && stores == 0;
}

}  // namespace
}  // namespace tutti

int main() {
  using namespace tutti;
  const bool e4m3 = agrees<ops::Float8E4m3, __nv_fp8_e4m3>("float8_e4m3");
  const bool e5m2 = agrees<ops::Float8E5m2, __nv_fp8_e5m2>("float8_e5m2");
  return e4m3 && e5m2 ? 0 : 1;
}

#else

int main() {
  std::puts("skipped: built without the CUDA toolkit's cuda_fp8.h");
  return 77;
}

#endif
