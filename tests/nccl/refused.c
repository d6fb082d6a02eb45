/* What is refused, with which sentence; and entry points around the calls. */
#include <stdint.h>

#include "nccl/bodies.h"
#include "nccl/check.h"
#include "nccl/memory.h"

#define REFUSED(call, text)                 \
  do {                                      \
    GIVES(ncclInvalidArgument, call);       \
    SAYS(text);                             \
  } while (0)

void test_refused(struct ranks* ranks) {
  ncclComm_t comm = ranks->comms[0];
  cudaStream_t stream = ranks->streams[0];
  char* at = memory_get(64);
  ncclUniqueId id = {{0}};
  int number = 0;
  REFUSED(ncclGetVersion(NULL), "version is NULL");
  REFUSED(ncclGetUniqueId(NULL), "uniqueId is NULL");
  REFUSED(ncclCommInitRank(NULL, 1, id, 0), "comm is NULL");
  ncclComm_t none = comm;
  REFUSED(ncclCommInitRank(&none, 2, id, 2), "there is no rank 2 among 2");
  CHECK(none == NULL);
  REFUSED(ncclCommCount(comm, NULL), "count is NULL");
  REFUSED(ncclCommCount((ncclComm_t)&number, &number), "no communicator");
  REFUSED(ncclAllReduce(at, at, 1, ncclInt8, ncclSum, NULL, stream), "comm is NULL");
  REFUSED(ncclAllReduce(at, at, 1, ncclNumTypes, ncclSum, comm, stream), "datatype 12");
  for (int op = ncclNumOps; op < 8; ++op) { /* tutti's own, of which NCCL knows nothing */
    REFUSED(ncclAllReduce(at, at, 1, ncclInt8, (ncclRedOp_t)op, comm, stream), "there is no operation");
  }
  GIVES(ncclInvalidArgument, ncclAllReduce(at, at, 1, ncclInt8, (ncclRedOp_t)100, comm, stream));
  REFUSED(ncclBroadcast(at, at, 1, ncclInt8, ranks->count, comm, stream), "there is no rank");
  REFUSED(ncclSend(at, 1, ncclInt8, -1, comm, stream), "there is no rank -1");
  REFUSED(ncclSend(NULL, 1, ncclInt8, 0, comm, stream), "buffer is NULL");
  REFUSED(ncclSend(at, SIZE_MAX / 2 + 1, ncclFloat16, 0, comm, stream), "more than there is memory for"); /* 0 bytes */
  OK(ncclAllReduce(NULL, NULL, 0, ncclInt8, ncclSum, comm, stream));
  REFUSED(ncclCommSplit(comm, -2, 0, &none, NULL), "color -2");
  REFUSED(ncclCommShrink(comm, &number, 0, &none, NULL, 0), "0 ranks");
  number = ranks->first;
  REFUSED(ncclCommShrink(comm, &number, 1, &none, NULL, 0), "only those that stay");
  REFUSED(ncclCommShrink(comm, &number, 1, &none, NULL, 2), "flags 0x2");
  number = ranks->count;
  REFUSED(ncclCommShrink(comm, &number, 1, &none, NULL, 0), "there is no rank");
  REFUSED(ncclRedOpDestroy(ncclSum, comm), "one of NCCL's own");
  ncclRedOp_t op = ncclSum;
  REFUSED(ncclRedOpCreatePreMulSum(&op, NULL, ncclInt8, ncclScalarHostImmediate, comm), "scalar is NULL");
  REFUSED(ncclRedOpCreatePreMulSum(&op, at, ncclInt8, (ncclScalarResidence_t)2, comm), "residence 2");
  OK(ncclCommDestroy(NULL));
  OK(ncclCommAbort(NULL));
  GIVES(ncclInvalidUsage, ncclGroupEnd());

  /* A group with a wrong call starts nothing, and says so at its end too. */
  OK(ncclGroupStart());
  OK(ncclAllReduce(at, at, 1, ncclInt8, ncclSum, comm, stream));
  REFUSED(ncclAllReduce(at, at, 1, ncclNumTypes, ncclSum, comm, stream), "datatype 12");
  GIVES(ncclInvalidArgument, ncclGroupEnd());
  memory_put(at);
  check_all_reduce(ranks);
  for (int result = -1; result <= ncclNumResults; ++result) CHECK(ncclGetErrorString((ncclResult_t)result)[0] != 0);
}

