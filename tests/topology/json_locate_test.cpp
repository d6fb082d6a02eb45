#include "topology/json_locate.h"

#include <catch2/catch.hpp>
#include <string>

using namespace tutti;

namespace {
const std::string kText = R"({
  "a": 1,
  "list": [
    {"b": "x"},
    {
      "b": 2
    }
  ],
  "deep": {
    "c": [7,
          8]
  }
})";
}  // namespace

TEST_CASE("the line of every value is found") {
  CHECK(line_of(kText, "") == 1);
  CHECK(line_of(kText, "a") == 2);
  CHECK(line_of(kText, "list") == 3);
  CHECK(line_of(kText, "list[0].b") == 4);
  CHECK(line_of(kText, "list[1]") == 5);
  CHECK(line_of(kText, "list[1].b") == 6);
  CHECK(line_of(kText, "deep") == 9);
  CHECK(line_of(kText, "deep.c[0]") == 10);
  CHECK(line_of(kText, "deep.c[1]") == 11);
}

TEST_CASE("a value that is not there has line 0") {
  CHECK(line_of(kText, "list[2]") == 0);
  CHECK(line_of(kText, "nothing") == 0);
  CHECK(line_of("[1", "[7]") == 0);
  CHECK(line_of("", "a") == 0);
}

TEST_CASE("hostile nesting is passed over quickly") {
  std::string nested(200'000, '[');
  CHECK(line_of(nested, "a") == 0);
}
