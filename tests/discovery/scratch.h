// Places for what one test writes.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>

#include "base/config.h"

namespace tutti {

// A folder for one test, removed with all that is in it.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

// The cache folder for as long as this lives.
class CacheHome {
 public:
  explicit CacheHome(const std::string& folder) : before_(environment(kName)) { ::setenv(kName, folder.c_str(), 1); }
  ~CacheHome() { before_ ? ::setenv(kName, before_->c_str(), 1) : ::unsetenv(kName); }
  CacheHome(const CacheHome&) = delete;
  CacheHome& operator=(const CacheHome&) = delete;

 private:
  static constexpr const char* kName = "XDG_CACHE_HOME";
  std::optional<std::string> before_;
};

}  // namespace tutti
