#include "base/fd.h"

#include <fcntl.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <vector>

using namespace tutti;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1 || errno != EBADF; }

Fd some_fd() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

TEST_CASE("an Fd closes its descriptor once") {
  int number = -1;
  {
    Fd fd = some_fd();
    number = fd.get();
    REQUIRE(fd);
    REQUIRE(is_open(number));
  }
  CHECK_FALSE(is_open(number));
}

TEST_CASE("moving an Fd hands the descriptor over") {
  Fd from = some_fd();
  int number = from.get();
  Fd to(std::move(from));
  CHECK(to.get() == number);
  CHECK_FALSE(from);  // NOLINT(bugprone-use-after-move): that is what is tested
  CHECK(is_open(number));
}

TEST_CASE("assigning to an Fd closes what it held, at once") {
  Fd target = some_fd();
  int old_number = target.get();
  Fd source = some_fd();
  int new_number = source.get();
  target = std::move(source);
  CHECK_FALSE(is_open(old_number));
  CHECK(is_open(new_number));
  CHECK(target.get() == new_number);
}

TEST_CASE("assigning an Fd to itself keeps it") {
  Fd fd = some_fd();
  Fd& alias = fd;
  fd = std::move(alias);
  CHECK(is_open(fd.get()));
}

TEST_CASE("release gives the descriptor away") {
  Fd fd = some_fd();
  Fd taken(fd.release());
  CHECK_FALSE(fd);
  CHECK(is_open(taken.get()));
}

TEST_CASE("a memfd is zeroed, sized, close-on-exec, and shared by its mappings") {
  auto fd = create_memfd("tutti-test", 10'000);
  REQUIRE(fd.ok());
  CHECK((::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) != 0);
  auto first = Mapping::create(fd->get(), 10'000);
  auto second = Mapping::create(fd->get(), 10'000);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  REQUIRE(first->bytes().size() == 10'000);
  CHECK(std::all_of(first->bytes().begin(), first->bytes().end(), [](std::byte b) { return b == std::byte{0}; }));
  first->bytes()[9'999] = std::byte{42};
  CHECK(second->bytes()[9'999] == std::byte{42});
}

TEST_CASE("large mappings leave addresses free behind them, so that equally large ones are no multiple of it apart") {
  constexpr size_t kBytes = size_t{256} << 20;
  auto fd = create_memfd("tutti-test", kBytes);
  REQUIRE(fd.ok());
  std::vector<Mapping> mappings;
  for (int i = 0; i < 4; ++i) {
    mappings.push_back(Mapping::create(fd->get(), kBytes).value());
    REQUIRE(mappings.back().bytes().size() == kBytes);
    mappings.back().bytes()[kBytes - 1] = std::byte{1};
  }
  for (size_t i = 0; i < mappings.size(); ++i) {
    for (size_t j = 0; j < i; ++j) CHECK((mappings[i].bytes().data() - mappings[j].bytes().data()) % kBytes != 0);
  }
}

TEST_CASE("a mapping outlives the descriptor, moves, and may be empty") {
  auto fd = create_memfd("tutti-test", 4096);
  REQUIRE(fd.ok());
  auto created = Mapping::create(fd->get(), 4096);
  REQUIRE(created.ok());
  fd->reset();
  Mapping mapping;
  mapping = std::move(created).value();
  mapping.bytes()[0] = std::byte{7};
  Mapping moved(std::move(mapping));
  CHECK(moved.bytes()[0] == std::byte{7});
  CHECK(mapping.bytes().empty());  // NOLINT(bugprone-use-after-move): that is what is tested

  auto empty = Mapping::create(-1, 0);
  REQUIRE(empty.ok());
  CHECK(empty->bytes().empty());
}

TEST_CASE("a failed mapping or memfd is a system error with the size") {
  auto mapping = Mapping::create(-1, 4096);
  REQUIRE_FALSE(mapping.ok());
  CHECK(mapping.status().code() == Code::kSystem);
  CHECK_THAT(std::string(mapping.status().message()), Catch::Matchers::Contains("4096"));

  auto fd = create_memfd("tutti-test", 4096);
  REQUIRE(fd.ok());
  auto too_large = Mapping::create(fd->get(), size_t{1} << 60);
  REQUIRE_FALSE(too_large.ok());
  CHECK_THAT(std::string(too_large.status().message()),
             Catch::Matchers::Contains("Cannot allocate memory; free memory, raise the limit (ulimit -v), or set "));

  auto huge = create_memfd("tutti-test", size_t{1} << 63);
  REQUIRE_FALSE(huge.ok());
  CHECK(huge.status().code() == Code::kSystem);
}
