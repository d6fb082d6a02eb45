#include "nccl/memory.h"

#include <dlfcn.h>

#include "nccl/check.h"

/* The driver's calls, as far as a program of NCCL's makes them itself; CUDA's headers may not be there. */
static int (*init)(unsigned);
static int (*retain)(void**, int);
static int (*set_current)(void*);
static int (*write_device)(unsigned long long, const void*, size_t);
static int (*read_device)(void*, unsigned long long, size_t);
static int (*create_stream)(cudaStream_t*, unsigned);
static int (*synchronize)(cudaStream_t);

static int is_device;
static void* context;

typedef int (*look_up_t)(const char*, void**, int, unsigned long long, void*);

static void find(look_up_t look_up, const char* name, int version, void* to) {
  void* address = NULL;
  CHECK(look_up(name, &address, version, 1, NULL) == 0);
  memcpy(to, &address, sizeof address);
}

void memory_begin(void) {
  const char* library = getenv("TUTTI_CUDA_DRIVER");
  void* handle = library == NULL ? NULL : dlopen(library, RTLD_NOW | RTLD_LOCAL);
  is_device = handle != NULL;
  if (!is_device) return;
  look_up_t look_up;
  void* address = dlsym(handle, "cuGetProcAddress_v2");
  CHECK(address != NULL);
  memcpy(&look_up, &address, sizeof address);
  find(look_up, "cuInit", 2000, &init);
  find(look_up, "cuDevicePrimaryCtxRetain", 7000, &retain);
  find(look_up, "cuCtxSetCurrent", 4000, &set_current);
  find(look_up, "cuMemcpyHtoD", 3020, &write_device);
  find(look_up, "cuMemcpyDtoH", 3020, &read_device);
  find(look_up, "cuStreamCreate", 2000, &create_stream);
  find(look_up, "cuStreamSynchronize", 2000, &synchronize);
  CHECK(init(0) == 0);
  CHECK(retain(&context, 0) == 0);
}

void memory_begin_thread(void) {
  if (is_device) CHECK(set_current(context) == 0);
}

int memory_is_of_device(void) { return is_device; }

void* memory_get(size_t size_bytes) {
  void* memory = NULL;
  OK(ncclMemAlloc(&memory, size_bytes));
  CHECK(memory != NULL);
  return memory;
}

void memory_put(void* memory) { OK(ncclMemFree(memory)); }

void memory_write(void* to, const void* from, size_t size_bytes) {
  if (is_device) {
    CHECK(write_device((unsigned long long)to, from, size_bytes) == 0);
  } else {
    memcpy(to, from, size_bytes);
  }
}

void memory_read(void* to, const void* from, size_t size_bytes) {
  if (is_device) {
    CHECK(read_device(to, (unsigned long long)from, size_bytes) == 0);
  } else {
    memcpy(to, from, size_bytes);
  }
}

cudaStream_t stream_new(void) {
  enum { kNonBlocking = 1 };
  cudaStream_t stream = NULL;
  if (is_device) CHECK(create_stream(&stream, kNonBlocking) == 0);
  return stream;
}

void stream_wait(cudaStream_t stream) {
  if (is_device) CHECK(synchronize(stream) == 0);
}
