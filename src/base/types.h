// Element types, operations and collectives: the C enumerators with the questions we ask of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti {

using Datatype = tutti_datatype_t;
using ReduceOp = tutti_op_t;
using Collective = tutti_collective_t;

// 0 for a value that is no datatype.
constexpr size_t size_of(Datatype datatype) {
  switch (datatype) {
    case TUTTI_INT8:
    case TUTTI_UINT8:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2: return 1;
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16: return 2;
    case TUTTI_INT32:
    case TUTTI_UINT32:
    case TUTTI_FLOAT32: return 4;
    case TUTTI_INT64:
    case TUTTI_UINT64:
    case TUTTI_FLOAT64: return 8;
  }
  return 0;
}
constexpr bool is_valid(Datatype datatype) { return size_of(datatype) != 0; }
constexpr bool is_valid(ReduceOp op) { return op >= TUTTI_SUM && op <= TUTTI_BXOR; }

// What an operation that a program made is for those who do not run it: no values of the C API.
inline constexpr auto kPreMulSum = static_cast<ReduceOp>(32);
inline constexpr auto kOwnFunction = static_cast<ReduceOp>(33);
inline constexpr auto kOrderedFunction = static_cast<ReduceOp>(34);  // not commutative
constexpr bool is_own(ReduceOp op) { return op >= kPreMulSum && op <= kOrderedFunction; }

constexpr bool is_valid(Collective collective) {
  return collective >= TUTTI_ALL_REDUCE && collective <= TUTTI_SCATTER_V;
}

// Whether the call is between two ranks: no collective.
constexpr bool is_point_to_point(Collective collective) {
  return collective == TUTTI_SEND || collective == TUTTI_RECV;
}

// Whether contributions of all ranks are combined: the call has an operation.
constexpr bool reduces(Collective collective) {
  return collective == TUTTI_ALL_REDUCE || collective == TUTTI_REDUCE || collective == TUTTI_REDUCE_SCATTER ||
         collective == TUTTI_REDUCE_SCATTER_V;
}
// Whether one rank is different from the others: the call has a root.
constexpr bool has_root(Collective collective) {
  return collective == TUTTI_REDUCE || collective == TUTTI_BROADCAST || collective == TUTTI_GATHER ||
         collective == TUTTI_SCATTER || collective == TUTTI_GATHER_V || collective == TUTTI_SCATTER_V;
}
// Whether ranks have blocks of different counts.
constexpr bool has_counts(Collective collective) {
  return collective >= TUTTI_ALL_GATHER_V && collective <= TUTTI_SCATTER_V;
}
// Whether only the two ends of a block know its count.
constexpr bool has_private_counts(Collective collective) {
  return collective == TUTTI_ALL_TO_ALL_V || collective == TUTTI_GATHER_V || collective == TUTTI_SCATTER_V;
}
// The same with equal counts.
constexpr Collective without_counts(Collective collective) {
  switch (collective) {
    case TUTTI_ALL_GATHER_V: return TUTTI_ALL_GATHER;
    case TUTTI_REDUCE_SCATTER_V: return TUTTI_REDUCE_SCATTER;
    case TUTTI_ALL_TO_ALL_V: return TUTTI_ALL_TO_ALL;
    case TUTTI_GATHER_V: return TUTTI_GATHER;
    case TUTTI_SCATTER_V: return TUTTI_SCATTER;
    default: return collective;
  }
}
// Whether in place all of the output is input, too.
constexpr bool replaces_input(Collective collective) {
  return reduces(collective) || without_counts(collective) == TUTTI_ALL_TO_ALL;
}

constexpr bool is_integer(Datatype datatype) { return datatype >= TUTTI_INT8 && datatype <= TUTTI_UINT64; }
constexpr bool is_bitwise(ReduceOp op) { return op >= TUTTI_BAND && op <= TUTTI_BXOR; }

// Whether elements of this type can be combined by this operation; false also when one of the two is none.
constexpr bool is_defined_for(ReduceOp op, Datatype datatype) {
  return is_valid(op) && is_valid(datatype) && (is_integer(datatype) || !is_bitwise(op));
}

// "float32", "sum", "all_reduce", "send"; "?" for a value that is none.
std::string_view name_of(Datatype datatype);
std::string_view name_of(ReduceOp op);
std::string_view name_of(Collective collective);

// The inverse; send and recv are no collectives. Also takes nccl-tests' short names ("float", "half", "bfloat16", ...).
std::optional<Datatype> parse_datatype(std::string_view name);
std::optional<ReduceOp> parse_reduce_op(std::string_view name);
std::optional<Collective> parse_collective(std::string_view name);

}  // namespace tutti
