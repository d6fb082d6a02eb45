#include "discovery/text_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

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

TEST_CASE("a link stays a link, a file keeps its mode, and a device is written to") {
  namespace fs = std::filesystem;
  Scratch scratch;
  std::string file = scratch.path("a.txt"), link = scratch.path("link"), device = scratch.path("device");
  REQUIRE(write_text_file(file, "old").ok());
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("a.txt", link);
  fs::create_symlink("/dev/null", device);
  REQUIRE(write_text_file(link, "new").ok());
  CHECK(fs::is_symlink(link));
  CHECK(*read_text_file(file) == "new");
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  REQUIRE(write_text_file(device, "gone").ok());
  CHECK(fs::is_character_file(device));
}

TEST_CASE("threads that write one file at once do not get into each other's way") {
  Scratch scratch;
  std::string file = scratch.path("a.txt");
  std::vector<std::string> said(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < said.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50 && said[i].empty(); ++round) {
        said[i] = write_text_file(file, std::string(10'000, static_cast<char>('a' + i))).message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& sentence : said) CHECK(sentence == "");
  std::string text = *read_text_file(file);
  CHECK(text == std::string(10'000, text[0]));
  CHECK(std::distance(std::filesystem::directory_iterator(scratch.path("")), {}) == 1);
}

TEST_CASE("errors of files name the file") {
  Scratch scratch;
  std::string absent = scratch.path("absent/b.txt");
  CHECK_THAT(std::string(read_text_file(absent).status().message()),
             Catch::Contains(absent) && Catch::EndsWith("; name a file that this user may read"));
  CHECK_THAT(std::string(write_text_file(absent, "x").message()),
             Catch::Contains(absent) && Catch::EndsWith("; name a file where this user may write"));
  CHECK_FALSE(read_text_file(scratch.path("")).ok());
}

TEST_CASE("a file that is too large is refused with a remedy") {
  Scratch scratch;
  std::string file = scratch.path("large");
  REQUIRE(write_text_file(file, "x").ok());
  std::filesystem::resize_file(file, (64 << 20) + 1);  // a hole: no bytes on the disk
  auto read = read_text_file(file);
  REQUIRE_FALSE(read.ok());
  CHECK_THAT(std::string(read.status().message()), Catch::StartsWith(file) && Catch::EndsWith("is it another?"));
}
