#include "base/types.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

using namespace tutti;

namespace {

// Values that the enumerations can hold but do not name.
constexpr auto kNoDatatype = static_cast<Datatype>(12);
constexpr auto kNoOp = static_cast<ReduceOp>(8);
constexpr auto kNoCollective = static_cast<Collective>(1);

}  // namespace

TEST_CASE("datatypes have their sizes") {
  CHECK(size_of(TUTTI_INT8) == 1);
  CHECK(size_of(TUTTI_UINT8) == 1);
  CHECK(size_of(TUTTI_FLOAT8_E4M3) == 1);
  CHECK(size_of(TUTTI_FLOAT8_E5M2) == 1);
  CHECK(size_of(TUTTI_FLOAT16) == 2);
  CHECK(size_of(TUTTI_BFLOAT16) == 2);
  CHECK(size_of(TUTTI_INT32) == 4);
  CHECK(size_of(TUTTI_UINT32) == 4);
  CHECK(size_of(TUTTI_FLOAT32) == 4);
  CHECK(size_of(TUTTI_INT64) == 8);
  CHECK(size_of(TUTTI_UINT64) == 8);
  CHECK(size_of(TUTTI_FLOAT64) == 8);
  CHECK(size_of(kNoDatatype) == 0);
}

TEST_CASE("every name parses back to its value") {
  std::set<std::string_view> names;
  for (int value = 0; value < 12; ++value) {
    auto datatype = static_cast<Datatype>(value);
    CHECK(is_valid(datatype));
    CHECK(names.insert(name_of(datatype)).second);
    CHECK(parse_datatype(name_of(datatype)) == datatype);
  }
  for (int value = 0; value < 8; ++value) {
    auto op = static_cast<ReduceOp>(value);
    CHECK(is_valid(op));
    CHECK(names.insert(name_of(op)).second);
    CHECK(parse_reduce_op(name_of(op)) == op);
  }
  CHECK(parse_collective(name_of(TUTTI_ALL_REDUCE)) == TUTTI_ALL_REDUCE);
}

TEST_CASE("nccl-tests' names of datatypes are known") {
  CHECK(parse_datatype("float") == TUTTI_FLOAT32);
  CHECK(parse_datatype("double") == TUTTI_FLOAT64);
  CHECK(parse_datatype("half") == TUTTI_FLOAT16);
  CHECK(parse_datatype("bfloat16") == TUTTI_BFLOAT16);
  CHECK(parse_datatype("int8") == TUTTI_INT8);
  CHECK(parse_datatype("f8e4m3") == TUTTI_FLOAT8_E4M3);
  CHECK(parse_datatype("f8e5m2") == TUTTI_FLOAT8_E5M2);
}

TEST_CASE("names mean what they say") {
  CHECK(name_of(TUTTI_MAX) == "max");
  CHECK(name_of(TUTTI_MIN) == "min");
  CHECK(name_of(TUTTI_PROD) == "prod");
  CHECK(name_of(TUTTI_FLOAT16) == "float16");
  CHECK(name_of(TUTTI_ALL_REDUCE) == "all_reduce");
}

TEST_CASE("bitwise operations are defined for integers only, the others for all types") {
  for (ReduceOp op : {TUTTI_BAND, TUTTI_BOR, TUTTI_BXOR}) {
    CHECK(is_defined_for(op, TUTTI_INT8));
    CHECK(is_defined_for(op, TUTTI_UINT64));
    for (Datatype datatype : {TUTTI_FLOAT16, TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_BFLOAT16, TUTTI_FLOAT8_E4M3,
                              TUTTI_FLOAT8_E5M2, kNoDatatype}) {
      CHECK_FALSE(is_defined_for(op, datatype));
    }
  }
  for (ReduceOp op : {TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN, TUTTI_AVG}) {
    CHECK(is_defined_for(op, TUTTI_UINT8));
    CHECK(is_defined_for(op, TUTTI_FLOAT8_E5M2));
    CHECK_FALSE(is_defined_for(op, kNoDatatype));
  }
  CHECK_FALSE(is_defined_for(kNoOp, TUTTI_INT32));
}

TEST_CASE("what is no datatype, operation or collective is told apart") {
  CHECK_FALSE(is_valid(kNoDatatype));
  CHECK_FALSE(is_valid(kNoOp));
  CHECK_FALSE(is_valid(kNoCollective));
  CHECK(name_of(kNoDatatype) == "?");
  CHECK(name_of(kNoOp) == "?");
  for (const char* name : {"", "?", "FLOAT32", "float32 ", "complex64"}) {
    CHECK_FALSE(parse_datatype(name).has_value());
    CHECK_FALSE(parse_reduce_op(name).has_value());
    CHECK_FALSE(parse_collective(name).has_value());
  }
}
