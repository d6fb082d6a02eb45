#include "base/types.h"

#include <algorithm>
#include <array>

namespace tutti {
namespace {

struct DatatypeFacts {
  Datatype datatype;
  std::string_view name;
  std::string_view short_name;  // nccl-tests'
};

constexpr std::array kDatatypes = {
    DatatypeFacts{TUTTI_INT8, "int8", "char"},       DatatypeFacts{TUTTI_UINT8, "uint8", "byte"},
    DatatypeFacts{TUTTI_INT32, "int32", "int"},      DatatypeFacts{TUTTI_UINT32, "uint32", "uint"},
    DatatypeFacts{TUTTI_INT64, "int64", "long"},     DatatypeFacts{TUTTI_UINT64, "uint64", "ulong"},
    DatatypeFacts{TUTTI_FLOAT16, "float16", "half"}, DatatypeFacts{TUTTI_FLOAT32, "float32", "float"},
    DatatypeFacts{TUTTI_FLOAT64, "float64", "double"}, DatatypeFacts{TUTTI_BFLOAT16, "bfloat16", "bf16"},
    DatatypeFacts{TUTTI_FLOAT8_E4M3, "float8_e4m3", "f8e4m3"},
    DatatypeFacts{TUTTI_FLOAT8_E5M2, "float8_e5m2", "f8e5m2"},
};
constexpr std::array<std::string_view, 8> kOps = {"sum", "prod", "max", "min", "avg", "band", "bor", "bxor"};
constexpr std::array<std::string_view, 14> kCollectives = {
    "all_reduce", "reduce",  "broadcast", "all_gather",   "reduce_scatter",   "all_to_all",   "gather",
    "scatter",    "barrier", "all_gather_v", "reduce_scatter_v", "all_to_all_v", "gather_v", "scatter_v"};

const DatatypeFacts* facts_of(Datatype datatype) {
  auto found = std::find_if(kDatatypes.begin(), kDatatypes.end(), [&](auto& f) { return f.datatype == datatype; });
  return found == kDatatypes.end() ? nullptr : &*found;
}

template <typename Enum, size_t n>
std::optional<Enum> parse_index(const std::array<std::string_view, n>& names, std::string_view name) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

template <size_t n>
std::string_view name_at(const std::array<std::string_view, n>& names, int index) {
  return index >= 0 && index < static_cast<int>(n) ? names[index] : "?";
}

}  // namespace

std::string_view name_of(Datatype datatype) {
  auto* facts = facts_of(datatype);
  return facts == nullptr ? "?" : facts->name;
}
std::string_view name_of(ReduceOp op) {
  if (op == kPreMulSum) return "pre_mul_sum";
  return is_own(op) ? "an operation of the program" : name_at(kOps, op);
}
std::string_view name_of(Collective collective) {
  if (is_point_to_point(collective)) return collective == TUTTI_SEND ? "send" : "recv";
  return name_at(kCollectives, collective);
}

std::optional<Datatype> parse_datatype(std::string_view name) {
  auto found = std::find_if(kDatatypes.begin(), kDatatypes.end(),
                            [&](auto& f) { return f.name == name || f.short_name == name; });
  return found == kDatatypes.end() ? std::nullopt : std::optional(found->datatype);
}
std::optional<ReduceOp> parse_reduce_op(std::string_view name) { return parse_index<ReduceOp>(kOps, name); }
std::optional<Collective> parse_collective(std::string_view name) {
  return parse_index<Collective>(kCollectives, name);
}

}  // namespace tutti
