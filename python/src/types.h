// What torch's types and operations are to tutti.
#pragma once

#include <c10/core/ScalarType.h>
#include <tutti/tutti.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace tutti_torch {

// How tutti sees the elements of a tensor that are only moved: every type has one.
struct Elements {
  tutti_datatype_t datatype = TUTTI_UINT8;
  uint64_t per_element = 1;  // of them in one of the tensor
};
Elements elements_of(at::ScalarType type);

// torch up to 2.12 has this name alone, later ones PreMulSumSupplement too.
using PreMulSum = c10d::NCCLPreMulSumSupplement;

// How a reduction of tensors is made.
struct Reduction {
  tutti_op_t op = TUTTI_SUM;
  Elements elements;
  at::ScalarType carried_as;                                // the type that travels, not always the tensor's
  const PreMulSum* factor = nullptr;                        // of PREMUL_SUM
};
// Throws where there is no such reduction, with the reason.
Reduction reduction_of(const c10d::ReduceOp& op, at::ScalarType type);

}  // namespace tutti_torch