void test_memory(struct ranks* ranks) {
  enum { kSize = 3 * 4096 };
  void *block = NULL, *handle = NULL, *other = NULL;
  GIVES(ncclInvalidArgument, ncclMemAlloc(NULL, 8));
  GIVES(ncclInvalidArgument, ncclMemAlloc(&block, 0));
  OK(ncclMemFree(NULL));
  char* memory = memory_is_of_device() ? memory_get(kSize) : malloc(kSize);
  CHECK(memory != NULL);
  ncclComm_t comm = ranks->comms[0];
  GIVES(ncclInvalidArgument, ncclCommRegister(comm, NULL, kSize, &handle));
  GIVES(ncclInvalidArgument, ncclCommRegister(comm, memory, 0, &handle));
  OK(ncclCommRegister(comm, memory, kSize, &handle));
  OK(ncclCommRegister(comm, memory, kSize, &other));
  CHECK(handle != NULL && other != NULL && handle != other);
  check_all_reduce(ranks);
  OK(ncclCommDeregister(comm, other));
  OK(ncclCommDeregister(comm, handle));
  REFUSED(ncclCommDeregister(comm, handle), "no handle");
  check_all_reduce(ranks);  // ranks that are threads share the last sentence, so none may be refused elsewhere yet
  OK(ncclCommDeregister(comm, NULL));
  ncclWindow_t window = (ncclWindow_t)ranks;
  OK(ncclCommWindowRegister(comm, memory, kSize, &window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(window == NULL);
  OK(ncclCommWindowDeregister(comm, window));
  GIVES(ncclInvalidArgument, ncclCommWindowRegister(comm, memory, kSize, NULL, NCCL_WIN_DEFAULT));
  GIVES(ncclInvalidArgument, ncclCommWindowRegister(comm, memory, kSize, &window, 64));
  GIVES(ncclInvalidArgument, ncclCommWindowDeregister(comm, (ncclWindow_t)ranks));
  if (memory_is_of_device()) {
    memory_put(memory);
  } else {
    free(memory);
  }
}

/* A group that is only simulated has no effect, and the more there is to do the longer it would take. */
void test_simulation(struct ranks* ranks) {
  enum { kCount = 1 << 20 };
  ncclComm_t comm = ranks->comms[0];
  char* data = memory_get(kCount);
  char before[2] = {5, 5};
  memory_write(data, before, sizeof before);
  float expected[2];
  for (int large = 0; large < 2; ++large) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    OK(ncclGroupStart());
    OK(ncclAllReduce(data, data, large ? kCount : 1, ncclInt8, ncclSum, comm, ranks->streams[0]));
    OK(ncclGroupSimulateEnd(&info));
    expected[large] = info.estimatedTime;
  }
  CHECK(0 < expected[0] && expected[0] < expected[1]);
  wait_for_streams(ranks);
  memory_read(before, data, sizeof before);
  CHECK(before[0] == 5 && before[1] == 5);
  ncclSimInfo_t wrong = {0};
  OK(ncclGroupStart());
  GIVES(ncclInvalidArgument, ncclGroupSimulateEnd(&wrong));
  GIVES(ncclInvalidUsage, ncclGroupSimulateEnd(&(ncclSimInfo_t)NCCL_SIM_INFO_INITIALIZER));
  memory_put(data);
  check_all_reduce(ranks);
}

/* As NCCL has it, unless the option says otherwise: without a device nothing is to be had, and with one no memory of
 * the host is taken. */
void test_host_memory_is_refused(void) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  int data = 1;
  memory_begin();
  memory_begin_thread();
  OK(ncclGetUniqueId(&id));
  if (!memory_is_of_device()) {
    void* memory = NULL;
    GIVES(ncclUnhandledCudaError, ncclCommInitRank(&comm, 1, id, 0));
    SAYS("TUTTI_NCCL_HOST_MEMORY=1");
    GIVES(ncclUnhandledCudaError, ncclMemAlloc(&memory, 8));
    return;
  }
  OK(ncclCommInitRank(&comm, 1, id, 0));
  GIVES(ncclInvalidArgument, ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, comm, NULL));
  SAYS("TUTTI_NCCL_HOST_MEMORY=1");
  GIVES(ncclInvalidArgument, ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, comm, stream_new()));
  OK(ncclCommDestroy(comm));
}
