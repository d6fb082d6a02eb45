// copy() and the name of the instruction set in use.
#include <algorithm>
#include <cstring>

#include "kernels/instruction_set.h"
#include "kernels/kernels.h"
#include "kernels/partial.h"

#define HWY_TARGET_INCLUDE "kernels/copy.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whole cache lines from `from` (unaligned) to `to` (at a line). Returns the bytes copied.
size_t stream_lines(std::byte* to, const std::byte* from, size_t size_bytes) {
  const hn::ScalableTag<uint8_t> d8;
  const size_t n = hn::Lanes(d8);
  const auto* in = reinterpret_cast<const uint8_t*>(from);
  auto* out = reinterpret_cast<uint8_t*>(to);
  size_t at = 0;
  for (; size_bytes - at >= 4 * n; at += 4 * n) {
    const auto a = hn::LoadU(d8, in + at);
    const auto b = hn::LoadU(d8, in + at + n);
    const auto c = hn::LoadU(d8, in + at + 2 * n);
    const auto d = hn::LoadU(d8, in + at + 3 * n);
    hn::Stream(a, d8, out + at);
    hn::Stream(b, d8, out + at + n);
    hn::Stream(c, d8, out + at + 2 * n);
    hn::Stream(d, d8, out + at + 3 * n);
  }
  hwy::FlushStream();
  return at;
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

void copy(std::byte* to, const std::byte* from, size_t size_bytes, Store store) {
  if (size_bytes == 0) return;
  if (store == Store::kCached) {
    memcpy(to, from, size_bytes);
    return;
  }
  const size_t head = std::min(-reinterpret_cast<uintptr_t>(to) % kCacheLine, size_bytes);
  memcpy(to, from, head);
  const size_t lines = TUTTI_KERNEL(stream_lines)(to + head, from + head, size_bytes - head);
  memcpy(to + head + lines, from + head + lines, size_bytes - head - lines);
}

const char* kernel_target() { return TUTTI_KERNEL(target_name)(); }

}  // namespace tutti
#endif
