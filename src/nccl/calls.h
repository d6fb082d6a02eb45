// Calls: NCCL's collectives, sends and receives, and how tutti makes them.
#pragma once

#include "nccl/communicator.h"

namespace tutti::nccl {

struct Call {
  const char* function = "";
  tutti_collective_t kind = TUTTI_ALL_REDUCE;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  ncclDataType_t datatype = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int rank = 0;  // the root, or the peer
  cudaStream_t stream = nullptr;
  Communicator::Use communicator;
  tutti_op_t made = TUTTI_SUM;  // of the call's own, until it is finished
};

// Makes it now, or keeps it for the end of the calling thread's group.
ncclResult_t call(Call call, ncclComm_t comm);

// Makes a call that was checked, as part of a group of tutti's or not; finished when it is started.
ncclResult_t make(Call& call);
void finish(Call& call);

// How long tutti expects it to take. Negative: it cannot tell.
float predicted_us(const Call& call);

}  // namespace tutti::nccl
