#include "json_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace tutti::bench {

JsonFile::JsonFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w"), std::fclose) {
  if (!file_) fail();
}

void JsonFile::write(const std::string& text) {
  bool written = std::fputs(text.c_str(), file_.get()) >= 0 && std::fflush(file_.get()) == 0;
  if (!written) fail();
}

void JsonFile::fail() const {
  throw std::runtime_error(
      fmt::format("cannot write {}: {}; name another file with --json, where there is room and this user may write",
                  path_, std::strerror(errno)));
}

}  // namespace tutti::bench
