// Entry points of collectives, sends and receives.
#include "nccl/calls.h"
#include "nccl/report.h"

using namespace tutti::nccl;

namespace {

ncclResult_t guarded_call(const char* function, tutti_collective_t kind, Call parts, ncclComm_t comm) {
  return guarded(function, [&] {
    parts.function = function;
    parts.kind = kind;
    return call(std::move(parts), comm);
  });
}

}  // namespace

extern "C" {

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return guarded_call("ncclReduce", TUTTI_REDUCE,
                      {.send = send, .recv = recv, .count = count, .datatype = datatype, .op = op, .rank = root,
                       .stream = stream},
                      comm);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return guarded_call("ncclBcast", TUTTI_BROADCAST,
                      {.send = buffer, .recv = buffer, .count = count, .datatype = datatype, .rank = root,
                       .stream = stream},
                      comm);
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return guarded_call("ncclBroadcast", TUTTI_BROADCAST,
                      {.send = send, .recv = recv, .count = count, .datatype = datatype, .rank = root,
                       .stream = stream},
                      comm);
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return guarded_call("ncclAllReduce", TUTTI_ALL_REDUCE,
                      {.send = send, .recv = recv, .count = count, .datatype = datatype, .op = op, .stream = stream},
                      comm);
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t recv_count, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return guarded_call("ncclReduceScatter", TUTTI_REDUCE_SCATTER,
                      {.send = send, .recv = recv, .count = recv_count, .datatype = datatype, .op = op,
                       .stream = stream},
                      comm);
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t send_count, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream) {
  return guarded_call("ncclAllGather", TUTTI_ALL_GATHER,
                      {.send = send, .recv = recv, .count = send_count, .datatype = datatype, .stream = stream}, comm);
}

ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          cudaStream_t stream) {
  return guarded_call("ncclAlltoAll", TUTTI_ALL_TO_ALL,
                      {.send = send, .recv = recv, .count = count, .datatype = datatype, .stream = stream}, comm);
}

ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return guarded_call("ncclGather", TUTTI_GATHER,
                      {.send = send, .recv = recv, .count = count, .datatype = datatype, .rank = root,
                       .stream = stream},
                      comm);
}

ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return guarded_call("ncclScatter", TUTTI_SCATTER,
                      {.send = send, .recv = recv, .count = count, .datatype = datatype, .rank = root,
                       .stream = stream},
                      comm);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return guarded_call("ncclSend", TUTTI_SEND,
                      {.send = send, .count = count, .datatype = datatype, .rank = peer, .stream = stream}, comm);
}

ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return guarded_call("ncclRecv", TUTTI_RECV,
                      {.recv = recv, .count = count, .datatype = datatype, .rank = peer, .stream = stream}, comm);
}

}  // extern "C"

TUTTI_NCCL_TWIN(Reduce);
TUTTI_NCCL_TWIN(Bcast);
TUTTI_NCCL_TWIN(Broadcast);
TUTTI_NCCL_TWIN(AllReduce);
TUTTI_NCCL_TWIN(ReduceScatter);
TUTTI_NCCL_TWIN(AllGather);
TUTTI_NCCL_TWIN(AlltoAll);
TUTTI_NCCL_TWIN(Gather);
TUTTI_NCCL_TWIN(Scatter);
TUTTI_NCCL_TWIN(Send);
TUTTI_NCCL_TWIN(Recv);
