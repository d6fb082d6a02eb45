#include "discovery/text_file.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/discovery/scratch.h"

using namespace tutti;

TEST_CASE("a text file is replaced as a whole and leaves nothing else behind") {
  Scratch scratch;
  std::string file = scratch.path("a.txt");
  REQUIRE(write_text_file(file, std::string(100'000, 'a')).ok());
  REQUIRE(write_text_file(file, "short").ok());
  CHECK(*read_text_file(file) == "short");
  CHECK(std::distance(std::filesystem::directory_iterator(scratch.path("")), {}) == 1);
}

TEST_CASE("errors of files name the file") {
  Scratch scratch;
  std::string absent = scratch.path("absent/b.txt");
  CHECK_THAT(std::string(read_text_file(absent).status().message()), Catch::Contains(absent));
  CHECK_THAT(std::string(write_text_file(absent, "x").message()), Catch::Contains(absent));
  CHECK_FALSE(read_text_file(scratch.path("")).ok());
}
