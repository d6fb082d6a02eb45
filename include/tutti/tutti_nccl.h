/* What a layer with the functions of another library needs of tutti besides tutti.h: libnccl.so.2 is made with it. Part
 * of the C API. */
#ifndef TUTTI_TUTTI_NCCL_H
#define TUTTI_TUTTI_NCCL_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ends this rank's part of a communicator: its running and later calls return TUTTI_ABORTED promptly, as after
 * tutti_comm_abort(), but the other ranks go on among each other. A call of theirs that needs this rank fails, and says
 * so, when tutti_comm_finalize() or tutti_comm_destroy() was called here, which then wait for nobody; until then it may
 * say that the link is broken. Where the ranks share a GPU, those on it fail at once. Any thread; idempotent; does not
 * block. */
TUTTI_API tutti_status_t tutti_comm_leave(tutti_comm_t* comm);

#ifdef __cplusplus
}
#endif

#endif
