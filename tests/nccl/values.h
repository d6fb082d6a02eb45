/* Small numbers in all of NCCL's types, and what reductions of them give: by plain loops, on doubles. All of them are
 * exact, in every type and every order. */
#ifndef TUTTI_TESTS_NCCL_VALUES_H
#define TUTTI_TESTS_NCCL_VALUES_H

#include <stddef.h>

#include "nccl/interface.h"

size_t size_of_type(ncclDataType_t type);
void put_value(void* buffer, size_t index, ncclDataType_t type, double value);
double get_value(const void* buffer, size_t index, ncclDataType_t type);

/* What rank `rank` contributes at `index`: 0, 1 or 2. */
double input_value(int rank, size_t index);
/* What `op` makes of the contributions of `nranks` ranks there, 2 or 4 of them for an average. */
double reduced_value(int nranks, size_t index, ncclRedOp_t op, ncclDataType_t type);

#endif
