#include "core/call_record.h"

#include <catch2/catch.hpp>

#include <thread>

namespace tutti::test {
namespace {

const CallRecord kRecord{.number = 12, .count = 1024, .plan_digest = 7};

}  // namespace

TEST_CASE("a record survives its way to another rank") {
  auto decoded = CallRecord::decode(kRecord.encode());
  REQUIRE(decoded);
  CHECK(decoded->number == 12);
  CHECK(decoded->count == 1024);
  CHECK(decoded->root == -1);
  CHECK(decoded->signature() == kRecord.signature());
  CHECK(decoded->text() == "all_reduce #12 of 1024 float32 (sum)");
}

TEST_CASE("bytes of another size are no record") {
  CHECK_FALSE(CallRecord::decode({}));
  CHECK_FALSE(CallRecord::decode(std::as_bytes(std::span("x"))));
}

TEST_CASE("every field of a call changes its signature") {
  auto differs = [](auto change) {
    CallRecord other = kRecord;
    change(other);
    return other.signature() != kRecord.signature();
  };
  CHECK(differs([](CallRecord& r) { r.number = 13; }));
  CHECK(differs([](CallRecord& r) { r.datatype = TUTTI_INT32; }));
  CHECK(differs([](CallRecord& r) { r.op = TUTTI_MAX; }));
  CHECK(differs([](CallRecord& r) { r.root = 0; }));
  CHECK(differs([](CallRecord& r) { r.count = 1025; }));
  CHECK(differs([](CallRecord& r) { r.plan_digest = 8; }));
}

TEST_CASE("calls contradict each other only in the same place of the order") {
  CallRecord other = kRecord;
  CHECK_FALSE(kRecord.contradicts(other));
  other.count = 1;
  CHECK(kRecord.contradicts(other));
  other.number = 13;
  CHECK_FALSE(kRecord.contradicts(other));
  CHECK_FALSE(CallRecord{}.contradicts(CallRecord{.count = 5}));
}

TEST_CASE("calls that differ by their plans alone are the same calls") {
  CallRecord other = kRecord;
  other.plan_digest = 8;
  CHECK(kRecord.contradicts(other));
  CHECK(kRecord.same_call(other));
  other.op = TUTTI_MAX;
  CHECK_FALSE(kRecord.same_call(other));
}

TEST_CASE("a reader of the published record sees a whole one") {
  PublishedRecord published;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t n = 1; !stop; ++n) published.publish({.number = n, .count = n * 3, .plan_digest = n * 5});
  });
  bool whole = true;
  for (int i = 0; i < 200'000; ++i) {
    CallRecord record = published.read();
    whole = whole && record.count == record.number * 3 && record.plan_digest == record.number * 5;
  }
  stop = true;
  writer.join();
  CHECK(whole);
}

}  // namespace tutti::test
