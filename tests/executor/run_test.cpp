// Runs every algorithm's Programs with real ranks and compares with plain loops.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include "base/sanitizers.h"
#include "executor/collective.h"

namespace tutti::test {
namespace {

constexpr uint64_t kSeed = 20261121;

void check_all_ok(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) CHECK(status.message() == "");
}

// Calls of every algorithm, `rounds` times (a third of them under ThreadSanitizer), mixed with each other on the same
// streams.
void run_every_algorithm(uint64_t seed, const std::string& over, int nranks, int slots, int rounds,
                         uint64_t large_bytes = UINT64_MAX) {
  Chance chance(seed);
  std::vector<Case> cases;
  for (int round = 0; round < (kUnderThreadSanitizer ? rounds / 3 : rounds); ++round) {
    for (const Algorithm* algorithm : algorithms()) {
      cases.push_back(draw_case(chance, *algorithm, nranks, false));
      if (with_counts(*algorithm) != algorithm->collective) {
        cases.push_back(draw_case(chance, *algorithm, nranks, true));
      }
    }
  }
  INFO("seed " << seed << ", over " << over << ", " << nranks << " ranks, " << slots << " slots");
  Ranks ranks({.nranks = nranks,
               .channels = kMostChannels,
               .slots = slots,
               .slot_bytes = kMostSliceBytes,
               .mapped_slots = {.large_bytes = large_bytes}},
              fabric(over).make);
  check_all_ok(run_calls(ranks, cases));
}

struct Serves {
  Collective collective;
  const char* algorithm;
  int root;
};

bool can_pull(Ranks& ranks) {
  bool can = ranks[0].link(1).traits().pullable;
  if (!can) WARN("skipped: the kernel does not let processes read each other's memory");
  return can;
}

Case two_ranks(Collective collective, const char* algorithm, uint64_t slice_bytes, uint64_t count) {
  return {.algorithm = find_algorithm(collective, algorithm),
          .collective = collective,
          .slice_bytes = slice_bytes,
          .count = count};
}

}  // namespace

TEST_CASE("every algorithm of every collective gives each rank its result over loopback") {
  for (int nranks : {1, 2, 3, 4, 5, 7, 8}) run_every_algorithm(kSeed + nranks, "loopback", nranks, 4, 30);
}

TEST_CASE("two slots per stream are enough for every algorithm") {
  for (int nranks : {2, 3, 6}) run_every_algorithm(kSeed + 10 + nranks, "loopback", nranks, 2, 30);
}

TEST_CASE("every algorithm of every collective gives each rank its result over shared memory") {
  for (int nranks : {2, 3, 4}) run_every_algorithm(kSeed + 20 + nranks, "shm", nranks, 4, 40);
}

TEST_CASE("payloads in two slots by turns change no result") {
  for (int nranks : {2, 3, 4, 5}) {
    for (int slots : {3, 4}) {
      run_every_algorithm(kSeed + 50 + nranks, "shm", nranks, slots, 15, kMostSliceBytes / 4);
      run_every_algorithm(kSeed + 60 + nranks, "shm", nranks, slots, 15, 64);
    }
  }
}

TEST_CASE("every algorithm of every collective gives each rank its result over TCP") {
  for (int nranks : {2, 3, 4}) run_every_algorithm(kSeed + 30 + nranks, "tcp", nranks, 4, 20);
}

#if defined(TUTTI_TEST_VERBS_LIBRARY)
TEST_CASE("every algorithm of every collective gives each rank its result over verbs") {
  for (int nranks : {2, 4}) run_every_algorithm(kSeed + 40 + nranks, "verbs", nranks, 4, 20);
}
#endif

TEST_CASE("nobody leaves a barrier before all have entered it") {
  constexpr int kRanks = 5, kCalls = 40;
  const std::string over = GENERATE("loopback", "shm", "tcp");
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective != TUTTI_BARRIER) continue;
    INFO(algorithm->name << " over " << over);
    Plan plan = plan_for({.algorithm = algorithm, .collective = TUTTI_BARRIER, .nranks = kRanks});
    Ranks ranks({.nranks = kRanks, .channels = 1, .slots = 2, .slot_bytes = 1024}, fabric(over).make);
    std::atomic<int> entered{0};
    check_all_ok(ranks.each([&](int rank) -> Status {
      Call call{.shape = &plan.shape()};
      for (int number = 0; number < kCalls; ++number) {
        if (number % kRanks == rank) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++entered;
        call.signature = 1 + static_cast<uint64_t>(number);
        TUTTI_TRY(ranks[rank].run(programs_of(plan, rank), call));
        int seen = entered;
        if (seen >= (number + 1) * kRanks) continue;
        return error(Code::kInternal, "rank {} left barrier {} when only {} had entered", rank, number, seen);
      }
      return {};
    }));
  }
}

