#include "nccl/settings.h"

#include <cstddef>
#include <memory>

#include "nccl/report.h"

namespace tutti::nccl {

ncclResult_t Settings::read(const char* function, Settings* settings) {
  tutti_config_t* made = nullptr;
  TUTTI_NCCL_TRY(result_of(tutti_config_create(&made), function, nullptr));
  std::unique_ptr<tutti_config_t, decltype(&tutti_config_destroy)> config(made, &tutti_config_destroy);
  const char* value = nullptr;
  TUTTI_NCCL_TRY(result_of(tutti_config_get(config.get(), "nccl_host_memory", &value), function, nullptr));
  settings->takes_host_memory = *value == '1';
  TUTTI_NCCL_TRY(result_of(tutti_config_get(config.get(), "cuda_driver", &value), function, nullptr));
  settings->driver = value;
  return ncclSuccess;
}

ncclResult_t apply_config(const char* function, const ncclConfig_t* config, Settings* settings) {
  if (config == nullptr) return ncclSuccess;
  if (config->magic != NCCL_CONFIG_MAGIC) {
    return refuse(ncclInvalidArgument, "{}: the ncclConfig_t was not initialized: assign NCCL_CONFIG_INITIALIZER",
                  function);
  }
  if (config->size < offsetof(ncclConfig_t, blocking) + sizeof config->blocking) return ncclSuccess;
  if (config->blocking == NCCL_CONFIG_UNDEF_INT) return ncclSuccess;
  if (config->blocking != 0 && config->blocking != 1) {
    return refuse(ncclInvalidArgument, "{}: config.blocking is {}; it is 0 or 1", function, config->blocking);
  }
  settings->is_blocking = config->blocking == 1;
  return ncclSuccess;
}

}  // namespace tutti::nccl
