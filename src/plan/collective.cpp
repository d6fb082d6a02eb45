#include "plan/collective.h"

namespace tutti {

int chunks_of(Collective collective, int nranks) {
  switch (without_counts(collective)) {
    case TUTTI_ALL_GATHER:
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_GATHER:
    case TUTTI_SCATTER: return nranks;
    case TUTTI_ALL_TO_ALL: return nranks * nranks;
    case TUTTI_BARRIER: return 1;
    default: return 0;
  }
}

bool in_input(const PlanShape& shape, int rank, int chunk) {
  switch (without_counts(shape.collective)) {
    case TUTTI_BROADCAST:
    case TUTTI_SCATTER: return rank == shape.root;
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER: return chunk == rank;
    case TUTTI_ALL_TO_ALL: return chunk / shape.nranks == rank;
    case TUTTI_BARRIER: return false;
    default: return true;
  }
}

bool in_output(const PlanShape& shape, int rank, int chunk) {
  switch (without_counts(shape.collective)) {
    case TUTTI_REDUCE:
    case TUTTI_GATHER: return rank == shape.root;
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_SCATTER: return chunk == rank;
    case TUTTI_ALL_TO_ALL: return chunk % shape.nranks == rank;
    case TUTTI_BARRIER: return false;
    default: return true;
  }
}

int contributor(const PlanShape& shape, int chunk) {
  switch (without_counts(shape.collective)) {
    case TUTTI_BROADCAST:
    case TUTTI_SCATTER: return shape.root;
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER: return chunk;
    case TUTTI_ALL_TO_ALL: return chunk / shape.nranks;
    default: return kAllRanks;
  }
}

int input_block(const PlanShape& shape, int chunk) {
  return without_counts(shape.collective) == TUTTI_ALL_TO_ALL ? chunk % shape.nranks : chunk;
}

int output_block(const PlanShape& shape, int chunk) {
  return without_counts(shape.collective) == TUTTI_ALL_TO_ALL ? chunk / shape.nranks : chunk;
}

}  // namespace tutti
