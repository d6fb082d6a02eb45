// The datatypes, operations and collectives of tutti.h beside those of MPI. A new one is a row in types.cpp.
#pragma once

#include <mpi.h>
#include <tutti/tutti.h>

#include <cstddef>
#include <span>

#include "float_format.h"

namespace differential {

enum class Kind { kSigned, kUnsigned, kFloat };

struct Datatype {
  tutti_datatype_t id;
  const char* name;
  size_t size;
  Kind kind;
  // What MPI computes in: the type itself, or float64 for floats that MPI does not have.
  MPI_Datatype mpi;
  FloatFormat format = {};  // of a float

  bool is_float() const { return kind == Kind::kFloat; }
  // Of the floats that tutti combines in float32 and rounds afterwards.
  bool is_narrow() const { return is_float() && size < sizeof(float); }
};

struct Operation {
  tutti_op_t id;
  const char* name;
  MPI_Op mpi;

  bool divides() const { return id == TUTTI_AVG; }
  // Whether the result is one of the inputs.
  bool selects() const { return id == TUTTI_MIN || id == TUTTI_MAX; }
};

struct Collective {
  tutti_collective_t id;
  const char* name;
  bool reduces = false;
  bool has_root = false;
  bool has_counts = false;
};

std::span<const Datatype> datatypes();
std::span<const Operation> operations();
std::span<const Collective> collectives();

// Any element of that many bytes: to be copied, or to be added and multiplied by integers that wrap around.
MPI_Datatype mpi_unsigned(size_t size);

}  // namespace differential
