/* Memory and streams of the test: the host's, or those of the device that the driver TUTTI_CUDA_DRIVER has. */
#ifndef TUTTI_TESTS_NCCL_MEMORY_H
#define TUTTI_TESTS_NCCL_MEMORY_H

#include <stddef.h>

#include "nccl/interface.h"

/* Once in a process that has the ranks, after it was forked. */
void memory_begin(void);
/* In each thread. */
void memory_begin_thread(void);
int memory_is_of_device(void);

void* memory_get(size_t size_bytes);
void memory_put(void* memory);
void memory_write(void* to, const void* from, size_t size_bytes);
void memory_read(void* to, const void* from, size_t size_bytes);

/* NULL on the host. */
cudaStream_t stream_new(void);
void stream_wait(cudaStream_t stream);

#endif
