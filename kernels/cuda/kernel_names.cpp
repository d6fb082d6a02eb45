#include "kernels/cuda/kernel_names.h"

#include <fmt/format.h>

namespace tutti::cuda {

std::string fused_kernel_name(Datatype datatype, ReduceOp op, uint32_t sources) {
  if (sources == 1) return "tutti_fused_bits_copy";
  if (is_bitwise(op)) return fmt::format("tutti_fused_bits_{}", name_of(op));
  ReduceOp combined = op == TUTTI_AVG ? TUTTI_SUM : op;
  bool is_common = datatype == TUTTI_FLOAT32 || datatype == TUTTI_FLOAT16 || datatype == TUTTI_BFLOAT16;
  bool is_held = sources == 2 || sources == 4 || sources == 8;
  std::string name = fmt::format("tutti_fused_{}_{}", name_of(datatype), name_of(combined));
  return combined == TUTTI_SUM && is_common && is_held ? fmt::format("{}_of_{}", name, sources) : name;
}

}  // namespace tutti::cuda
