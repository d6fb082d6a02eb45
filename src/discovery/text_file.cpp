#include "discovery/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/fd.h"

namespace tutti {
namespace {

Status write_all(const Fd& fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    ssize_t count = ::write(fd.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, fmt::format("cannot write {}", path));
    text.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  constexpr size_t kLongest = 64 << 20;
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must not make us wait for its writer
  if (!fd) return system_error(errno, fmt::format("cannot open {}", path));
  std::string text;
  std::array<char, 65536> buffer;
  while (true) {
    ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, fmt::format("cannot read {}", path));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
    if (text.size() > kLongest) return error(Code::kInvalidArgument, "{} is larger than {} bytes", path, kLongest);
  }
}

Status write_text_file(const std::string& path, std::string_view text) {
  std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return system_error(errno, fmt::format("cannot create {}", temporary));
  Status status = write_all(fd, text, temporary);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = system_error(errno, fmt::format("cannot replace {}", path));
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace tutti
