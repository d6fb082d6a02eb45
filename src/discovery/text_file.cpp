#include "discovery/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/config.h"
#include "base/fd.h"

namespace tutti {
namespace {

Status file_error(int errno_value, std::string_view what, const std::string& path, std::string_view remedy) {
  Status status = system_error(errno_value, fmt::format("cannot {} {}", what, path));
  return error(status.code(), "{}; {}", status.message(), remedy);
}

Status unreadable(int errno_value, std::string_view what, const std::string& path) {
  return file_error(errno_value, what, path, "name a file that this user may read");
}

Status unwritable(int errno_value, std::string_view what, const std::string& path) {
  return file_error(errno_value, what, path, "name a file where this user may write");
}

Status write_all(const Fd& fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    ssize_t count = ::write(fd.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unwritable(errno, "write", path);
    text.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

// A new file beside `path`, for this call alone, which need not be the only one in this process. Its mode follows the
// umask, which mkstemp()'s does not. None: errno says why.
Fd create_beside(const std::string& path, std::string* name) {
  static std::atomic<unsigned> created{0};
  Fd fd;
  do {
    *name = fmt::format("{}.{}.{}.tmp", path, ::getpid(), created.fetch_add(1));
    fd = Fd(::open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  } while (!fd && errno == EEXIST);  // left behind by a process of the same number
  return fd;
}

// A device, a pipe.
Status write_in_place(const std::string& path, std::string_view text) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd ? write_all(fd, text, path) : unwritable(errno, "open", path);
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  constexpr size_t kLongest = 64 << 20;
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must not make us wait for its writer
  if (!fd) return unreadable(errno, "open", path);
  std::string text;
  std::array<char, 65536> buffer;
  while (true) {
    ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unreadable(errno, "read", path);
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
    if (text.size() > kLongest) {
      return error(Code::kInvalidArgument,
                   "{} has more than {} bytes, which no file that tutti reads has; is it another?", path, kLongest);
    }
  }
}

std::string cache_folder() {
  std::string cache = environment("XDG_CACHE_HOME").value_or("");
  if (!cache.empty()) return cache + "/tutti";
  std::string home = environment("HOME").value_or("");
  return home.empty() ? "" : home + "/.cache/tutti";
}

Status make_folder_of(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) return {};
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return system_error(failure.value(), fmt::format("cannot create {}", folder.string()));
  return {};
}

Status write_text_file(const std::string& path, std::string_view text) {
  struct stat existing {};
  bool exists = ::stat(path.c_str(), &existing) == 0;
  if (exists && !S_ISREG(existing.st_mode)) return write_in_place(path, text);
  std::error_code unknown;
  std::string file = exists ? std::filesystem::canonical(path, unknown).string() : path;  // a link stays one
  if (file.empty()) file = path;
  std::string temporary;
  Fd fd = create_beside(file, &temporary);
  if (!fd) return unwritable(errno, "create", temporary);
  if (exists) (void)::fchmod(fd.get(), existing.st_mode & 0777);
  Status status = write_all(fd, text, temporary);
  if (status.ok() && ::rename(temporary.c_str(), file.c_str()) != 0) {
    status = unwritable(errno, "replace", path);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace tutti
