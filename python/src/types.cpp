#include "types.h"

#include <optional>

namespace tutti_torch {
namespace {

using c10::ScalarType;
using c10d::ReduceOp;

// The types that tutti reduces itself.
std::optional<tutti_datatype_t> datatype_of(ScalarType type) {
  switch (type) {
    case ScalarType::Char: return TUTTI_INT8;
    case ScalarType::Byte: return TUTTI_UINT8;
    case ScalarType::Int: return TUTTI_INT32;
    case ScalarType::UInt32: return TUTTI_UINT32;
    case ScalarType::Long: return TUTTI_INT64;
    case ScalarType::UInt64: return TUTTI_UINT64;
    case ScalarType::Half: return TUTTI_FLOAT16;
    case ScalarType::Float: return TUTTI_FLOAT32;
    case ScalarType::Double: return TUTTI_FLOAT64;
    case ScalarType::BFloat16: return TUTTI_BFLOAT16;
    case ScalarType::Float8_e4m3fn: return TUTTI_FLOAT8_E4M3;
    case ScalarType::Float8_e5m2: return TUTTI_FLOAT8_E5M2;
    default: return std::nullopt;
  }
}

const char* name_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM: return "SUM";
    case ReduceOp::AVG: return "AVG";
    case ReduceOp::PRODUCT: return "PRODUCT";
    case ReduceOp::MIN: return "MIN";
    case ReduceOp::MAX: return "MAX";
    case ReduceOp::BAND: return "BAND";
    case ReduceOp::BOR: return "BOR";
    case ReduceOp::BXOR: return "BXOR";
    case ReduceOp::PREMUL_SUM: return "PREMUL_SUM";
    default: return "an unknown operation";
  }
}

tutti_op_t operation_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM: return TUTTI_SUM;
    case ReduceOp::AVG: return TUTTI_AVG;
    case ReduceOp::PRODUCT: return TUTTI_PROD;
    case ReduceOp::MIN: return TUTTI_MIN;
    case ReduceOp::MAX: return TUTTI_MAX;
    case ReduceOp::BAND: return TUTTI_BAND;
    case ReduceOp::BOR: return TUTTI_BOR;
    case ReduceOp::BXOR: return TUTTI_BXOR;
    case ReduceOp::PREMUL_SUM: return TUTTI_SUM;  // of an operation that is made for the call
    default: TORCH_CHECK(false, "tutti: the reduction ", static_cast<int>(op), " is not known")
  }
}

// Bytes of 0 and 1: a sum is true where any is, as torch has it, a product and an average where all are.
tutti_op_t operation_of_bools(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::MAX:
    case ReduceOp::BOR: return TUTTI_MAX;
    case ReduceOp::PRODUCT:
    case ReduceOp::AVG:
    case ReduceOp::MIN:
    case ReduceOp::BAND: return TUTTI_MIN;
    case ReduceOp::BXOR: return TUTTI_BXOR;
    default: TORCH_CHECK(false, "tutti: ", name_of(op), " of torch.bool is not defined; convert the tensor")
  }
}

bool is_bitwise(ReduceOp::RedOpType op) {
  return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR;
}

}  // namespace

Elements elements_of(ScalarType type) {
  if (auto datatype = datatype_of(type)) return {*datatype, 1};
  if (type == ScalarType::ComplexFloat) return {TUTTI_FLOAT32, 2};
  if (type == ScalarType::ComplexDouble) return {TUTTI_FLOAT64, 2};
  return {TUTTI_UINT8, c10::elementSize(type)};
}

Reduction reduction_of(const ReduceOp& op, ScalarType type) {
  Reduction reduction{.op = operation_of(op.op_), .elements = elements_of(type), .carried_as = type};
  if (op.op_ == ReduceOp::PREMUL_SUM) {
    reduction.factor = dynamic_cast<const PreMulSum*>(op.supplement_.get());
    TORCH_CHECK(reduction.factor != nullptr, "tutti: PREMUL_SUM without a factor");
  }
  if (type == ScalarType::Bool) {
    reduction.op = operation_of_bools(op.op_);
    return reduction;
  }
  TORCH_CHECK(op.op_ != ReduceOp::PREMUL_SUM || !c10::isIntegralType(type, false), "tutti: PREMUL_SUM is not of ", type,
              ": the factor would become an integer; multiply the tensor, and take SUM");
  if (is_bitwise(op.op_)) {
    TORCH_CHECK(c10::isIntegralType(type, false), "tutti: ", name_of(op.op_), " is of integers, not of ", type);
  }
  if (type == ScalarType::Short || type == ScalarType::UInt16) {
    reduction.carried_as = ScalarType::Int;  // what is cut off in the end is what 16 bits would not have held
    reduction.elements = elements_of(ScalarType::Int);
    return reduction;
  }
  if (c10::isComplexType(type)) {
    bool is_linear = op.op_ == ReduceOp::SUM || op.op_ == ReduceOp::AVG || op.op_ == ReduceOp::PREMUL_SUM;
    TORCH_CHECK(is_linear && type != ScalarType::ComplexHalf, "tutti: ", name_of(op.op_), " of ", type,
                " is not supported; SUM, AVG and PREMUL_SUM of complex64 and complex128 are");
    return reduction;
  }
  TORCH_CHECK(datatype_of(type).has_value(), "tutti: reductions of ", type, " are not supported; convert the tensor");
  return reduction;
}

}  // namespace tutti_torch
