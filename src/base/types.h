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
size_t size_of(Datatype datatype);
bool is_valid(Datatype datatype);
bool is_valid(ReduceOp op);
bool is_valid(Collective collective);

// "float32", "sum", "all_reduce"; "?" for a value that is none.
std::string_view name_of(Datatype datatype);
std::string_view name_of(ReduceOp op);
std::string_view name_of(Collective collective);

// The inverse; also takes nccl-tests' short names ("float", "half", "bfloat16", "int8", ...).
std::optional<Datatype> parse_datatype(std::string_view name);
std::optional<ReduceOp> parse_reduce_op(std::string_view name);
std::optional<Collective> parse_collective(std::string_view name);

}  // namespace tutti
