/* What programs built for NCCL 2.28.9 expect of libnccl.so.2: types, values and functions, by NCCL's names, since those
 * are the interface. What the functions do is NCCL's documentation to say; docs/nccl.md says where tutti differs. No
 * header of CUDA or NCCL is needed, and a program never includes this one. */
#ifndef TUTTI_NCCL_ABI_H
#define TUTTI_NCCL_ABI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

/* NOLINTBEGIN(readability-identifier-naming): names of NCCL */
#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st* cudaStream_t;

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_VERSION_CODE 22809

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef TUTTI_ENUM(ncclResult_enum) {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00

#define NCCL_CONFIG_MAGIC 0xcafebeefU
typedef struct ncclConfig_v22800 {
  size_t size;          /* of this struct in the header that the program was built with; then magic and version */
  unsigned int magic;
  unsigned int version;
  int blocking;         /* tutti looks at this one alone: the others tune NCCL's own kernels and network code */
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                                      \
  {                                                                                                                  \
    sizeof(ncclConfig_t), NCCL_CONFIG_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                  \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                  \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                   \
  }

#define NCCL_SIM_INFO_MAGIC 0x74685283U
typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* in microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER {sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT}

typedef TUTTI_ENUM(ncclRedOp_enum) {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef TUTTI_ENUM(ncclDataType_enum) {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef TUTTI_ENUM(ncclScalarResidence_enum) {
  ncclScalarDevice = 0,
  ncclScalarHostImmediate = 1
} ncclScalarResidence_t;

/* ---- Lifecycle, errors, memory ------------------------------------------------------------------------------ */

TUTTI_API ncclResult_t ncclGetVersion(int* version);
TUTTI_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
TUTTI_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank);
TUTTI_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                              ncclConfig_t* config);
TUTTI_API ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int nids, ncclUniqueId* ids,
                                                ncclConfig_t* config);
TUTTI_API ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndevices, const int* devices);
TUTTI_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);
TUTTI_API ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* newcomm,
                                      ncclConfig_t* config, int flags);
TUTTI_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
TUTTI_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
TUTTI_API ncclResult_t ncclCommAbort(ncclComm_t comm);
TUTTI_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);
TUTTI_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
TUTTI_API ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
TUTTI_API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
TUTTI_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);
TUTTI_API const char* ncclGetErrorString(ncclResult_t result);
TUTTI_API const char* ncclGetLastError(ncclComm_t comm);
TUTTI_API void ncclResetDebugInit(void);

TUTTI_API ncclResult_t ncclMemAlloc(void** pointer, size_t size);
TUTTI_API ncclResult_t ncclMemFree(void* pointer);
TUTTI_API ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t size, void** handle);
TUTTI_API ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
TUTTI_API ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window,
                                              int flags);
TUTTI_API ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);

TUTTI_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                                ncclScalarResidence_t residence, ncclComm_t comm);
TUTTI_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- Calls and groups --------------------------------------------------------------------------------------- */

TUTTI_API ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                                  int root, ncclComm_t comm, cudaStream_t stream);
TUTTI_API ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream);
TUTTI_API ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t datatype, int root,
                                     ncclComm_t comm, cudaStream_t stream);
TUTTI_API ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
TUTTI_API ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t recv_count, ncclDataType_t datatype,
                                         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
TUTTI_API ncclResult_t ncclAllGather(const void* send, void* recv, size_t send_count, ncclDataType_t datatype,
                                     ncclComm_t comm, cudaStream_t stream);
TUTTI_API ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                                    ncclComm_t comm, cudaStream_t stream);
TUTTI_API ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t datatype, int root,
                                  ncclComm_t comm, cudaStream_t stream);
TUTTI_API ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t datatype, int root,
                                   ncclComm_t comm, cudaStream_t stream);
TUTTI_API ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                cudaStream_t stream);
TUTTI_API ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                cudaStream_t stream);

TUTTI_API ncclResult_t ncclGroupStart(void);
TUTTI_API ncclResult_t ncclGroupEnd(void);
TUTTI_API ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info);

/* ---- The host's side of the device API ---------------------------------------------------------------------- */

typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;

/* void*: structs that tutti never looks into. */
TUTTI_API ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* device_comm);
TUTTI_API ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* device_comm);
TUTTI_API ncclTeam_t ncclTeamWorld(ncclComm_t comm);
TUTTI_API ncclTeam_t ncclTeamLsa(ncclComm_t comm);
TUTTI_API ncclTeam_t ncclTeamRail(ncclComm_t comm);
TUTTI_API int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
TUTTI_API int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
TUTTI_API int ncclLLA2ACalcSlots(int max_elements, int max_element_size);
TUTTI_API ncclResult_t ncclLLA2ACreateRequirement(int nblocks, int nslots, void* handle, void* requirements);
TUTTI_API ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int nbarriers, void* handle,
                                                       void* requirements);
TUTTI_API ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nbarriers, void* handle,
                                                       void* requirements);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(readability-identifier-naming) */

#endif
