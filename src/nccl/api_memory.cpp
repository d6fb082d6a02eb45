// Entry points of memory, and of operations whose scalar lies there.
#include <utility>

#include "nccl/handles.h"
#include "nccl/report.h"

namespace tutti::nccl {
namespace {

ncclResult_t allocate(void** pointer, size_t size) {
  const char* function = "ncclMemAlloc";
  if (pointer == nullptr) return null_argument(function, "ptr");
  *pointer = nullptr;
  if (size == 0) return refuse(ncclInvalidArgument, "{}: the size is 0", function);
  Settings settings;
  TUTTI_NCCL_TRY(Settings::read(function, &settings));
  std::string why;
  const Gpu* gpu = Gpu::driver(settings.driver, !settings.takes_host_memory, &why);
  if (gpu != nullptr) return gpu->allocate(function, size, pointer);
  if (settings.takes_host_memory) return result_of(tutti_mem_alloc(pointer, size), function, nullptr);
  return refuse(ncclUnhandledCudaError, "{}: {}; TUTTI_NCCL_HOST_MEMORY=1 makes do with memory of the host", function,
                why);
}

ncclResult_t free(void* pointer) {
  const char* function = "ncclMemFree";
  if (pointer == nullptr) return ncclSuccess;
  Settings settings;
  TUTTI_NCCL_TRY(Settings::read(function, &settings));
  const Gpu* gpu = Gpu::driver(settings.driver, false);
  if (gpu != nullptr && !gpu->is_host_alone(pointer)) return gpu->free(function, pointer);
  return result_of(tutti_mem_free(pointer), function, nullptr);
}

ncclResult_t check_range(const char* function, const void* buffer, size_t size) {
  if (buffer == nullptr) return null_argument(function, "buff");
  if (size == 0) return refuse(ncclInvalidArgument, "{}: the size is 0", function);
  return ncclSuccess;
}

ncclResult_t create_op(ncclRedOp_t* op, const void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                       ncclComm_t comm) {
  const char* function = "ncclRedOpCreatePreMulSum";
  if (op == nullptr) return null_argument(function, "op");
  if (scalar == nullptr) return null_argument(function, "scalar");
  std::shared_ptr<Communicator> communicator;
  TUTTI_NCCL_TRY(find_usable(function, comm, &communicator));
  auto type = static_cast<tutti_datatype_t>(datatype);
  if (tutti_datatype_size(type) == 0) {
    return refuse(ncclInvalidArgument, "{}: there is no datatype {}", function, static_cast<int>(datatype));
  }
  if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) {
    return refuse(ncclInvalidArgument, "{}: there is no residence {}", function, static_cast<int>(residence));
  }
  const Gpu* gpu = communicator->place().gpu;
  if (residence == ncclScalarDevice && gpu != nullptr && !gpu->is_host_alone(scalar)) {
    *op = communicator->add_scalar({scalar, datatype});
    return ncclSuccess;
  }
  tutti_op_t made = TUTTI_SUM;
  Communicator::Use use(std::move(communicator));
  tutti_status_t status = tutti_op_create_pre_mul_sum(&made, scalar, type, use->get());
  TUTTI_NCCL_TRY(result_of(status, function, use->get()));
  *op = static_cast<ncclRedOp_t>(made);
  return ncclSuccess;
}

ncclResult_t destroy_op(ncclRedOp_t op, ncclComm_t comm) {
  const char* function = "ncclRedOpDestroy";
  std::shared_ptr<Communicator> communicator;
  TUTTI_NCCL_TRY(find_communicator(function, comm, &communicator));
  if (op < ncclNumOps) {
    return refuse(ncclInvalidArgument, "{}: operation {} is one of NCCL's own", function, static_cast<int>(op));
  }
  if (communicator->remove_scalar(op)) return ncclSuccess;
  Communicator::Use use(communicator);
  return result_of(tutti_op_destroy(static_cast<tutti_op_t>(op), use->get()), function, use->get());
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;

extern "C" {

ncclResult_t ncclMemAlloc(void** pointer, size_t size) {
  return guarded("ncclMemAlloc", [&] { return allocate(pointer, size); });
}

ncclResult_t ncclMemFree(void* pointer) {
  return guarded("ncclMemFree", [&] { return tutti::nccl::free(pointer); });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t size, void** handle) {
  const char* function = "ncclCommRegister";
  return guarded(function, [&] {
    if (handle == nullptr) return null_argument(function, "handle");
    *handle = nullptr;
    TUTTI_NCCL_TRY(check_range(function, buffer, size));
    std::shared_ptr<Communicator> communicator;
    TUTTI_NCCL_TRY(find_usable(function, comm, &communicator));
    return Communicator::Use(std::move(communicator))->register_memory(function, buffer, size, handle);
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  const char* function = "ncclCommDeregister";
  return guarded(function, [&] {
    std::shared_ptr<Communicator> communicator;
    TUTTI_NCCL_TRY(find_communicator(function, comm, &communicator));
    return handle == nullptr ? ncclSuccess : communicator->deregister_memory(function, handle);
  });
}

/* As NCCL does where no kernel can reach the memory of other ranks: success, and no window. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window, int flags) {
  const char* function = "ncclCommWindowRegister";
  return guarded(function, [&] {
    if (window == nullptr) return null_argument(function, "win");
    *window = nullptr;
    TUTTI_NCCL_TRY(check_range(function, buffer, size));
    if ((flags & ~NCCL_WIN_COLL_SYMMETRIC) != 0) {
      return refuse(ncclInvalidArgument, "{}: there are no flags {:#x}", function, flags);
    }
    std::shared_ptr<Communicator> communicator;
    return find_usable(function, comm, &communicator);
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  const char* function = "ncclCommWindowDeregister";
  return guarded(function, [&] {
    std::shared_ptr<Communicator> communicator;
    TUTTI_NCCL_TRY(find_communicator(function, comm, &communicator));
    if (window == nullptr) return ncclSuccess;
    return refuse(ncclInvalidArgument, "{}: ncclCommWindowRegister gave no such window", function);
  });
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded("ncclRedOpCreatePreMulSum", [&] { return create_op(op, scalar, datatype, residence, comm); });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guarded("ncclRedOpDestroy", [&] { return destroy_op(op, comm); });
}

}  // extern "C"

TUTTI_NCCL_TWIN(MemAlloc);
TUTTI_NCCL_TWIN(MemFree);
TUTTI_NCCL_TWIN(CommRegister);
TUTTI_NCCL_TWIN(CommDeregister);
TUTTI_NCCL_TWIN(CommWindowRegister);
TUTTI_NCCL_TWIN(CommWindowDeregister);
TUTTI_NCCL_TWIN(RedOpCreatePreMulSum);
TUTTI_NCCL_TWIN(RedOpDestroy);