TEST_CASE("both ends of a block must name the same count: the error names both, and nothing else is written") {
  constexpr uint64_t kSliceBytes = 1024;  // 256 elements
  constexpr int kRanks = 3, kFrom = 2, kTo = 1;
  const std::string over = GENERATE("loopback", "shm", "tcp");
  const Memory memory = GENERATE(Memory::kOrdinary, Memory::kShared);
  const int channels = GENERATE(1, 2);
  const auto [collective, algorithm, root] = GENERATE(
      Serves{TUTTI_ALL_TO_ALL_V, "direct", -1}, Serves{TUTTI_ALL_TO_ALL_V, "pairwise", -1},
      Serves{TUTTI_GATHER_V, "direct", kTo}, Serves{TUTTI_GATHER_V, "sequential", kTo},
      Serves{TUTTI_SCATTER_V, "direct", kFrom}, Serves{TUTTI_SCATTER_V, "sequential", kFrom});
  const Case which{.algorithm = find_algorithm(collective, algorithm),
                   .collective = collective,
                   .nranks = kRanks,
                   .root = root,
                   .channels = channels,
                   .slice_bytes = kSliceBytes,
                   .counts = std::vector<uint64_t>(kRanks * kRanks, 400),
                   .memory = memory};
  const Plan plan = plan_for(which);
  struct Counts {
    uint64_t sent, expected;
  };
  for (Counts counts : {Counts{5, 7}, {9, 5}, {9, 30}, {100, 101}, {255, 256}, {256, 257}, {257, 256}, {513, 512},
                        {300, 1000}, {1000, 300}, {0, 1}, {1, 0}, {0, 1000}, {1000, 0}}) {
    INFO(which.text() << " over " << over << ": " << counts.sent << " and " << counts.expected);
    std::vector<Case> cases(kRanks, which);
    cases[kFrom].counts[kFrom * kRanks + kTo] = counts.sent;
    cases[kTo].counts[kFrom * kRanks + kTo] = counts.expected;
    Ranks ranks({.nranks = kRanks, .channels = channels, .slots = 4, .slot_bytes = kSliceBytes}, fabric(over).make);
    std::vector<std::unique_ptr<Buffers>> buffers;
    for (int rank = 0; rank < kRanks; ++rank) {
      buffers.push_back(std::make_unique<Buffers>(ranks[rank], room_for(cases[rank])));
    }
    auto statuses = ranks.each([&](int rank) {
      Status status = run_call(ranks[rank], plan, programs_of(plan, rank), *buffers[rank], cases[rank], 0);
      if (!status.ok()) ranks[rank].abort();
      return status;
    });
    const Status& found = statuses[kTo];
    CHECK(found.code() == Code::kInvalidUsage);
    CHECK(found.place().peer == kFrom);
    const std::string sender = fmt::format("rank {} sends {} elements to rank {}", kFrom, counts.sent, kTo);
    CHECK(found.message().find(sender) != std::string_view::npos);
    CHECK(found.message().find(fmt::format("expects {} elements", counts.expected)) != std::string_view::npos);
    for (const Status& status : statuses) {
      INFO(status.message());
      CHECK(status.code() != Code::kSystem);  // wrote beside its result
      CHECK(status.code() != Code::kTimeout);
    }
  }
}

TEST_CASE("a rank that waits for a message learns that the sender's end is gone") {
  const std::string over = GENERATE("loopback", "shm", "tcp");
  INFO(over);
  const Case which = two_ranks(TUTTI_ALL_REDUCE, "direct_one_shot", 1024, 1);
  Plan plan = plan_for(which);
  Ranks ranks({.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = which.slice_bytes}, fabric(over).make);
  Buffers buffers(ranks[0], room_for(which));
  std::thread leaves([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ranks.remove(1);
  });
  Status status = run_call(ranks[0], plan, programs_of(plan, 0), buffers, which, 0);
  leaves.join();
  CHECK(status.code() == Code::kRemote);
  CHECK(status.place().peer == 1);
}

