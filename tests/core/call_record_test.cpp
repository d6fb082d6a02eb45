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

TEST_CASE("a call whose plan is unknown contradicts only other calls") {
  CallRecord other = kRecord;
  other.plan_digest = 0;
  CHECK_FALSE(kRecord.contradicts(other));
  CHECK_FALSE(other.contradicts(kRecord));
  other.op = TUTTI_MAX;
  CHECK(kRecord.contradicts(other));
  CHECK(other.contradicts(kRecord));
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
    for (uint64_t n = 1; !stop; ++n) published.publish(CallRecord{.number = n, .count = n * 3, .plan_digest = n * 5});
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

TEST_CASE("records say what a call of each kind is about") {
  auto text = [](Collective collective, int root) {
    return CallRecord{.number = 3, .collective = collective, .root = root, .count = 5}.text();
  };
  CHECK(text(TUTTI_REDUCE, 2) == "reduce #3 of 5 float32 (sum) to rank 2");
  CHECK(text(TUTTI_BROADCAST, 0) == "broadcast #3 of 5 float32 from rank 0");
  CHECK(text(TUTTI_ALL_GATHER, -1) == "all_gather #3 of 5 float32");
  CHECK(text(TUTTI_BARRIER, -1) == "barrier #3");
  CHECK(text(TUTTI_GATHER_V, 1) == "gather_v #3 of float32 to rank 1");
  CHECK(text(TUTTI_SCATTER_V, 1) == "scatter_v #3 of float32 from rank 1");
}

TEST_CASE("the last calls are remembered by number and by signature, older ones are not") {
  PublishedRecords records;
  CHECK(records.read().number == 0);
  CHECK_FALSE(records.of_number(0));
  for (uint64_t n = 1; n <= 100; ++n) records.publish(CallRecord{.number = n, .count = n});
  CHECK(records.read().number == 100);
  CHECK(records.of_number(99)->count == 99);
  CHECK_FALSE(records.of_number(20));
  CHECK_FALSE(records.of_number(101));
  CHECK(records.of_signature(CallRecord{.number = 60, .count = 60}.signature())->number == 60);
  CHECK_FALSE(records.of_signature(CallRecord{.number = 20, .count = 20}.signature()));
  // Where a GPU does 63 of 64 calls.
  for (uint64_t n = 128; n <= 640; n += 64) records.publish(CallRecord{.number = n, .count = n});
  CHECK(records.read().number == 640);
  CHECK(records.of_number(128)->count == 128);
}

}  // namespace tutti::test
