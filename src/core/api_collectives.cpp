// The C entry points of the collectives, and of the operations that they combine by: they put arguments in order for
// the communicator.
#include <cstring>

#include "core/api_call.h"
#include "core/group.h"
#include "base/guard.h"
#include "core/handles.h"

using namespace tutti;

extern "C" {

tutti_status_t tutti_all_reduce(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                                tutti_op_t op, tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_ALL_REDUCE,
                                 .datatype = datatype,
                                 .op = op,
                                 .count = count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer)});
}

tutti_status_t tutti_reduce(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                            tutti_op_t op, int root, tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_REDUCE,
                                 .datatype = datatype,
                                 .op = op,
                                 .root = root,
                                 .count = count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer)});
}

tutti_status_t tutti_broadcast(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                               int root, tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_BROADCAST,
                                 .datatype = datatype,
                                 .root = root,
                                 .count = count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer)});
}

tutti_status_t tutti_all_gather(const void* send_buffer, void* recv_buffer, uint64_t send_count,
                                tutti_datatype_t datatype, tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_ALL_GATHER,
                                 .datatype = datatype,
                                 .count = send_count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer)});
}

tutti_status_t tutti_reduce_scatter(const void* send_buffer, void* recv_buffer, uint64_t recv_count,
                                    tutti_datatype_t datatype, tutti_op_t op, tutti_comm_t* comm,
                                    tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_REDUCE_SCATTER,
                                 .datatype = datatype,
                                 .op = op,
                                 .count = recv_count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer)});
}

tutti_status_t tutti_all_to_all(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                                tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_ALL_TO_ALL,
                                 .datatype = datatype,
                                 .count = count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer)});
}

tutti_status_t tutti_gather(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                            int root, tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_GATHER,
                                 .datatype = datatype,
                                 .root = root,
                                 .count = count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer)});
}

tutti_status_t tutti_scatter(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                             int root, tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_SCATTER,
                                 .datatype = datatype,
                                 .root = root,
                                 .count = count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer)});
}

tutti_status_t tutti_barrier(tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_BARRIER, .datatype = TUTTI_INT8});
}

tutti_status_t tutti_all_gather_v(const void* send_buffer, uint64_t send_count, void* recv_buffer,
                                  const uint64_t* recv_counts, const uint64_t* recv_displacements,
                                  tutti_datatype_t datatype, tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_ALL_GATHER_V,
                                 .datatype = datatype,
                                 .count = send_count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer),
                                 .recv_counts = recv_counts,
                                 .recv_displacements = recv_displacements});
}

tutti_status_t tutti_reduce_scatter_v(const void* send_buffer, void* recv_buffer, const uint64_t* recv_counts,
                                      tutti_datatype_t datatype, tutti_op_t op, tutti_comm_t* comm,
                                      tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_REDUCE_SCATTER_V,
                                 .datatype = datatype,
                                 .op = op,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer),
                                 .recv_counts = recv_counts});
}

tutti_status_t tutti_all_to_all_v(const void* send_buffer, const uint64_t* send_counts,
                                  const uint64_t* send_displacements, void* recv_buffer, const uint64_t* recv_counts,
                                  const uint64_t* recv_displacements, tutti_datatype_t datatype, tutti_comm_t* comm,
                                  tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_ALL_TO_ALL_V,
                                 .datatype = datatype,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer),
                                 .send_counts = send_counts,
                                 .send_displacements = send_displacements,
                                 .recv_counts = recv_counts,
                                 .recv_displacements = recv_displacements});
}

tutti_status_t tutti_gather_v(const void* send_buffer, uint64_t send_count, void* recv_buffer,
                              const uint64_t* recv_counts, const uint64_t* recv_displacements,
                              tutti_datatype_t datatype, int root, tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_GATHER_V,
                                 .datatype = datatype,
                                 .root = root,
                                 .count = send_count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer),
                                 .recv_counts = recv_counts,
                                 .recv_displacements = recv_displacements});
}

tutti_status_t tutti_scatter_v(const void* send_buffer, const uint64_t* send_counts, const uint64_t* send_displacements,
                               void* recv_buffer, uint64_t recv_count, tutti_datatype_t datatype, int root,
                               tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_SCATTER_V,
                                 .datatype = datatype,
                                 .root = root,
                                 .count = recv_count,
                                 .input = input(send_buffer),
                                 .output = output(recv_buffer),
                                 .send_counts = send_counts,
                                 .send_displacements = send_displacements});
}

tutti_status_t tutti_group_begin(void) {
  Group::of_thread().begin();
  return TUTTI_SUCCESS;
}

tutti_status_t tutti_group_end(void) {
  return report(guarded([] { return Group::of_thread().end(); }));
}

tutti_status_t tutti_op_create(tutti_op_t* op, tutti_reduce_function_t function, int commutative, void* context,
                               tutti_comm_t* comm) {
  return with_communicator(comm, "tutti_op_create", [&]() -> Status {
    if (op == nullptr) return null_argument("tutti_op_create", "op");
    if (function == nullptr) return null_argument("tutti_op_create", "function");
    *op = TUTTI_TRY(comm->communicator->own_ops().add({.kind = commutative != 0 ? kOwnFunction : kOrderedFunction,
                                                       .function = function,
                                                       .context = context}));
    return {};
  });
}

tutti_status_t tutti_op_create_pre_mul_sum(tutti_op_t* op, const void* scalar, tutti_datatype_t datatype,
                                           tutti_comm_t* comm) {
  return with_communicator(comm, "tutti_op_create_pre_mul_sum", [&]() -> Status {
    if (op == nullptr) return null_argument("tutti_op_create_pre_mul_sum", "op");
    if (scalar == nullptr) return null_argument("tutti_op_create_pre_mul_sum", "scalar");
    if (!is_valid(datatype)) {
      return error(Code::kInvalidArgument, "there is no datatype with the number {}", static_cast<int>(datatype));
    }
    OwnOp own{.kind = kPreMulSum, .datatype = datatype};
    std::memcpy(own.factor.data(), scalar, size_of(datatype));
    *op = TUTTI_TRY(comm->communicator->own_ops().add(own));
    return {};
  });
}

tutti_status_t tutti_op_destroy(tutti_op_t op, tutti_comm_t* comm) {
  return with_communicator(comm, "tutti_op_destroy", [&] { return comm->communicator->own_ops().remove(op); });
}

}  // extern "C"
