// Runs every algorithm's Programs with real ranks and compares with a plain loop.
#include <catch2/catch.hpp>

#include "executor/all_reduce.h"

namespace tutti::test {
namespace {

// Several calls back to back with different data.
void run_case(Ranks& ranks, const Plan& plan, const Case& which) {
  constexpr int kCalls = 4;
  const PlanShape& shape = plan.shape();
  auto statuses = ranks.each([&](int rank) -> Status {
    std::vector<Program> programs = programs_of(plan, rank);
    Buffers buffers(ranks[rank], which.count, which.shares(rank));
    for (int number = 0; number < kCalls; ++number) {
      buffers.fill(rank, number, which.in_place);
      Call call = call_on(buffers, shape, which, number);
      TUTTI_TRY(ranks[rank].run(programs, call));
      std::string wrong = compare(buffers.out, shape.nranks, which.count, number);
      if (!buffers.guard_intact()) wrong = "bytes behind the result were written";
      if (!wrong.empty()) return error(Code::kInternal, "rank {}, call {}: {}", rank, number, wrong);
    }
    return {};
  });
  for (const Status& status : statuses) CHECK(status.message() == "");
}

void run_algorithm(const std::string& name, const Fabric& over, int nranks, int slots, uint64_t slice_bytes) {
  Plan plan = plan_for(name, nranks, slice_bytes);
  const PlanShape& shape = plan.shape();
  StreamLayout layout{.nranks = nranks, .channels = shape.channels, .slots = slots, .slot_bytes = shape.slice_bytes};
  Ranks ranks(layout, over.make);
  for (uint64_t count :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{17}, uint64_t{1000}, uint64_t{4099}, uint64_t{20011}}) {
    for (bool in_place : {false, true}) {
      for (Memory memory : {Memory::kOrdinary, Memory::kShared, Memory::kMixed}) {
        INFO(name << " over " << over.name << ", " << nranks << " ranks, " << slots << " slots, count " << count
                  << (in_place ? ", in place" : "") << ", memory " << static_cast<int>(memory));
        run_case(ranks, plan, {.count = count, .in_place = in_place, .memory = memory});
      }
    }
  }
}

}  // namespace

TEST_CASE("every algorithm gives the sum on every rank over loopback") {
  for (const Algorithm* algorithm : algorithms()) {
    for (int nranks : {2, 3, 4, 5, 7, 8}) {
      run_algorithm(std::string(algorithm->name), fabric("loopback"), nranks, 4, 1024);
    }
  }
}

TEST_CASE("two slots per stream are enough for every algorithm") {
  for (const Algorithm* algorithm : algorithms()) {
    for (int nranks : {2, 3, 6}) run_algorithm(std::string(algorithm->name), fabric("loopback"), nranks, 2, 256);
  }
}

TEST_CASE("every algorithm gives the sum on every rank over shared memory") {
  for (const Algorithm* algorithm : algorithms()) {
    for (int nranks : {2, 3, 4}) run_algorithm(std::string(algorithm->name), fabric("shm"), nranks, 4, 4096);
  }
}

TEST_CASE("every algorithm gives the sum on every rank over TCP") {
  for (const Algorithm* algorithm : algorithms()) {
    for (int nranks : {2, 3}) run_algorithm(std::string(algorithm->name), fabric("tcp"), nranks, 4, 4096);
  }
}

TEST_CASE("a rank that waits for a message learns that the sender's end is gone") {
  const std::string over = GENERATE("loopback", "shm", "tcp");
  INFO(over);
  Plan plan = plan_for("direct_one_shot", 2, 1024);
  const PlanShape& shape = plan.shape();
  REQUIRE(shape.channels == 1);
  Ranks ranks({.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = shape.slice_bytes}, fabric(over).make);
  std::thread leaves([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ranks.remove(1);
  });
  int32_t value = 1;
  auto* bytes = reinterpret_cast<std::byte*>(&value);
  Call call{.shape = &shape, .datatype = TUTTI_INT32, .input = bytes, .output = bytes, .size_bytes = sizeof value};
  call.partition = Partition(1, sizeof value, 1, shape.chunks, shape.slice_bytes);
  call.signature = 1;
  Status status = ranks[0].run({lower(plan.part(0, 0))}, call);
  leaves.join();
  CHECK(status.code() == Code::kRemote);
  CHECK(status.place().peer == 1);
}

TEST_CASE("memory whose lender has given the call up is not trusted") {
  const std::string over = GENERATE("loopback", "shm");
  INFO(over);
  Plan plan = plan_for("direct_one_shot", 2, 8192);
  Ranks ranks({.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = plan.shape().slice_bytes}, fabric(over).make);
  const Case which{.count = 1000};
  Buffers mine(ranks[0], which.count, false), lent(ranks[1], which.count, true);
  auto run = [&](int rank, int number, int timeout_ms) {
    Buffers& buffers = rank == 0 ? mine : lent;
    buffers.fill(rank, number, false);
    Call call = call_on(buffers, plan.shape(), which, number);
    call.options.pull_min_bytes = UINT64_MAX;  // rank 0 lends nothing, so it needs nothing from rank 1 but its input
    return ranks[rank].run(programs_of(plan, rank), call, timeout_ms);
  };
  for (const Status& status : ranks.each([&](int rank) { return run(rank, 0, kPatienceMs); })) CHECK(status.ok());
  CHECK(run(1, 1, 50).code() == Code::kTimeout);
  ranks[1].abort();
  lent.fill(1, 99, false);  // by the caller, who has the memory back
  Status status = run(0, 1, kPatienceMs);
  CHECK(status.code() == Code::kRemote);
  CHECK(status.place().peer == 1);
}

}  // namespace tutti::test
