#include "core/moved_pages.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "base/arithmetic.h"
#include "base/memory.h"

namespace tutti {
namespace {

// One line of /proc/self/maps.
struct MemoryArea {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  std::string access;  // "rw-p"
  unsigned device_major = 0;
  unsigned device_minor = 0;
  uint64_t inode = 0;
  std::string what;    // a file, "[heap]", "[stack]", ""
};

uintptr_t address_of(const std::byte* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

bool parse(const std::string& line, MemoryArea& area) {
  char access[5] = {};
  int consumed = 0;
  int fields = std::sscanf(line.c_str(), "%lx-%lx %4s %*x %x:%x %lu %n", &area.begin, &area.end, access,
                           &area.device_major, &area.device_minor, &area.inode, &consumed);
  if (fields < 6) return false;
  area.access = access;
  area.what = line.substr(static_cast<size_t>(consumed));
  return true;
}

// Ok when all of `pages` is mapped and every area of it is as `is_right` says; else what lies there instead.
Status check_areas(std::span<const std::byte> pages, const std::function<bool(const MemoryArea&)>& is_right) {
  std::ifstream maps("/proc/self/maps");
  if (!maps) return system_error(errno, "cannot read /proc/self/maps");
  uintptr_t at = address_of(pages.data());
  uintptr_t end = at + pages.size();
  std::string line;
  while (at < end && std::getline(maps, line)) {
    MemoryArea area;
    if (!parse(line, area) || area.end <= at) continue;
    if (area.begin > at) break;
    if (!is_right(area)) {
      return error(Code::kInvalidUsage, "{:#x} lies in {} ({})", at, area.what.empty() ? "other memory" : area.what,
                   area.access);
    }
    at = area.end;
  }
  if (at >= end) return {};
  return error(Code::kInvalidUsage, "nothing is mapped at {:#x}", at);
}

bool is_ordinary(const MemoryArea& area) {
  bool has_name = !area.what.empty() && area.what != "[heap]" && !area.what.starts_with("[anon");
  return area.access == "rw-p" && area.inode == 0 && !has_name;
}

Status check_is_ordinary(std::span<const std::byte> pages) {
  Status is_right = check_areas(pages, is_ordinary);
  if (is_right.code() != Code::kInvalidUsage) return is_right;
  return error(Code::kInvalidArgument,
               "{}; only private memory that may be written and is no file's can be registered: of malloc, or of an "
               "anonymous mmap",
               is_right.message());
}

// Pages that are short are an error here, and not the end of the process when it touches them. Kernels before 5.14 do
// not know it.
Status populate(std::span<std::byte> bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  if (::madvise(bytes.data(), bytes.size(), kPopulateWrite) == 0 || errno == EINVAL) return {};
  return memory_error(errno, fmt::format("cannot take {} bytes of memory", bytes.size()));
}

// In pieces, since a signal undoes what one call has taken, and a periodic signal would do so again and again.
Status take_pages(int memfd, size_t size_bytes) {
  constexpr size_t kPieceBytes = 256 * 1024;
  for (size_t at = 0; at < size_bytes;) {
    size_t piece = std::min(kPieceBytes, size_bytes - at);
    int failed = ::fallocate(memfd, 0, static_cast<off_t>(at), static_cast<off_t>(piece));
    if (failed != 0 && errno == EINTR) continue;
    if (failed != 0) return memory_error(errno, fmt::format("cannot take {} bytes of memory", size_bytes));
    at += piece;
  }
  return {};
}

// Takes the place of `pages` for `copy`, which holds the same: whoever reads there meanwhile sees one or the other.
Status put_over(std::span<std::byte> pages, Mapping copy) {
  std::byte* from = copy.release().data();
  if (::mremap(from, pages.size(), pages.size(), MREMAP_MAYMOVE | MREMAP_FIXED, pages.data()) != MAP_FAILED) return {};
  Status failed = memory_error(errno, fmt::format("cannot move {} bytes of memory", pages.size()));
  unsigned char resident = 0;
  bool is_mapped = ::mincore(pages.data(), 1, &resident) == 0;
  if (!is_mapped) end_without_memory();  // what was there goes first
  ::munmap(from, pages.size());
  return failed;
}

}  // namespace

Result<MovedPages> move_onto_memfd(std::span<std::byte> range) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  uintptr_t begin = address_of(range.data());
  uintptr_t end = begin + range.size();
  uintptr_t base = begin / page * page;
  uintptr_t first = ceil_div(begin, page) * page;
  uintptr_t last = end / page * page;
  if (end < begin) return error(Code::kInvalidArgument, "{} bytes are more than any memory", range.size());
  MovedPages moved;
  if (first >= last) return moved;
  moved.pages = {reinterpret_cast<std::byte*>(first), last - first};
  TUTTI_TRY(check_is_ordinary(moved.pages));
  size_t whole = ceil_div(end, page) * page - base;
  moved.fd = TUTTI_TRY(create_memfd("tutti-registered", whole));
  TUTTI_TRY(take_pages(moved.fd.get(), whole));
  moved.mapping = TUTTI_TRY(Mapping::create(moved.fd.get(), whole));
  TUTTI_TRY(populate(moved.mapping.bytes()));
  ::madvise(moved.mapping.bytes().data(), whole, MADV_DONTFORK);
  moved.offset = first - base;
  std::memcpy(moved.mapping.bytes().data() + moved.offset, moved.pages.data(), moved.pages.size());
  // Nobody may fork with them: it is made so before they are at the program's addresses.
  Mapping pages = TUTTI_TRY(Mapping::create(moved.fd.get(), moved.pages.size(), moved.offset));
  ::madvise(pages.bytes().data(), pages.bytes().size(), MADV_DONTFORK);
  TUTTI_TRY(populate(pages.bytes()));
  TUTTI_TRY(put_over(moved.pages, std::move(pages)));
  return moved;
}

Status check_is_there(const MovedPages& moved) {
  if (moved.pages.empty()) return {};
  struct stat file {};
  if (::fstat(moved.fd.get(), &file) != 0) return system_error(errno, "cannot look at shared memory (fstat)");
  Status is_right = check_areas(moved.pages, [&](const MemoryArea& area) {
    return area.inode == file.st_ino && area.device_major == major(file.st_dev) &&
           area.device_minor == minor(file.st_dev);
  });
  if (is_right.code() != Code::kInvalidUsage) return is_right;
  return error(Code::kInvalidUsage,
               "{}: the memory was freed or mapped anew while it was registered; deregister it before that",
               is_right.message());
}

Status move_back(const MovedPages& moved) {
  if (moved.pages.empty()) return {};
  TUTTI_TRY(check_is_there(moved));
  Mapping pages = TUTTI_TRY(Mapping::create_private(moved.pages.size()));
  TUTTI_TRY(populate(pages.bytes()));
  std::memcpy(pages.bytes().data(), moved.mapping.bytes().data() + moved.offset, moved.pages.size());
  return put_over(moved.pages, std::move(pages));
}

}  // namespace tutti
