#include "base/json_value.h"

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

TEST_CASE("every value knows its line") {
  auto parsed = parse_json(kText);
  REQUIRE(parsed.ok());
  const JsonValue& root = *parsed;
  CHECK(root.line == 1);
  CHECK(root.member("a")->line == 2);
  const JsonValue& list = *root.member("list");
  CHECK(list.line == 3);
  CHECK(list.items[0].member("b")->line == 4);
  CHECK(list.items[1].line == 5);
  CHECK(list.items[1].member("b")->line == 6);
  const JsonValue& deep = *root.member("deep");
  CHECK(deep.line == 9);
  CHECK(deep.member("c")->items[0].line == 10);
  CHECK(deep.member("c")->items[1].line == 11);
}

TEST_CASE("a member that is not there is an error of its object") {
  auto parsed = parse_json(kText);
  REQUIRE(parsed.ok());
  const JsonValue& deep = *parsed->member("deep");
  CHECK(deep.member("nothing") == nullptr);
  CHECK(&deep.member_or_self("nothing") == &deep);
  CHECK(deep.member_or_self("c").line == 10);
  CHECK(deep.member("c")->member("c") == nullptr);
}

TEST_CASE("values keep kind, sign and magnitude") {
  auto parsed = parse_json(R"([null, true, 18446744073709551615, -9223372036854775808, 5e3, "x\u00e4"])");
  REQUIRE(parsed.ok());
  using Kind = JsonValue::Kind;
  const auto& items = parsed->items;
  REQUIRE(items.size() == 6);
  CHECK(items[0].kind == Kind::kNull);
  CHECK((items[1].kind == Kind::kFlag && items[1].number == 1));
  CHECK((items[2].kind == Kind::kInteger && !items[2].negative && items[2].number == UINT64_MAX));
  CHECK((items[3].kind == Kind::kInteger && items[3].negative && items[3].number == uint64_t{1} << 63));
  CHECK((items[4].kind == Kind::kFraction && items[4].fraction == 5000));
  CHECK((items[5].kind == Kind::kText && items[5].text == "x\u00e4"));
}

TEST_CASE("what is no JSON has the line where that was seen") {
  CHECK_THAT(std::string(parse_json("[1").status().message()), Catch::StartsWith("line 1: syntax error"));
  CHECK_THAT(std::string(parse_json("").status().message()), Catch::StartsWith("line 1: "));
  CHECK_THAT(std::string(parse_json("[1,\n\n}").status().message()), Catch::StartsWith("line 3: syntax error"));
}

TEST_CASE("hostile nesting is refused quickly") {
  CHECK(parse_json(std::string(200'000, '[')).status().message() == "line 1: it is nested too deeply");
}
