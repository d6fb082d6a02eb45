// Loops that reduce() cannot beat: the measures of bench_kernels.
#pragma once

#include "kernels/kernels.h"

namespace tutti {

// Loads and stores what reduce(args) loads and stores, with a bitwise "or" between the sources. 2 or 4 sources, 1 or 2
// destinations, all at cache lines, of a whole number of KiB.
void move(const ReduceArgs& args);

// move() of 8- or 16-bit floats, with reduce()'s conversions to float32 and back: the "or" is of float32.
void convert(const ReduceArgs& args);

}  // namespace tutti
