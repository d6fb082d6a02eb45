// One call of any collective on buffers of its own. For tests.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"
#include "tutti/tutti.h"

namespace tutti::test {

struct CallOf {
  tutti_collective_t collective = TUTTI_ALL_REDUCE;
  uint64_t count = 10;
  tutti_datatype_t datatype = TUTTI_FLOAT32;
  tutti_op_t op = TUTTI_SUM;
  int root = 0;

  std::string name() const { return std::string(name_of(collective)); }

  std::string run(tutti_comm_t* comm, int nranks) const {
    std::vector<double> in(count * nranks + 1), out(count * nranks + 1);
    std::vector<uint64_t> counts(nranks, count);
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = collective;
    call.datatype = datatype;
    call.op = op;
    call.root = root;
    call.send_buffer = in.data();
    call.recv_buffer = out.data();
    call.count = count;
    call.send_counts = call.recv_counts = counts.data();
    tutti_request_t* request = nullptr;
    tutti_status_t status = tutti_start(comm, &call, &request);
    if (status == TUTTI_SUCCESS) status = tutti_wait(&request);
    return status == TUTTI_SUCCESS ? "" : tutti_last_error(comm);
  }
};

}  // namespace tutti::test
