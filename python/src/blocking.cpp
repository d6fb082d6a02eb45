#include "blocking.h"

namespace tutti_torch {

tutti_status_t run_blocking(tutti_comm_t* comm, const tutti_call_t& c) {
  switch (c.collective) {
    case TUTTI_ALL_REDUCE:
      return tutti_all_reduce(c.send_buffer, c.recv_buffer, c.count, c.datatype, c.op, comm, c.stream);
    case TUTTI_REDUCE:
      return tutti_reduce(c.send_buffer, c.recv_buffer, c.count, c.datatype, c.op, c.root, comm, c.stream);
    case TUTTI_BROADCAST:
      return tutti_broadcast(c.send_buffer, c.recv_buffer, c.count, c.datatype, c.root, comm, c.stream);
    case TUTTI_ALL_GATHER:
      return tutti_all_gather(c.send_buffer, c.recv_buffer, c.count, c.datatype, comm, c.stream);
    case TUTTI_REDUCE_SCATTER:
      return tutti_reduce_scatter(c.send_buffer, c.recv_buffer, c.count, c.datatype, c.op, comm, c.stream);
    case TUTTI_ALL_TO_ALL:
      return tutti_all_to_all(c.send_buffer, c.recv_buffer, c.count, c.datatype, comm, c.stream);
    case TUTTI_GATHER:
      return tutti_gather(c.send_buffer, c.recv_buffer, c.count, c.datatype, c.root, comm, c.stream);
    case TUTTI_SCATTER:
      return tutti_scatter(c.send_buffer, c.recv_buffer, c.count, c.datatype, c.root, comm, c.stream);
    case TUTTI_BARRIER: return tutti_barrier(comm, c.stream);
    case TUTTI_ALL_GATHER_V:
      return tutti_all_gather_v(c.send_buffer, c.count, c.recv_buffer, c.recv_counts, c.recv_displacements, c.datatype,
                                comm, c.stream);
    case TUTTI_REDUCE_SCATTER_V:
      return tutti_reduce_scatter_v(c.send_buffer, c.recv_buffer, c.recv_counts, c.datatype, c.op, comm, c.stream);
    case TUTTI_ALL_TO_ALL_V:
      return tutti_all_to_all_v(c.send_buffer, c.send_counts, c.send_displacements, c.recv_buffer, c.recv_counts,
                                c.recv_displacements, c.datatype, comm, c.stream);
    case TUTTI_GATHER_V:
      return tutti_gather_v(c.send_buffer, c.count, c.recv_buffer, c.recv_counts, c.recv_displacements, c.datatype,
                            c.root, comm, c.stream);
    case TUTTI_SCATTER_V:
      return tutti_scatter_v(c.send_buffer, c.send_counts, c.send_displacements, c.recv_buffer, c.count, c.datatype,
                             c.root, comm, c.stream);
    case TUTTI_SEND: return tutti_send(c.send_buffer, c.count, c.datatype, c.peer, c.tag, comm, c.stream);
    case TUTTI_RECV:
      return tutti_recv(c.recv_buffer, c.count, c.datatype, c.peer, c.tag, comm, c.stream, c.message);
  }
  return TUTTI_INVALID_ARGUMENT;
}

}  // namespace tutti_torch
