#include "base/status.h"

#include <cerrno>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

using namespace tutti;

namespace {

Result<std::string> text_or_error(bool fail) {
  if (fail) return error(Code::kTimeout, "rank {} is late", 5).at({.rank = 1, .peer = 5, .link = "tcp"});
  return std::string("a text that is too long for the small-string optimization");
}

Result<size_t> length(bool fail) {
  std::string text = TUTTI_TRY(text_or_error(fail));
  return text.size();
}

Status nested(bool fail, std::vector<int>& steps) {
  steps.push_back(1);
  TUTTI_TRY(length(TUTTI_TRY(text_or_error(false)).empty() || fail));
  steps.push_back(2);
  return {};
}

Result<std::unique_ptr<int>> owned(int value) { return std::make_unique<int>(value); }

Result<int> unwrap(int value) {
  auto pointer = TUTTI_TRY(owned(value));
  return *pointer;
}

}  // namespace

TEST_CASE("a default Status is ok and says nothing") {
  Status status;
  CHECK(status.ok());
  CHECK(status.code() == Code::kOk);
  CHECK(status.message().empty());
  CHECK(status.place() == ErrorPlace{});
}

TEST_CASE("an error carries code, sentence and place") {
  auto status = error(Code::kRemote, "rank {} died", 3).at({.rank = 0, .peer = 3, .link = "shm"});
  CHECK_FALSE(status.ok());
  CHECK(status.code() == Code::kRemote);
  CHECK(status.message() == "rank 3 died");
  CHECK(status.place() == ErrorPlace{0, 3, "shm"});
}

TEST_CASE("context is put before the sentence and keeps code and place") {
  auto status = error(Code::kTimeout, "no answer").at({.rank = 2}).within("joining");
  CHECK(status.message() == "joining: no answer");
  CHECK(status.code() == Code::kTimeout);
  CHECK(status.place().rank == 2);
  CHECK(Status().within("joining").ok());
}

TEST_CASE("a copied error is independent of the first") {
  Status first = error(Code::kSystem, "disk full");
  Status second = first;
  first = Status();
  CHECK(first.ok());
  CHECK(second.message() == "disk full");
  second = *&second;
  CHECK(second.message() == "disk full");
}

TEST_CASE("a system error ends in errno's text") {
  auto status = system_error(ENOENT, "cannot open x");
  CHECK(status.code() == Code::kSystem);
  CHECK(status.message() == "cannot open x: No such file or directory");
}

TEST_CASE("TUTTI_TRY gives the value, and on failure returns the whole error") {
  auto good = length(false);
  REQUIRE(good.ok());
  CHECK(*good == 57);
  auto bad = length(true);
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.status().message() == "rank 5 is late");
  CHECK(bad.status().place() == ErrorPlace{1, 5, "tcp"});
}

TEST_CASE("TUTTI_TRY nests, takes move-only values, and stops at the failure") {
  std::vector<int> steps;
  CHECK(nested(false, steps).ok());
  CHECK(steps == std::vector{1, 2});
  steps.clear();
  CHECK(nested(true, steps).code() == Code::kTimeout);
  CHECK(steps == std::vector{1});
  CHECK(*unwrap(7) == 7);
}

TEST_CASE("the value of a temporary Result outlives it in a range-based for") {
  std::string walked;
  for (char c : text_or_error(false).value()) walked += c;
  CHECK(walked == *text_or_error(false));
  walked.clear();
  for (char c : *text_or_error(false)) walked += c;
  CHECK(walked == *text_or_error(false));
  STATIC_REQUIRE(std::is_same_v<decltype(text_or_error(false).value()), std::string>);
  STATIC_REQUIRE(std::is_same_v<decltype(*text_or_error(false)), std::string>);
}

TEST_CASE("codes are the C API's") {
  CHECK(static_cast<int>(Code::kOk) == TUTTI_SUCCESS);
  CHECK(static_cast<int>(Code::kInvalidArgument) == TUTTI_INVALID_ARGUMENT);
  CHECK(static_cast<int>(Code::kAborted) == TUTTI_ABORTED);
}
