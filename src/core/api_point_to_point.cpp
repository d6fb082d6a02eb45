// The C entry points of sends and receives.
#include "core/api_call.h"
#include "base/guard.h"
#include "core/handles.h"

using namespace tutti;

extern "C" {

tutti_status_t tutti_send(const void* send_buffer, uint64_t count, tutti_datatype_t datatype, int peer, int tag,
                          tutti_comm_t* comm, tutti_stream_t stream) {
  return run_call(comm, stream, {.collective = TUTTI_SEND,
                                 .datatype = datatype,
                                 .count = count,
                                 .input = input(send_buffer),
                                 .peer = peer,
                                 .tag = tag});
}

tutti_status_t tutti_recv(void* recv_buffer, uint64_t count, tutti_datatype_t datatype, int peer, int tag,
                          tutti_comm_t* comm, tutti_stream_t stream, tutti_message_t* message) {
  return run_call(comm, stream, {.collective = TUTTI_RECV,
                                 .datatype = datatype,
                                 .count = count,
                                 .output = output(recv_buffer),
                                 .peer = peer,
                                 .tag = tag,
                                 .message = message});
}

tutti_status_t tutti_send_recv(const void* send_buffer, uint64_t send_count, int dest, int send_tag, void* recv_buffer,
                               uint64_t recv_count, int source, int recv_tag, tutti_datatype_t datatype,
                               tutti_comm_t* comm, tutti_stream_t stream, tutti_message_t* message) {
  CallArguments send{.collective = TUTTI_SEND,
                     .datatype = datatype,
                     .count = send_count,
                     .input = input(send_buffer),
                     .peer = dest,
                     .tag = send_tag};
  CallArguments receive{.collective = TUTTI_RECV,
                        .datatype = datatype,
                        .count = recv_count,
                        .output = output(recv_buffer),
                        .peer = source,
                        .tag = recv_tag,
                        .message = message};
  return with_communicator(comm, "tutti_send_recv", [&]() -> Status {
    TUTTI_TRY(check_apart(send, receive));
    return run_pair(*comm, stream, send, receive);
  });
}

}  // extern "C"
