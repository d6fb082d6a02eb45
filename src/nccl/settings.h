// What a communicator is made with: tutti's options, and what tutti looks at of an ncclConfig_t.
#pragma once

#include <optional>
#include <string>

#include "nccl/abi.h"

namespace tutti::nccl {

struct Settings {
  bool is_blocking = true;
  bool takes_host_memory = false;  // option "nccl_host_memory"
  std::string driver;              // option "cuda_driver"

  // Of the environment. Errors: an option has no acceptable value.
  static ncclResult_t read(const char* function, Settings* settings);
};

// Lays what the program has set over `settings`. The struct may be of another version of NCCL: it is read as far as its
// size says. `config` may be null. Errors: it was not initialized, or says what cannot be.
ncclResult_t apply_config(const char* function, const ncclConfig_t* config, Settings* settings);

}  // namespace tutti::nccl
