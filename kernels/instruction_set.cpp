#include "kernels/instruction_set.h"

#include <atomic>

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace tutti {
namespace {

#ifdef __x86_64__
// All that Highway's targets of these names use.
bool has_sse4() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
}

bool has_f16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

bool has_avx2() {
  return has_sse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}
#endif

std::vector<InstructionSet> find_instruction_sets() {
  std::vector<InstructionSet> sets;
#ifdef __x86_64__
  __builtin_cpu_init();
  if ((HWY_TARGETS & HWY_AVX3) && has_avx512()) sets.push_back(InstructionSet::kAvx512);
  if ((HWY_TARGETS & HWY_AVX2) && has_avx2()) sets.push_back(InstructionSet::kAvx2);
  if ((HWY_TARGETS & HWY_SSE4) && has_sse4()) sets.push_back(InstructionSet::kSse4);
#endif
  if (HWY_TARGETS & HWY_NEON) sets.push_back(InstructionSet::kNeon);
  if (sets.empty() || (HWY_TARGETS & (HWY_SCALAR | HWY_EMU128))) sets.push_back(InstructionSet::kNone);
  return sets;
}

std::atomic<InstructionSet>& in_use() {
  static std::atomic<InstructionSet> set{find_instruction_sets().front()};
  return set;
}

}  // namespace

std::vector<InstructionSet> instruction_sets() { return find_instruction_sets(); }

InstructionSet instruction_set_in_use() { return in_use().load(std::memory_order_relaxed); }

void use_instruction_set(InstructionSet set) { in_use() = set; }

}  // namespace tutti