TEST_CASE("private memory is pulled where its receiver wishes so for such calls, and only then") {
  const int wish = GENERATE(3, 67, 127);
  const int same_bit = (wish + 64) % StreamLayout::kWishes, same_line = wish ^ 1;
  Case which = two_ranks(TUTTI_BROADCAST, "direct", 8192, 1000);
  which.root = 0;
  Plan plan = plan_for(which);
  Ranks ranks({.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = which.slice_bytes}, fabric("shm").make);
  if (!can_pull(ranks)) return;
  Buffers root(ranks[0], which.count), receiver(ranks[1], which.count);
  int number = 0;
  auto run = [&](int rank) {
    Buffers& buffers = rank == 0 ? root : receiver;
    buffers.fill(which, rank, static_cast<uint64_t>(number));
    BoundCall bound(buffers, plan.shape(), which, rank, number);
    bound.call.wish = wish;
    Status status = ranks[rank].run(programs_of(plan, rank), bound.call, 50);
    if (status.ok()) CHECK(buffers.wrong_result() == "");
    return status.ok();
  };
  Peer& root_of_receiver = *ranks[1].peers()[0];
  // The root is done without the receiver only if nobody is to read its memory.
  auto goes_through_slots = [&] {
    ++number;
    return run(0) && run(1);
  };
  CHECK(goes_through_slots());
  root_of_receiver.wish(same_bit, true);
  root_of_receiver.wish(same_line, true);
  CHECK(goes_through_slots());
  root_of_receiver.wish(wish, true);
  root_of_receiver.wish(wish, false);
  CHECK(goes_through_slots());
  root_of_receiver.wish(wish, true);
  root_of_receiver.wish(same_line, false);
  for (int each : {wish, same_bit, same_line}) CHECK(ranks[0].peers()[1]->is_wished(each) == (each != same_line));
  CHECK_FALSE(goes_through_slots());
}

TEST_CASE("memory whose lender has given the call up is not trusted") {
  const std::string over = GENERATE("loopback", "shm");
  INFO(over);
  Case which = two_ranks(TUTTI_ALL_REDUCE, "direct_one_shot", 8192, 1000);
  which.memory = Memory::kMixed;
  Plan plan = plan_for(which);
  Ranks ranks({.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = which.slice_bytes}, fabric(over).make);
  Buffers lent(ranks[0], which.count), other(ranks[1], which.count);
  auto run = [&](int rank, int number, int timeout_ms) {
    Buffers& buffers = rank == 0 ? lent : other;
    buffers.fill(which, rank, static_cast<uint64_t>(number));
    BoundCall bound(buffers, plan.shape(), which, rank, number);
    bound.call.options.pull_min_bytes = UINT64_MAX;  // rank 1 lends nothing, so it needs nothing but rank 0's input
    return ranks[rank].run(programs_of(plan, rank), bound.call, timeout_ms);
  };
  for (const Status& status : ranks.each([&](int rank) { return run(rank, 0, kPatienceMs); })) CHECK(status.ok());
  CHECK(run(0, 1, 50).code() == Code::kTimeout);
  ranks[0].abort();
  lent.fill(which, 0, 99);  // by the caller, who has the memory back
  Status status = run(1, 1, kPatienceMs);
  CHECK(status.code() == Code::kRemote);
  CHECK(status.place().peer == 0);
}

