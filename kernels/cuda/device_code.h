// The device code that is built into the module.
#pragma once

#include <span>

namespace tutti::cuda {

struct DeviceCode {
  const void* image = nullptr;  // a fat binary, as cuModuleLoadData() takes it; null where none was built
  std::span<const char* const> kernels;
};

extern const DeviceCode kFusedCode;
extern const DeviceCode kProgramCode;

}  // namespace tutti::cuda
