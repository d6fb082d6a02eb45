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
};

// The number of operations that a program makes itself, until they are made.
constexpr auto kOwn = static_cast<tutti_op_t>(-1);

struct Operation {
  tutti_op_t id;
  const char* name;
  MPI_Op mpi;
  tutti_reduce_function_t function = nullptr;  // of an own one; null: the sum of multiplied contributions
  bool commutes = true;

  bool divides() const { return id == TUTTI_AVG; }
  // Whether the result is one of the inputs.
  bool selects() const { return id == TUTTI_MIN || id == TUTTI_MAX; }
  // Whether each rank's contribution is multiplied by its factor first.
  bool multiplies() const { return id == kOwn && function == nullptr; }
  bool is_for(const Datatype& type) const {
    bool is_bitwise = id == TUTTI_BAND || id == TUTTI_BOR || id == TUTTI_BXOR;
    return !is_bitwise || !type.is_float();
  }
};

struct Collective {
  tutti_collective_t id;
  const char* name;
  bool reduces = false;
  bool is_vector = false;  // of the same elements on all ranks: in a group small ones are joined
  bool has_root = false;
  bool has_counts = false;
};

std::span<const Datatype> datatypes();
std::span<const Operation> operations();
std::span<const Collective> collectives();

// Any element of that many bytes: to be copied, or to be added and multiplied by integers that wrap around.
MPI_Datatype mpi_unsigned(size_t size);

}  // namespace differential
