#include <catch2/catch.hpp>

#include "discovery/discover.h"
#include "discovery/machine.h"

using namespace tutti;

namespace {

constexpr const char* kVersion2 = "26 23 0:23 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw";

uint64_t limit(const std::string& cgroup, std::vector<std::string> mounts, TextMap files) {
  Machine machine;
  machine.hwloc_synthetic = "pu:1";
  machine.files = std::move(files);
  machine.files["/proc/self/cgroup"] = cgroup;
  machine.cgroup_mounts = std::move(mounts);
  auto inventory = discover(machine);
  INFO(inventory.status().message());
  REQUIRE(inventory.ok());
  return inventory->limits.memory_limit_bytes;
}

}  // namespace

TEST_CASE("the tightest limit of a group and its ancestors holds") {
  CHECK(limit("0::/a/b\n", {kVersion2},
              {{"/sys/fs/cgroup/a/b/memory.max", "300\n"}, {"/sys/fs/cgroup/a/memory.max", "200\n"}}) == 200);
  CHECK(limit("0::/a/b\n", {kVersion2},
              {{"/sys/fs/cgroup/a/b/memory.max", "100\n"}, {"/sys/fs/cgroup/a/memory.max", "200\n"}}) == 100);
}

TEST_CASE("no limit is no limit, in either version") {
  CHECK(limit("0::/\n", {kVersion2}, {}) == 0);
  CHECK(limit("0::/a\n", {kVersion2}, {{"/sys/fs/cgroup/a/memory.max", "max\n"}}) == 0);
  CHECK(limit("4:memory:/\n", {"30 23 0:30 / /cg/memory rw - cgroup cgroup rw,memory"},
              {{"/cg/memory/memory.limit_in_bytes", "9223372036854771712\n"}}) == 0);
}

TEST_CASE("version 1 with the memory controller among others") {
  CHECK(limit("3:cpu,memory:/job\n0::/\n", {"30 23 0:30 / /cg/mem rw - cgroup cgroup rw,cpu,memory", kVersion2},
              {{"/cg/mem/job/memory.limit_in_bytes", "700\n"}, {"/sys/fs/cgroup/job/memory.max", "5\n"}}) == 700);
}

TEST_CASE("in a container the mount shows the group itself") {
  std::string mount = "30 23 0:30 /docker/1 /cg/memory rw - cgroup cgroup rw,memory";
  CHECK(limit("4:memory:/docker/1/sub\n", {mount}, {{"/cg/memory/sub/memory.limit_in_bytes", "50\n"}}) == 50);
  CHECK(limit("4:memory:/docker/1\n", {mount}, {{"/cg/memory/memory.limit_in_bytes", "60\n"}}) == 60);
  CHECK(limit("4:memory:/docker/10\n", {mount}, {{"/cg/memory/memory.limit_in_bytes", "70\n"}}) == 70);
}

TEST_CASE("lines that make no sense are passed over") {
  CHECK(limit("garbage\n\n::\n", {"", "1 2", "- cgroup2"}, {}) == 0);
}