TEST_CASE("malformed messages are errors, and what they point at is not touched") {
  constexpr uint64_t kPiece = 4000, kNumber = 1;
  StreamLayout layout{.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = 8192};
  const uint64_t end = layout.arena_bytes();
  const uint64_t room = layout.shape(0).room_bytes;
  const Message bad[] = {
      {.kind = MessageKind::kSignal, .size_bytes = kPiece, .chunk_bytes = kPiece},
      {.kind = MessageKind::kSlot, .size_bytes = kPiece - 4, .chunk_bytes = kPiece},
      {.kind = MessageKind::kSlot, .size_bytes = 1 << 20, .chunk_bytes = kPiece},
      {.kind = MessageKind::kSlot, .size_bytes = kPiece, .chunk_bytes = kPiece + 4},
      {.kind = MessageKind::kSlot, .size_bytes = kPiece, .payload = {0, room - kPiece + 64}, .chunk_bytes = kPiece},
      {.kind = MessageKind::kSlot, .size_bytes = kPiece, .payload = {0, UINT64_MAX - 63}, .chunk_bytes = kPiece},
      {.kind = MessageKind::kShort, .size_bytes = kPiece, .chunk_bytes = kPiece},
      {.kind = MessageKind::kDirect, .size_bytes = kPiece, .chunk_bytes = kPiece},
      {.kind = MessageKind::kReference, .size_bytes = kPiece, .payload = {1, end - 64}, .chunk_bytes = kPiece},
      {.kind = MessageKind::kReference, .size_bytes = kPiece, .payload = {1, UINT64_MAX - 63}, .chunk_bytes = kPiece},
      {.kind = MessageKind::kReference, .size_bytes = kPiece, .payload = {1, 0}, .with_rest = true,
       .chunk_bytes = kPiece},
      {.kind = MessageKind::kCommon, .size_bytes = kPiece, .payload = {0, end - kPiece}, .chunk_bytes = kPiece},
      {.kind = static_cast<MessageKind>(9), .size_bytes = kPiece, .chunk_bytes = kPiece},
  };
  const Case which = two_ranks(TUTTI_ALL_REDUCE, "direct_one_shot", layout.slot_bytes, kPiece / sizeof(int32_t));
  for (const Message& message : bad) {
    INFO("kind " << static_cast<int>(message.kind) << ", " << message.size_bytes << " of " << message.chunk_bytes
                 << " bytes");
    Plan plan = plan_for(which);
    Ranks ranks(layout, fabric("shm").make);
    Buffers buffers(ranks[0], which.count);
    buffers.fill(which, 0, 0);
    BoundCall bound(buffers, plan.shape(), which, 0, 0);
    Link& link = ranks[1].link(0);
    Line line = encode(message, kNumber, bound.call.signature, &message);
    REQUIRE(link.signal({link.find(1), layout.line_offset(1, 0, 0)}, line).ok());
    CHECK(ranks[0].run(programs_of(plan, 0), bound.call).code() == Code::kRemote);
    CHECK(buffers.rest_untouched());
  }
}

TEST_CASE("what was pulled ahead is used for the message that says so, in its call") {
  constexpr uint64_t kSlice = 1024, kElements = kSlice / sizeof(int32_t), kSlices = 4;
  StreamLayout layout{.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = kSlice};
  Case which = two_ranks(TUTTI_BROADCAST, "direct", kSlice, kSlices * kElements);
  which.root = 0;
  Plan plan = plan_for(which);
  Ranks ranks(layout, fabric("shm").make);
  if (!can_pull(ranks)) return;
  Buffers buffers(ranks[1], which.count);
  std::vector<int32_t> lent(which.count, 1), other(which.count, 2);
  Link& link = ranks[0].link(1);
  const RemoteMemory* arena = link.find(1);
  // The root's messages of one call: what each of them has its receiver pull. Null: it lies in the stream's first slot.
  struct Sent {
    const int32_t* from;
    bool with_rest;
  };
  uint64_t sent = 0;
  auto run = [&](int number, std::array<Sent, kSlices> messages) {
    buffers.fill(which, 1, 0);
    BoundCall bound(buffers, plan.shape(), which, 1, number);
    for (const Sent& each : messages) {
      Message message{.kind = each.from != nullptr ? MessageKind::kPull : MessageKind::kSlot, .size_bytes = kSlice,
                      .address = reinterpret_cast<uint64_t>(each.from), .with_rest = each.with_rest,
                      .chunk_bytes = kSlices * kSlice};
      uint64_t line = layout.line_offset(0, 0, static_cast<int>(sent++));
      REQUIRE(link.signal({arena, line}, encode(message, sent, bound.call.signature, &message)).ok());
    }
    REQUIRE(ranks[1].run(programs_of(plan, 1), bound.call).message() == "");
    std::vector<int32_t> firsts;
    for (uint64_t slice = 0; slice < kSlices; ++slice) firsts.push_back(buffers.out()[slice * kElements]);
    return firsts;
  };
  const int32_t *a = lent.data(), *b = other.data();
  auto slice = [](const int32_t* of, uint64_t index) { return of + index * kElements; };
  std::array<Sent, kSlices> all{{{a, true}, {slice(a, 1), true}, {slice(a, 2), true}, {slice(a, 3), true}}};
  CHECK(run(0, all) == std::vector{1, 1, 1, 1});
  CHECK(run(1, {{{a, true}, {slice(b, 1), false}, {slice(b, 2), false}, {slice(a, 3), false}}}) ==
        std::vector{1, 2, 2, 1});
  // The first call leaves what it has pulled ahead; it is not the second one's.
  CHECK(run(2, {{{a, true}, {nullptr, false}, {nullptr, false}, {nullptr, false}}})[0] == 1);
  std::fill(lent.begin(), lent.end(), 3);
  auto after = run(3, {{{nullptr, false}, {slice(a, 1), false}, {slice(a, 2), false}, {slice(a, 3), false}}});
  CHECK(std::vector(after.begin() + 1, after.end()) == std::vector{3, 3, 3});
}

