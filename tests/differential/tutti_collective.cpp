#include "tutti_collective.h"

#include <algorithm>
#include <vector>

namespace differential {
namespace {

// Arrays that live only as long as the call that is given them, and have other values when they die.
class Arrays {
 public:
  explicit Arrays(const Blocks& blocks)
      : counts_(blocks.counts), displacements_(blocks.packed ? std::vector<uint64_t>() : blocks.displacements) {}
  ~Arrays() {
    std::fill(counts_.begin(), counts_.end(), UINT64_MAX);
    std::fill(displacements_.begin(), displacements_.end(), UINT64_MAX);
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  const uint64_t* counts() const { return counts_.empty() ? nullptr : counts_.data(); }
  const uint64_t* displacements() const { return displacements_.empty() ? nullptr : displacements_.data(); }

 private:
  std::vector<uint64_t> counts_;
  std::vector<uint64_t> displacements_;
};

// Of the block that a rank sends or receives alone.
uint64_t only_count(const Blocks& blocks) { return blocks.counts.empty() ? 0 : blocks.counts.front(); }

tutti_status_t make_operation(LocalCall& local, tutti_comm_t* comm) {
  const Operation& operation = *local.call.operation;
  if (operation.multiplies()) {
    return tutti_op_create_pre_mul_sum(&local.op, &local.factor, local.call.datatype->id, comm);
  }
  return tutti_op_create(&local.op, operation.function, operation.commutes, &local.call, comm);
}

tutti_call_t in_full(LocalCall& local, const Arrays& in, const Arrays& out) {
  const Call& call = local.call;
  const Blocks &in_blocks = local.layout.send, &out_blocks = local.layout.recv;
  tutti_call_t full = {};
  full.struct_size = sizeof full;
  full.collective = call.collective->id;
  full.datatype = call.datatype->id;
  full.op = local.op;
  full.root = call.root;
  full.send_buffer = local.send();
  full.recv_buffer = local.recv();
  full.count = call.count;
  switch (call.collective->id) {
    case TUTTI_ALL_GATHER_V:
    case TUTTI_GATHER_V:
      full.count = only_count(in_blocks);
      full.recv_counts = out.counts(), full.recv_displacements = out.displacements();
      break;
    case TUTTI_REDUCE_SCATTER_V: full.recv_counts = in.counts(); break;
    case TUTTI_ALL_TO_ALL_V:
      full.send_counts = in.counts(), full.send_displacements = in.displacements();
      full.recv_counts = out.counts(), full.recv_displacements = out.displacements();
      break;
    case TUTTI_SCATTER_V:
      full.count = only_count(out_blocks);
      full.send_counts = in.counts(), full.send_displacements = in.displacements();
      break;
    default: break;
  }
  return full;
}

}  // namespace

tutti_status_t set_up(LocalCall& local, tutti_comm_t* comm, bool prepares) {
  bool has_own = local.call.collective->reduces && local.call.operation->id == kOwn;
  tutti_status_t status = has_own ? make_operation(local, comm) : TUTTI_SUCCESS;
  if (status != TUTTI_SUCCESS || !prepares) return status;
  Arrays in(local.layout.send), out(local.layout.recv);
  tutti_call_t call = in_full(local, in, out);
  return tutti_prepare(comm, &call, &local.prepared);
}

tutti_status_t tear_down(LocalCall& local, tutti_comm_t* comm) {
  tutti_status_t status = tutti_prepared_destroy(local.prepared);
  if (status != TUTTI_SUCCESS || local.op == local.call.operation->id) return status;
  return tutti_op_destroy(local.op, comm);
}

tutti_status_t run_blocking(LocalCall& local, tutti_comm_t* comm) {
  const Call& call = local.call;
  const void* from = local.send();
  void* to = local.recv();
  uint64_t count = call.count;
  tutti_datatype_t type = call.datatype->id;
  tutti_op_t op = local.op;
  int root = call.root;
  const Blocks &in_blocks = local.layout.send, &out_blocks = local.layout.recv;
  Arrays in(in_blocks), out(out_blocks);
  switch (call.collective->id) {
    case TUTTI_ALL_REDUCE: return tutti_all_reduce(from, to, count, type, op, comm, nullptr);
    case TUTTI_REDUCE: return tutti_reduce(from, to, count, type, op, root, comm, nullptr);
    case TUTTI_BROADCAST: return tutti_broadcast(from, to, count, type, root, comm, nullptr);
    case TUTTI_ALL_GATHER: return tutti_all_gather(from, to, count, type, comm, nullptr);
    case TUTTI_REDUCE_SCATTER: return tutti_reduce_scatter(from, to, count, type, op, comm, nullptr);
    case TUTTI_ALL_TO_ALL: return tutti_all_to_all(from, to, count, type, comm, nullptr);
    case TUTTI_GATHER: return tutti_gather(from, to, count, type, root, comm, nullptr);
    case TUTTI_SCATTER: return tutti_scatter(from, to, count, type, root, comm, nullptr);
    case TUTTI_BARRIER: return tutti_barrier(comm, nullptr);
    case TUTTI_ALL_GATHER_V:
      return tutti_all_gather_v(from, only_count(in_blocks), to, out.counts(), out.displacements(), type, comm,
                                nullptr);
    case TUTTI_REDUCE_SCATTER_V: return tutti_reduce_scatter_v(from, to, in.counts(), type, op, comm, nullptr);
    case TUTTI_ALL_TO_ALL_V:
      return tutti_all_to_all_v(from, in.counts(), in.displacements(), to, out.counts(), out.displacements(), type,
                                comm, nullptr);
    case TUTTI_GATHER_V:
      return tutti_gather_v(from, only_count(in_blocks), to, out.counts(), out.displacements(), type, root, comm,
                            nullptr);
    case TUTTI_SCATTER_V:
      return tutti_scatter_v(from, in.counts(), in.displacements(), to, only_count(out_blocks), type, root, comm,
                             nullptr);
    case TUTTI_SEND:
    case TUTTI_RECV: break;
  }
  return TUTTI_INVALID_ARGUMENT;
}

tutti_status_t start(LocalCall& local, tutti_comm_t* comm, tutti_request_t** request) {
  if (local.prepared != nullptr) return tutti_start_prepared(local.prepared, request);
  Arrays in(local.layout.send), out(local.layout.recv);
  tutti_call_t call = in_full(local, in, out);
  return tutti_start(comm, &call, request);
}

}  // namespace differential
