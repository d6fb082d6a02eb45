#include "discovery/live_system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <limits>
#include <memory>
#include <sstream>

#include "base/fd.h"
#include "discovery/hwloc_load.h"
#include "discovery/nvml.h"
#include "topology/cpu_list.h"

namespace tutti {
namespace {

Result<std::vector<int>> affinity_mask() {
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  // The kernel refuses sets that are smaller than its own.
  for (int cpus = 1024; cpus <= kMaxCpus; cpus *= 4) {
    size_t size = CPU_ALLOC_SIZE(cpus);
    std::unique_ptr<cpu_set_t, Free> set(CPU_ALLOC(cpus));
    if (set == nullptr) return Status(Code::kSystem, "cannot read the affinity mask: out of memory");
    if (::sched_getaffinity(0, size, set.get()) == 0) {
      std::vector<int> allowed;
      for (int cpu = 0; cpu < cpus; ++cpu) {
        if (CPU_ISSET_S(cpu, size, set.get())) allowed.push_back(cpu);
      }
      return allowed;
    }
    if (errno != EINVAL) break;
  }
  return system_error(errno, "cannot read the affinity mask");
}

Result<uint64_t> resource_limit(int resource, std::string_view what) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return system_error(errno, what);
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(limit.rlim_cur);
}

}  // namespace

std::optional<std::string> LiveSystem::read_file(const std::string& path) {
  constexpr size_t kLongest = 4 << 20;
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  std::string contents;
  std::array<char, 4096> buffer;
  while (contents.size() < kLongest) {
    ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    contents.append(buffer.data(), static_cast<size_t>(count));
  }
  return contents;
}

std::optional<std::string> LiveSystem::read_link(const std::string& path) {
  std::array<char, PATH_MAX> target;
  ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) return std::nullopt;
  return std::string(target.data(), static_cast<size_t>(size));
}

std::vector<std::string> LiveSystem::list_folder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(path, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> LiveSystem::cgroup_mounts() {
  std::vector<std::string> mounts;
  std::istringstream lines(read_file("/proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" - cgroup") != std::string::npos) mounts.push_back(line);
  }
  return mounts;
}

Result<HwlocTopology> LiveSystem::hwloc() { return load_hwloc(); }

Result<ProcessFacts> LiveSystem::process() {
  utsname names{};
  if (::uname(&names) != 0) return system_error(errno, "cannot read the host's name");
  ProcessFacts facts;
  facts.hostname = names.nodename;
  facts.kernel = names.release;
  facts.architecture = names.machine;
  facts.allowed_cpus = TUTTI_TRY(affinity_mask());
  facts.memlock_bytes = TUTTI_TRY(resource_limit(RLIMIT_MEMLOCK, "cannot read the limit of locked memory"));
  facts.open_files = TUTTI_TRY(resource_limit(RLIMIT_NOFILE, "cannot read the limit of open files"));
  return facts;
}

uint64_t LiveSystem::filesystem_bytes(const std::string& path) {
  struct statvfs facts {};
  if (::statvfs(path.c_str(), &facts) != 0) return 0;
  return static_cast<uint64_t>(facts.f_blocks) * facts.f_frsize;
}

// Asked once: it takes long, and wires stay where they are while a process lives.
std::vector<ManagedGpu> LiveSystem::managed_gpus() {
  static const std::vector<ManagedGpu> known = ask_nvml("libnvidia-ml.so.1");
  return known;
}

bool LiveSystem::has_library(const std::string& name, const std::string& function) {
  void* library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  bool has_it = function.empty() || ::dlsym(library, function.c_str()) != nullptr;
  ::dlclose(library);
  return has_it;
}

bool LiveSystem::may_open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  return fd || (errno != EACCES && errno != EPERM);
}

}  // namespace tutti
