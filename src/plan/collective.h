// What each collective means: which chunks a rank's buffers hold, and whose data a chunk is made of. Said once, for
// those who prove plans and those who run them.
//
// A chunk is a piece of the data of the collective as a whole. all_reduce, reduce and broadcast have one vector, which
// any number of chunks cut. all_gather, reduce_scatter, gather and scatter have a block per rank, and chunk b is the
// block of rank b. all_to_all has one per pair, and chunk i * nranks + j is what rank i sends to rank j.
#pragma once

#include "plan/plan.h"

namespace tutti {

inline constexpr int kAllRanks = -1;

// How many chunks the collective has on so many ranks; 0: as many as a plan likes.
int chunks_of(Collective collective, int nranks);

bool in_input(const PlanShape& shape, int rank, int chunk);
bool in_output(const PlanShape& shape, int rank, int chunk);

// The rank whose data the chunk is; kAllRanks where all ranks' contributions are combined.
int contributor(const PlanShape& shape, int chunk);

// Where the chunk lies among the blocks of the buffer that holds it. In place, what has one block in the input and in
// the output is the same memory.
int input_block(const PlanShape& shape, int chunk);
int output_block(const PlanShape& shape, int chunk);

}  // namespace tutti
