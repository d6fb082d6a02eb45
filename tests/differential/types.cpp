#include "types.h"

#include <array>

#include "own_function.h"

namespace differential {
namespace {

Operation own(const char* name, OwnFunction function, bool commutes) {
  MPI_Op mpi;
  MPI_Op_create(function.mpi, commutes, &mpi);
  return {kOwn, name, mpi, function.tutti, commutes};
}

}  // namespace

std::span<const Datatype> datatypes() {
  static const std::array all = {
      Datatype{TUTTI_INT8, "int8", 1, Kind::kSigned, MPI_INT8_T},
      Datatype{TUTTI_UINT8, "uint8", 1, Kind::kUnsigned, MPI_UINT8_T},
      Datatype{TUTTI_INT32, "int32", 4, Kind::kSigned, MPI_INT32_T},
      Datatype{TUTTI_UINT32, "uint32", 4, Kind::kUnsigned, MPI_UINT32_T},
      Datatype{TUTTI_INT64, "int64", 8, Kind::kSigned, MPI_INT64_T},
      Datatype{TUTTI_UINT64, "uint64", 8, Kind::kUnsigned, MPI_UINT64_T},
      Datatype{TUTTI_FLOAT16, "float16", 2, Kind::kFloat, MPI_DOUBLE, {5, 10}},
      Datatype{TUTTI_BFLOAT16, "bfloat16", 2, Kind::kFloat, MPI_DOUBLE, {8, 7}},
      Datatype{TUTTI_FLOAT8_E4M3, "float8_e4m3", 1, Kind::kFloat, MPI_DOUBLE, kFloat8E4M3},
      Datatype{TUTTI_FLOAT8_E5M2, "float8_e5m2", 1, Kind::kFloat, MPI_DOUBLE, kFloat8E5M2},
      Datatype{TUTTI_FLOAT32, "float32", 4, Kind::kFloat, MPI_FLOAT, kSingle},
      Datatype{TUTTI_FLOAT64, "float64", 8, Kind::kFloat, MPI_DOUBLE, kDouble},
  };
  return all;
}

std::span<const Operation> operations() {
  static const std::array all = {
      Operation{TUTTI_SUM, "sum", MPI_SUM},
      Operation{TUTTI_PROD, "prod", MPI_PROD},
      Operation{TUTTI_MAX, "max", MPI_MAX},
      Operation{TUTTI_MIN, "min", MPI_MIN},
      Operation{TUTTI_AVG, "avg", MPI_SUM},
      Operation{TUTTI_BAND, "band", MPI_BAND},
      Operation{TUTTI_BOR, "bor", MPI_BOR},
      Operation{TUTTI_BXOR, "bxor", MPI_BXOR},
      Operation{kOwn, "sum of multiplied", MPI_SUM},
      own("function", joining(), true),
      own("function that does not commute", composing(), false),
  };
  return all;
}

std::span<const Collective> collectives() {
  static constexpr std::array kAll = {
      Collective{.id = TUTTI_ALL_REDUCE, .name = "all_reduce", .reduces = true, .is_vector = true},
      Collective{.id = TUTTI_REDUCE, .name = "reduce", .reduces = true, .is_vector = true, .has_root = true},
      Collective{.id = TUTTI_BROADCAST, .name = "broadcast", .is_vector = true, .has_root = true},
      Collective{.id = TUTTI_ALL_GATHER, .name = "all_gather"},
      Collective{.id = TUTTI_REDUCE_SCATTER, .name = "reduce_scatter", .reduces = true},
      Collective{.id = TUTTI_ALL_TO_ALL, .name = "all_to_all"},
      Collective{.id = TUTTI_GATHER, .name = "gather", .has_root = true},
      Collective{.id = TUTTI_SCATTER, .name = "scatter", .has_root = true},
      Collective{.id = TUTTI_BARRIER, .name = "barrier"},
      Collective{.id = TUTTI_ALL_GATHER_V, .name = "all_gather_v", .has_counts = true},
      Collective{.id = TUTTI_REDUCE_SCATTER_V, .name = "reduce_scatter_v", .reduces = true, .has_counts = true},
      Collective{.id = TUTTI_ALL_TO_ALL_V, .name = "all_to_all_v", .has_counts = true},
      Collective{.id = TUTTI_GATHER_V, .name = "gather_v", .has_root = true, .has_counts = true},
      Collective{.id = TUTTI_SCATTER_V, .name = "scatter_v", .has_root = true, .has_counts = true},
  };
  return kAll;
}

MPI_Datatype mpi_unsigned(size_t size) {
  switch (size) {
    case 1: return MPI_UINT8_T;
    case 2: return MPI_UINT16_T;
    case 4: return MPI_UINT32_T;
    default: return MPI_UINT64_T;
  }
}

}  // namespace differential
