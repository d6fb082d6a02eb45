/* An all-reduce among ranks of which the even ones have their numbers on the first GPU, and the odd ones in the host's
 * memory. Everybody gets the same sums.
 *
 *   cc cpu_and_gpu.c -o cpu_and_gpu $(pkg-config --cflags --libs tutti) -I/usr/local/cuda/include -lcuda
 *   tutti run -n 4 ./cpu_and_gpu
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#define COUNT 1000000

static void require(int good, const char* what, const char* why) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void require_cuda(CUresult result, const char* call) {
  const char* name = "an unknown error";
  cuGetErrorName(result, &name);
  require(result == CUDA_SUCCESS, call, name);
}

static void all_reduce_on_gpu(float* numbers, tutti_comm_t* comm) {
  size_t size_bytes = COUNT * sizeof(float);
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUdeviceptr on_gpu;
  require_cuda(cuInit(0), "cuInit");
  require_cuda(cuDeviceGet(&device, 0), "cuDeviceGet");
  require_cuda(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  require_cuda(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  require_cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  require_cuda(cuMemAlloc(&on_gpu, size_bytes), "cuMemAlloc");

  /* Three things on one stream: they happen in this order, and only the last line waits for them. */
  require_cuda(cuMemcpyHtoDAsync(on_gpu, numbers, size_bytes, stream), "cuMemcpyHtoDAsync");
  tutti_status_t status =
      tutti_all_reduce((void*)on_gpu, (void*)on_gpu, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm, (tutti_stream_t)stream);
  require(status == TUTTI_SUCCESS, "tutti_all_reduce", tutti_last_error(comm));
  require_cuda(cuMemcpyDtoHAsync(numbers, on_gpu, size_bytes, stream), "cuMemcpyDtoHAsync");
  require_cuda(cuStreamSynchronize(stream), "cuStreamSynchronize");

  /* What goes wrong after a call has returned is found here. */
  require(tutti_comm_status(comm) == TUTTI_SUCCESS, "tutti_all_reduce", tutti_last_error(comm));
  cuMemFree(on_gpu);
  cuStreamDestroy(stream);
}

int main(void) {
  tutti_comm_t* comm = NULL;
  tutti_status_t status = tutti_comm_init_from_environment(&comm, NULL);
  require(status == TUTTI_SUCCESS, "tutti_comm_init_from_environment", tutti_last_error(NULL));
  int rank = 0, nranks = 0;
  tutti_comm_rank(comm, &rank);
  tutti_comm_size(comm, &nranks);

  float* numbers = malloc(COUNT * sizeof *numbers);
  require(numbers != NULL, "malloc", "out of memory");
  for (int i = 0; i < COUNT; ++i) numbers[i] = (float)(rank + i % 100);

  if (rank % 2 == 0) {
    all_reduce_on_gpu(numbers, comm);
  } else {
    status = tutti_all_reduce(numbers, numbers, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL);
    require(status == TUTTI_SUCCESS, "tutti_all_reduce", tutti_last_error(comm));
  }

  int wrong = 0;
  for (int i = 0; i < COUNT; ++i) wrong += numbers[i] != (float)(nranks * (nranks - 1) / 2 + nranks * (i % 100));
  printf("rank %d (%s): %d of %d sums are wrong\n", rank, rank % 2 == 0 ? "GPU" : "CPU", wrong, COUNT);
  free(numbers);
  require(tutti_comm_finalize(comm) == TUTTI_SUCCESS, "tutti_comm_finalize", tutti_last_error(comm));
  tutti_comm_destroy(comm);
  return wrong != 0;
}
