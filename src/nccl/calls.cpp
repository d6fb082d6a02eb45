#include "nccl/calls.h"

#include "nccl/group.h"
#include "nccl/handles.h"
#include "nccl/report.h"
#include "tutti/tutti_topology.h"

namespace tutti::nccl {
namespace {

bool reduces(tutti_collective_t kind) {
  return kind == TUTTI_ALL_REDUCE || kind == TUTTI_REDUCE || kind == TUTTI_REDUCE_SCATTER;
}

// Which side a call has on every rank: the other one may be unused here.
const void* buffer_everywhere(const Call& call) {
  bool is_recv = call.kind == TUTTI_BROADCAST || call.kind == TUTTI_SCATTER || call.kind == TUTTI_RECV;
  return is_recv ? call.recv : call.send;
}

bool names_a_rank(tutti_collective_t kind) {
  switch (kind) {
    case TUTTI_REDUCE:
    case TUTTI_BROADCAST:
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
    case TUTTI_SEND:
    case TUTTI_RECV: return true;
    default: return false;
  }
}

// What tutti would take, and NCCL does not; the rest is refused by tutti's own checks.
ncclResult_t check(const Call& call) {
  if (call.datatype < 0 || call.datatype >= ncclNumTypes) {
    return refuse(ncclInvalidArgument, "{}: there is no datatype {}", call.function, static_cast<int>(call.datatype));
  }
  // tutti's own operations between NCCL's and those that ncclRedOpCreatePreMulSum() numbers are no part of NCCL.
  bool is_tuttis = call.op == static_cast<ncclRedOp_t>(TUTTI_BAND) || call.op == static_cast<ncclRedOp_t>(TUTTI_BOR) ||
                   call.op == static_cast<ncclRedOp_t>(TUTTI_BXOR);
  if (reduces(call.kind) && (call.op < 0 || is_tuttis)) {
    return refuse(ncclInvalidArgument, "{}: there is no operation {}", call.function, static_cast<int>(call.op));
  }
  if (names_a_rank(call.kind) && (call.rank < 0 || call.rank >= call.communicator->nranks())) {
    return refuse(ncclInvalidArgument, "{}: there is no rank {} among {}", call.function, call.rank,
                  call.communicator->nranks());
  }
  if (call.count > SIZE_MAX / tutti_datatype_size(static_cast<tutti_datatype_t>(call.datatype))) {
    return refuse(ncclInvalidArgument, "{}: {} elements are more than there is memory for", call.function, call.count);
  }
  if (call.count > 0 && buffer_everywhere(call) == nullptr) {
    return refuse(ncclInvalidArgument, "{}: the buffer is NULL", call.function);
  }
  return ncclSuccess;
}

// Memory of the host is for calls that block, on no stream.
ncclResult_t find_stream(Call& call) {
  const Settings& settings = call.communicator->settings();
  if (!settings.takes_host_memory && call.stream != nullptr) return ncclSuccess;  // tutti looks at the buffers
  const Gpu* gpu = Gpu::driver(settings.driver, false);
  if (gpu != nullptr && !gpu->is_host_alone(buffer_everywhere(call))) return ncclSuccess;
  if (!settings.takes_host_memory) {
    return refuse(ncclInvalidArgument,
                  "{}: the buffer is memory of the host, which NCCL does not take; TUTTI_NCCL_HOST_MEMORY=1 allows it",
                  call.function);
  }
  call.stream = nullptr;
  return ncclSuccess;
}

// Gives the call an operation of its own, where the scalar is on the device.
ncclResult_t make_op(Call& call) {
  auto scalar = call.communicator->find_scalar(call.op);
  if (!scalar) return ncclSuccess;
  const Communicator::Place& place = call.communicator->place();
  auto datatype = static_cast<tutti_datatype_t>(scalar->datatype);
  double value = 0;  // as large as any type
  Gpu::Current current(place.gpu, place.context);
  size_t size = tutti_datatype_size(datatype);
  TUTTI_NCCL_TRY(place.gpu->read(call.function, &value, scalar->address, size, call.stream));
  tutti_comm_t* comm = call.communicator->get();
  TUTTI_NCCL_TRY(result_of(tutti_op_create_pre_mul_sum(&call.made, &value, datatype, comm), call.function, comm));
  call.op = static_cast<ncclRedOp_t>(call.made);
  return ncclSuccess;
}

tutti_status_t run(const Call& call) {
  tutti_stream_t stream = call.stream;
  tutti_comm_t* comm = call.communicator->get();
  auto datatype = static_cast<tutti_datatype_t>(call.datatype);
  auto op = static_cast<tutti_op_t>(call.op);
  switch (call.kind) {
    case TUTTI_ALL_REDUCE: return tutti_all_reduce(call.send, call.recv, call.count, datatype, op, comm, stream);
    case TUTTI_REDUCE: return tutti_reduce(call.send, call.recv, call.count, datatype, op, call.rank, comm, stream);
    case TUTTI_BROADCAST: return tutti_broadcast(call.send, call.recv, call.count, datatype, call.rank, comm, stream);
    case TUTTI_ALL_GATHER: return tutti_all_gather(call.send, call.recv, call.count, datatype, comm, stream);
    case TUTTI_REDUCE_SCATTER:
      return tutti_reduce_scatter(call.send, call.recv, call.count, datatype, op, comm, stream);
    case TUTTI_ALL_TO_ALL: return tutti_all_to_all(call.send, call.recv, call.count, datatype, comm, stream);
    case TUTTI_GATHER: return tutti_gather(call.send, call.recv, call.count, datatype, call.rank, comm, stream);
    case TUTTI_SCATTER: return tutti_scatter(call.send, call.recv, call.count, datatype, call.rank, comm, stream);
    default: break;
  }
  // NCCL sends bytes, and does not mind what either side calls them.
  uint64_t bytes = call.count * tutti_datatype_size(datatype);
  if (call.kind == TUTTI_SEND) return tutti_send(call.send, bytes, TUTTI_UINT8, call.rank, 0, comm, stream);
  return tutti_recv(call.recv, bytes, TUTTI_UINT8, call.rank, 0, comm, stream, nullptr);
}

}  // namespace

ncclResult_t call(Call call, ncclComm_t comm) {
  Group& group = Group::of_thread();
  std::shared_ptr<Communicator> communicator;
  ncclResult_t checked = find_usable(call.function, comm, &communicator);
  if (checked == ncclSuccess) {
    call.communicator = Communicator::Use(std::move(communicator));
    checked = check(call);
  }
  bool is_empty = call.count == 0;
  if (checked == ncclSuccess && !is_empty) checked = find_stream(call);
  if (checked != ncclSuccess) return group.is_open() ? group.refuse(checked) : checked;
  if (is_empty) return ncclSuccess;
  if (group.is_open()) {
    group.add(std::move(call));
    return ncclSuccess;
  }
  ncclResult_t made = make(call);
  finish(call);
  return made;
}

ncclResult_t make(Call& call) {
  if (reduces(call.kind)) TUTTI_NCCL_TRY(make_op(call));
  return result_of(run(call), call.function, call.communicator->get());
}

void finish(Call& call) {
  if (call.made != TUTTI_SUM) (void)tutti_op_destroy(call.made, call.communicator->get());
  call.made = TUTTI_SUM;
}

float predicted_us(const Call& call) {
  tutti_call_t query{};
  query.struct_size = sizeof query;
  query.collective = call.kind;
  query.datatype = static_cast<tutti_datatype_t>(call.datatype);
  query.op = reduces(call.kind) ? static_cast<tutti_op_t>(call.op) : TUTTI_SUM;
  query.root = call.rank;
  query.count = call.count;
  tutti_plan_info_t info{};
  info.struct_size = sizeof info;
  if (tutti_comm_plan_info(call.communicator->get(), &query, &info) != TUTTI_SUCCESS) return NCCL_UNDEF_FLOAT;
  return static_cast<float>(info.predicted_ns) / 1000;
}

}  // namespace tutti::nccl
