// Functions that a program makes operations of, each in tutti's form and in MPI's. They take elements for numbers
// without sign, whatever their type: a result has no error, and may show in which order it was combined.
#pragma once

#include <mpi.h>
#include <tutti/tutti.h>

#include <cstdint>

namespace differential {

struct OwnFunction {
  tutti_reduce_function_t tutti;  // its context is the Call
  MPI_User_function* mpi;         // of elements of mpi_unsigned()
};

// a + b + a b, which commutes.
OwnFunction joining();

// An element is a map x -> factor x + offset, made odd: of two, the one of the lower rank is applied first.
OwnFunction composing();

}  // namespace differential