TEST_CASE("no rest is pulled into an output of which the sender may hear, and store it there itself") {
  constexpr uint64_t kSlice = 1024, kElements = kSlice / sizeof(int32_t), kSlices = 2;
  StreamLayout layout{.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = kSlice};
  Case which = two_ranks(TUTTI_BROADCAST, "direct", kSlice, kSlices * kElements);
  which.root = 0;
  Plan plan = plan_for(which);
  for (bool is_announced : {false, true}) {
    INFO(is_announced);
    Ranks ranks(layout, fabric("shm").make);
    if (!can_pull(ranks)) return;
    Buffers buffers(ranks[1], which.count);
    buffers.fill(which, 1, 0);
    std::vector<int32_t> lent(which.count, 1);
    BoundCall bound(buffers, plan.shape(), which, 1, 0);
    bound.call.announces_output = is_announced;
    bound.call.output_window = is_announced ? Window{2, 0} : Window();
    Message message{.kind = MessageKind::kPull, .size_bytes = kSlice,
                    .address = reinterpret_cast<uint64_t>(lent.data()), .with_rest = true,
                    .chunk_bytes = kSlices * kSlice};
    Link& link = ranks[0].link(1);
    Line line = encode(message, 1, bound.call.signature, &message);
    REQUIRE(link.signal({link.find(1), layout.line_offset(0, 0, 0)}, line).ok());
    CHECK(ranks[1].run(programs_of(plan, 1), bound.call, 50).code() == Code::kTimeout);  // the second one is missing
    CHECK(buffers.out()[0] == 1);
    CHECK((buffers.out()[kElements] == 1) == !is_announced);
  }
}

TEST_CASE("a result is not stored where a peer's output cannot be") {
  StreamLayout layout{.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = 8192};
  const Case which = two_ranks(TUTTI_ALL_REDUCE, "direct_two_shot", layout.slot_bytes, 1000);
  for (uint64_t offset : {UINT64_MAX - 63, layout.arena_bytes() - 64, layout.arena_bytes() + 64}) {
    INFO("offset " << offset);
    Plan plan = plan_for(which);
    Ranks ranks(layout, fabric("shm").make);
    Buffers buffers(ranks[0], which.count);
    buffers.fill(which, 0, 0);
    BoundCall bound(buffers, plan.shape(), which, 0, 0);
    Link& link = ranks[1].link(0);
    uint64_t piece = bound.call.partition.slice_bytes(0, 0, 0);
    Message message{.kind = MessageKind::kSlot, .size_bytes = piece, .output = {1, offset}, .chunk_bytes = piece};
    Line line = encode(message, 1, bound.call.signature, &message);
    REQUIRE(link.signal({link.find(1), layout.line_offset(1, 0, 0)}, line).ok());
    CHECK(ranks[0].run(programs_of(plan, 0), bound.call, 50).code() == Code::kTimeout);  // rank 1 sends nothing more
    const auto* slot = reinterpret_cast<const Line*>(ranks[1].arena() + layout.line_offset(0, 0, 1));
    CHECK(decode(*slot).kind != MessageKind::kDirect);  // the result has come in another way
  }
}

}  // namespace tutti::test
