// Sends and receives of MPI.
#include <mpi.h>

#include <cstring>
#include <vector>

#include "transfer.h"

namespace differential {
namespace {

int source_of(const Transfer& receive) { return receive.peer == TUTTI_ANY_SOURCE ? MPI_ANY_SOURCE : receive.peer; }
int tag_of(const Transfer& receive) { return receive.tag == TUTTI_ANY_TAG ? MPI_ANY_TAG : receive.tag; }

MPI_Request start(Transfer& transfer, const Job& job) {
  auto count = static_cast<int>(transfer.count);
  MPI_Datatype type = mpi_unsigned(transfer.datatype->size);
  MPI_Request request;
  if (transfer.receives) {
    transfer.mpi_data.resize(transfer.count * transfer.datatype->size);
    MPI_Irecv(transfer.mpi_data.data(), count, type, source_of(transfer), tag_of(transfer), job.mpi, &request);
  } else {
    MPI_Isend(transfer.data(), count, type, transfer.peer, transfer.tag, job.mpi, &request);
  }
  return request;
}

tutti_message_t message_of(MPI_Status& status, const Datatype& type) {
  int count = 0;
  MPI_Get_count(&status, mpi_unsigned(type.size), &count);
  return {status.MPI_SOURCE, status.MPI_TAG, static_cast<uint64_t>(count)};
}

}  // namespace

void ask_mpi(std::vector<Transfer>& transfers, const Jobs& jobs) {
  std::vector<MPI_Request> requests;
  for (Transfer& each : transfers) requests.push_back(start(each, jobs[each.communicator]));
  std::vector<MPI_Status> statuses(requests.size());
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data());
  for (size_t i = 0; i < transfers.size(); ++i) {
    Transfer& each = transfers[i];
    if (!each.receives) continue;
    each.mpi_message = message_of(statuses[i], *each.datatype);
    each.mpi_data.resize(each.mpi_message.count * each.datatype->size);
  }
}

}  // namespace differential
