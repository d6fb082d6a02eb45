#include "device/devices.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

#include "base/log.h"

namespace tutti {
namespace {

constexpr const char* kModuleFile = "libtutti_cuda.so";

// How many libraries the process has loaded so far.
uint64_t loads() {
  uint64_t count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<uint64_t*>(result) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

// The folder of the library, or the program, that this code is part of.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&loads), &info) == 0 || info.dli_fname == nullptr) return ".";
  return std::filesystem::path(info.dli_fname).parent_path();
}

bool is_loaded(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

}  // namespace

void Devices::configure(DeviceOptions options) {
  std::lock_guard lock(mutex_);
  bool is_new = options.driver != options_.driver || options.module != options_.module;
  options_ = std::move(options);
  if (!is_new) return;
  failure_ = {};
  loads_seen_.store(0, std::memory_order_release);
}

DeviceModule* Devices::if_used() {
  DeviceModule* module = opened_.load(std::memory_order_acquire);
  if (module != nullptr) return module;
  uint64_t now = loads();
  // Nothing new is loaded since somebody looked; who may have opened it meanwhile.
  if (loads_seen_.load(std::memory_order_acquire) == now) return opened_.load(std::memory_order_acquire);
  std::lock_guard lock(mutex_);
  if (opened_.load(std::memory_order_relaxed) == nullptr && failure_.ok() && is_loaded(options_.driver)) {
    failure_ = open();
    if (!failure_.ok()) log_warn("{}; calls on its streams are refused", failure_.message());
  }
  loads_seen_.store(loads(), std::memory_order_release);
  return opened_.load(std::memory_order_relaxed);
}

Status Devices::open() {
  std::string path = options_.module.empty() ? own_folder() / kModuleFile : std::filesystem::path(options_.module);
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return error(Code::kCuda,
                 "this program uses CUDA, but tutti's module for it cannot be opened ({}); install libtutti_cuda.so "
                 "beside libtutti.so, or name it with TUTTI_CUDA_MODULE",
                 why == nullptr ? path : why);
  }
  auto entry = reinterpret_cast<OpenModule>(::dlsym(handle, kModuleEntry));
  if (entry == nullptr) return error(Code::kCuda, "{} is no module of tutti: it has no {}", path, kModuleEntry);
  Status why;
  DeviceModule* module = entry(TUTTI_VERSION, options_.driver.c_str(), &why);
  if (module == nullptr) return why;
  opened_.store(module, std::memory_order_release);
  log_debug("opened {} over {}", path, options_.driver);
  return {};
}

Status Devices::why_not() const {
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return Status(failure_).within("calls on streams are refused");
  return error(Code::kInvalidArgument, "host buffers take no stream; pass NULL (this process has not loaded {})",
               options_.driver);
}

}  // namespace tutti
