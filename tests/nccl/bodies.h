/* The parts of the test program. Each runs on the ranks that a thread has. */
#ifndef TUTTI_TESTS_NCCL_BODIES_H
#define TUTTI_TESTS_NCCL_BODIES_H

#include "nccl/ranks.h"

/* Of a communicator of all ranks. */
void test_collectives(struct ranks* ranks);
void test_group_of_calls(struct ranks* ranks);
void test_messages(struct ranks* ranks);
void test_multiplied_sums(struct ranks* ranks);
void test_queries(struct ranks* ranks);
void test_split(struct ranks* ranks);
void test_memory(struct ranks* ranks);
void test_simulation(struct ranks* ranks);
void test_refused(struct ranks* ranks);
void check_all_reduce(struct ranks* ranks); /* on whatever communicators there are */

/* Of an id: these make the communicators, and end them. */
void test_shrink(struct ranks* ranks);
void test_shrink_after_death(struct ranks* ranks); /* of processes */
void test_revoke(struct ranks* ranks);
void test_non_blocking(struct ranks* ranks);
void test_finalize(struct ranks* ranks);
void test_abort(struct ranks* ranks);
void test_configs(struct ranks* ranks);

/* Of a process. */
void test_init_all(void);
void test_host_memory_is_refused(void);

#endif
