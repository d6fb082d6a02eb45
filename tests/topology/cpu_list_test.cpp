#include "topology/cpu_list.h"

#include <catch2/catch.hpp>

using namespace tutti;

TEST_CASE("CPU lists read what the kernel writes") {
  CHECK(parse_cpu_list("0-3,8") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("5") == std::vector<int>{5});
  CHECK(parse_cpu_list("") == std::vector<int>{});
  CHECK(parse_cpu_list("2,0-2") == std::vector<int>{0, 1, 2});
}

TEST_CASE("CPU lists are written shortest and read back the same") {
  CHECK(format_cpu_list(std::vector<int>{}) == "");
  CHECK(format_cpu_list(std::vector<int>{0, 1, 2, 3, 8}) == "0-3,8");
  for (unsigned bits = 0; bits < 1024; ++bits) {
    std::vector<int> cpus;
    for (int cpu = 0; cpu < 10; ++cpu) {
      if (bits >> cpu & 1) cpus.push_back(cpu);
    }
    CHECK(parse_cpu_list(format_cpu_list(cpus)) == cpus);
  }
}

TEST_CASE("text that is no CPU list is refused") {
  auto text =
      GENERATE("a", "1-", "-1", "3-1", "1,,2", "1,", ",1", " 1", "1-2-3", "65536", "99999999999999999999", "0x1");
  CAPTURE(text);
  CHECK_FALSE(parse_cpu_list(text).has_value());
}
