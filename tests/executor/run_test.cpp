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

TEST_CASE("malformed messages are errors, and what they point at is not touched") {
  constexpr uint64_t kSignature = 7, kPiece = 4000, kNumber = 1;
  StreamLayout layout{.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = 8192};
  const uint64_t end = layout.arena_bytes();
  const Message bad[] = {
      {.kind = MessageKind::kSignal, .size_bytes = kPiece},
      {.kind = MessageKind::kSlot, .size_bytes = kPiece - 4},
      {.kind = MessageKind::kSlot, .size_bytes = 1 << 20},
      {.kind = MessageKind::kDirect, .size_bytes = kPiece},
      {.kind = MessageKind::kReference, .size_bytes = kPiece, .payload = {1, end - 64}},
      {.kind = MessageKind::kReference, .size_bytes = kPiece, .payload = {1, UINT64_MAX - 63}},
      {.kind = static_cast<MessageKind>(9), .size_bytes = kPiece},
  };
  for (const Message& message : bad) {
    INFO("kind " << static_cast<int>(message.kind) << ", " << message.size_bytes << " bytes");
    Plan plan = plan_for("direct_one_shot", 2, layout.slot_bytes);
    Ranks ranks(layout, fabric("shm").make);
    const Case which{.count = kPiece / sizeof(int32_t)};
    Buffers buffers(ranks[0], which.count, false);
    buffers.fill(0, 0, false);
    Link& link = ranks[1].link(0);
    Line line = encode(message, kNumber, kSignature, &message);
    REQUIRE(link.signal({link.find(1), layout.line_offset(1, 0, 0)}, line).ok());
    Call call = call_on(buffers, plan.shape(), which, 0);
    call.signature = kSignature;
    CHECK(ranks[0].run(programs_of(plan, 0), call).code() == Code::kRemote);
    CHECK(buffers.guard_intact());
  }
}

TEST_CASE("a result is not stored where a peer's output cannot be") {
  StreamLayout layout{.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = 8192};
  for (uint64_t offset : {UINT64_MAX - 63, layout.arena_bytes() - 64, layout.arena_bytes() + 64}) {
    INFO("offset " << offset);
    Plan plan = plan_for("direct_two_shot", 2, layout.slot_bytes);
    Ranks ranks(layout, fabric("shm").make);
    const Case which{.count = 1000};
    Buffers buffers(ranks[0], which.count, false);
    buffers.fill(0, 0, false);
    Link& link = ranks[1].link(0);
    Call call = call_on(buffers, plan.shape(), which, 0);
    uint64_t piece = call.partition.piece(0, 0, 0).size_bytes;
    Message message{.kind = MessageKind::kSlot, .size_bytes = piece, .output = {1, offset}};
    Line line = encode(message, 1, call.signature, &message);
    REQUIRE(link.signal({link.find(1), layout.line_offset(1, 0, 0)}, line).ok());
    CHECK(ranks[0].run(programs_of(plan, 0), call, 50).code() == Code::kTimeout);  // rank 1 sends nothing more
    const auto* slot = reinterpret_cast<const Line*>(ranks[1].arena() + layout.line_offset(0, 0, 1));
    CHECK(decode(*slot).kind != MessageKind::kDirect);  // the result has come in another way
  }
}

}  // namespace tutti::test
