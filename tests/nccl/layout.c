/* Prints what the interface says that programs are built with: sizes, places and values. Compiled once with NCCL's
 * header and once with ours, it must print the same. */
#include <stddef.h>
#include <stdio.h>

#include "nccl/interface.h"

#define VALUE(name) printf("%s %lld\n", #name, (long long)(name))
#define SIZE(type) printf("sizeof %s %zu\n", #type, sizeof(type))
#define PLACE(type, field) printf("%s.%s %zu %zu\n", #type, #field, offsetof(type, field), sizeof(((type*)0)->field))

static void print_config(void) {
  SIZE(ncclConfig_t);
  PLACE(ncclConfig_t, size);
  PLACE(ncclConfig_t, magic);
  PLACE(ncclConfig_t, version);
  PLACE(ncclConfig_t, blocking);
  PLACE(ncclConfig_t, cgaClusterSize);
  PLACE(ncclConfig_t, minCTAs);
  PLACE(ncclConfig_t, maxCTAs);
  PLACE(ncclConfig_t, netName);
  PLACE(ncclConfig_t, splitShare);
  PLACE(ncclConfig_t, trafficClass);
  PLACE(ncclConfig_t, commName);
  PLACE(ncclConfig_t, collnetEnable);
  PLACE(ncclConfig_t, CTAPolicy);
  PLACE(ncclConfig_t, shrinkShare);
  PLACE(ncclConfig_t, nvlsCTAs);
  PLACE(ncclConfig_t, nChannelsPerNetPeer);
  PLACE(ncclConfig_t, nvlinkCentricSched);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  VALUE(config.size);
  VALUE(config.magic);
  VALUE(config.version);
  VALUE(config.blocking);
  VALUE(config.nvlinkCentricSched);
  VALUE(config.netName == NULL);
  VALUE(config.commName == NULL);
  SIZE(ncclSimInfo_t);
  PLACE(ncclSimInfo_t, size);
  PLACE(ncclSimInfo_t, magic);
  PLACE(ncclSimInfo_t, version);
  PLACE(ncclSimInfo_t, estimatedTime);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  VALUE(info.size);
  VALUE(info.magic);
  VALUE(info.version);
  VALUE(info.estimatedTime == NCCL_UNDEF_FLOAT);
}

static void print_values(void) {
  VALUE(NCCL_VERSION_CODE);
  VALUE(NCCL_SPLIT_NOCOLOR);
  VALUE(NCCL_WIN_DEFAULT);
  VALUE(NCCL_WIN_COLL_SYMMETRIC);
  VALUE(NCCL_WIN_REQUIRED_ALIGNMENT);
  VALUE(NCCL_SHRINK_DEFAULT);
  VALUE(NCCL_SHRINK_ABORT);
  VALUE(NCCL_REVOKE_DEFAULT);
  VALUE(NCCL_CONFIG_UNDEF_INT);
  VALUE(NCCL_CTA_POLICY_DEFAULT);
  VALUE(NCCL_CTA_POLICY_EFFICIENCY);
  VALUE(NCCL_CTA_POLICY_ZERO);
  VALUE(ncclSuccess);
  VALUE(ncclUnhandledCudaError);
  VALUE(ncclSystemError);
  VALUE(ncclInternalError);
  VALUE(ncclInvalidArgument);
  VALUE(ncclInvalidUsage);
  VALUE(ncclRemoteError);
  VALUE(ncclInProgress);
  VALUE(ncclNumResults);
  VALUE(ncclSum);
  VALUE(ncclProd);
  VALUE(ncclMax);
  VALUE(ncclMin);
  VALUE(ncclAvg);
  VALUE(ncclNumOps);
  VALUE(ncclMaxRedOp);
  VALUE(ncclScalarDevice);
  VALUE(ncclScalarHostImmediate);
}

static void print_types(void) {
  VALUE(ncclInt8);
  VALUE(ncclChar);
  VALUE(ncclUint8);
  VALUE(ncclInt32);
  VALUE(ncclInt);
  VALUE(ncclUint32);
  VALUE(ncclInt64);
  VALUE(ncclUint64);
  VALUE(ncclFloat16);
  VALUE(ncclHalf);
  VALUE(ncclFloat32);
  VALUE(ncclFloat);
  VALUE(ncclFloat64);
  VALUE(ncclDouble);
  VALUE(ncclBfloat16);
  VALUE(ncclFloat8e4m3);
  VALUE(ncclFloat8e5m2);
  VALUE(ncclNumTypes);
  SIZE(ncclUniqueId);
  SIZE(ncclResult_t);
  SIZE(ncclRedOp_t);
  SIZE(ncclDataType_t);
  SIZE(ncclScalarResidence_t);
  SIZE(ncclComm_t);
  SIZE(ncclWindow_t);
  SIZE(cudaStream_t);
}

int main(void) {
  print_config();
  print_values();
  print_types();
  return 0;
}
