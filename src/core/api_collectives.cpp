// The C entry points of the collectives: they put arguments in order for Communicator::run().
#include "core/api_call.h"
#include "core/guard.h"
#include "core/handles.h"

namespace tutti {
namespace {

// Runs a blocking call, named after its collective.
tutti_status_t run(tutti_comm_t* comm, tutti_stream_t stream, const CallArguments& arguments) {
  if (comm == nullptr) return report(null_argument(function_of(arguments.collective), "comm"));
  return comm->keep(guarded([&]() -> Status {
    if (stream != nullptr) return check_stream(function_of(arguments.collective), stream);
    return comm->communicator->run(arguments);
  }));
}

const std::byte* input(const void* buffer) { return static_cast<const std::byte*>(buffer); }
std::byte* output(void* buffer) { return static_cast<std::byte*>(buffer); }

}  // namespace
}  // namespace tutti

using namespace tutti;

extern "C" {

tutti_status_t tutti_all_reduce(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                                tutti_op_t op, tutti_comm_t* comm, tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_ALL_REDUCE,
                            .datatype = datatype,
                            .op = op,
                            .count = count,
                            .input = input(send_buffer),
                            .output = output(recv_buffer)});
}

tutti_status_t tutti_reduce(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                            tutti_op_t op, int root, tutti_comm_t* comm, tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_REDUCE,
                            .datatype = datatype,
                            .op = op,
                            .root = root,
                            .count = count,
                            .input = input(send_buffer),
                            .output = output(recv_buffer)});
}

tutti_status_t tutti_broadcast(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                               int root, tutti_comm_t* comm, tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_BROADCAST,
                            .datatype = datatype,
                            .root = root,
                            .count = count,
                            .input = input(send_buffer),
                            .output = output(recv_buffer)});
}

tutti_status_t tutti_all_gather(const void* send_buffer, void* recv_buffer, uint64_t send_count,
                                tutti_datatype_t datatype, tutti_comm_t* comm, tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_ALL_GATHER,
                            .datatype = datatype,
                            .count = send_count,
                            .input = input(send_buffer),
                            .output = output(recv_buffer)});
}

tutti_status_t tutti_reduce_scatter(const void* send_buffer, void* recv_buffer, uint64_t recv_count,
                                    tutti_datatype_t datatype, tutti_op_t op, tutti_comm_t* comm,
                                    tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_REDUCE_SCATTER,
                            .datatype = datatype,
                            .op = op,
                            .count = recv_count,
                            .input = input(send_buffer),
                            .output = output(recv_buffer)});
}

tutti_status_t tutti_all_to_all(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                                tutti_comm_t* comm, tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_ALL_TO_ALL,
                            .datatype = datatype,
                            .count = count,
                            .input = input(send_buffer),
                            .output = output(recv_buffer)});
}

tutti_status_t tutti_gather(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                            int root, tutti_comm_t* comm, tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_GATHER,
                            .datatype = datatype,
                            .root = root,
                            .count = count,
                            .input = input(send_buffer),
                            .output = output(recv_buffer)});
}

tutti_status_t tutti_scatter(const void* send_buffer, void* recv_buffer, uint64_t count, tutti_datatype_t datatype,
                             int root, tutti_comm_t* comm, tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_SCATTER,
                            .datatype = datatype,
                            .root = root,
                            .count = count,
                            .input = input(send_buffer),
                            .output = output(recv_buffer)});
}

tutti_status_t tutti_barrier(tutti_comm_t* comm, tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_BARRIER, .datatype = TUTTI_INT8});
}

tutti_status_t tutti_all_gather_v(const void* send_buffer, uint64_t send_count, void* recv_buffer,
                                  const uint64_t* recv_counts, const uint64_t* recv_displacements,
                                  tutti_datatype_t datatype, tutti_comm_t* comm, tutti_stream_t stream) {
  return run(comm, stream, {.collective = TUTTI_ALL_GATHER_V,
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
  return run(comm, stream, {.collective = TUTTI_REDUCE_SCATTER_V,
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
  return run(comm, stream, {.collective = TUTTI_ALL_TO_ALL_V,
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
  return run(comm, stream, {.collective = TUTTI_GATHER_V,
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
  return run(comm, stream, {.collective = TUTTI_SCATTER_V,
                            .datatype = datatype,
                            .root = root,
                            .count = recv_count,
                            .input = input(send_buffer),
                            .output = output(recv_buffer),
                            .send_counts = send_counts,
                            .send_displacements = send_displacements});
}

}  // extern "C"
