// NVIDIA's management library, which knows what the kernel's files do not tell of GPUs: their NVLinks.
#pragma once

#include <string>
#include <vector>

#include "discovery/system_view.h"

namespace tutti {

// What the library, by name or path, says of this machine's GPUs. None where it is absent or lacks a function, or where
// it finds no driver. Opened and closed again; that initializes no CUDA. May take some hundred ms.
std::vector<ManagedGpu> ask_nvml(const std::string& library);

}  // namespace tutti
