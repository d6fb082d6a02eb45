// The machine that this process runs on.
#pragma once

#include "discovery/system_view.h"

namespace tutti {

class LiveSystem final : public SystemView {
 public:
  std::optional<std::string> read_file(const std::string& path) override;
  std::optional<std::string> read_link(const std::string& path) override;
  std::vector<std::string> list_folder(const std::string& path) override;
  std::vector<std::string> cgroup_mounts() override;
  Result<HwlocTopology> hwloc() override;
  Result<std::vector<Interface>> interfaces() override;
  Result<ProcessFacts> process() override;
  uint64_t filesystem_bytes(const std::string& path) override;
  std::vector<ManagedGpu> managed_gpus() override;
  bool has_library(const std::string& name, const std::string& function) override;
  bool may_open(const std::string& path) override;
};

}  // namespace tutti
