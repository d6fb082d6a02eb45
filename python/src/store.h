// c10d's Store as tutti takes one.
#pragma once

#include <tutti/tutti.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace tutti_torch {

// Borrows `store`.
tutti_store_t store_of(c10d::Store& store);

}  // namespace tutti_torch
