// Messages that stand for all slices of a chunk (PlanShape::by_chunk).
#include <catch2/catch.hpp>

#include "executor/collective.h"
#include "plan/validate.h"
#include "planner/algorithms/steps.h"

namespace tutti::test {
namespace {

constexpr uint64_t kSlice = 1024, kSlices = 5;

// Of which each chunk has so many slices.
Case sliced(Collective collective, const char* algorithm, int nranks, Memory memory) {
  Case which{.algorithm = find_algorithm(collective, algorithm), .collective = collective};
  bool is_vector = collective != TUTTI_REDUCE_SCATTER;
  which.nranks = nranks;
  which.root = has_root(collective) ? nranks - 1 : -1;
  which.slice_bytes = kSlice;
  which.count = kSlices * kSlice / sizeof(int32_t) * (is_vector ? nranks : 1);
  which.memory = memory;
  return which;
}

StreamLayout layout_of(int nranks) { return {.nranks = nranks, .channels = 1, .slots = 4, .slot_bytes = kSlice}; }

// The messages that `from` has sent `to`.
uint64_t sent(Ranks& ranks, int from, int to) { return ranks[from].peers()[to]->send_stream(0).sent(); }

// So many messages each rank sends each other one in a call.
std::vector<uint64_t> messages_of(const Case& which) {
  Plan plan = plan_for(which);
  Ranks ranks(layout_of(which.nranks), fabric("shm").make);
  std::vector<std::unique_ptr<Buffers>> buffers;
  for (int rank = 0; rank < which.nranks; ++rank) {
    buffers.push_back(std::make_unique<Buffers>(ranks[rank], room_for(which)));
  }
  std::vector<uint64_t> before, of_call;
  for (int number = 0; number < 3; ++number) {
    auto all = ranks.each([&](int rank) {
      return run_call(ranks[rank], plan, programs_of(plan, rank), *buffers[rank], which, number);
    });
    for (const Status& status : all) REQUIRE(status.message() == "");
    before.resize(static_cast<size_t>(which.nranks) * which.nranks);
    of_call.clear();
    for (int from = 0; from < which.nranks; ++from) {
      for (int to = 0; to < which.nranks; ++to) {
        if (from == to) continue;
        uint64_t now = sent(ranks, from, to);
        of_call.push_back(now - std::exchange(before[from * which.nranks + to], now));
      }
    }
  }
  return of_call;
}

}  // namespace

TEST_CASE("in memory that ranks share a chunk takes one message each way, whatever slices it has") {
  for (InPlace in_place : {InPlace::kNone, InPlace::kAll, InPlace::kSome}) {
    auto messages = [&](Collective collective, const char* algorithm, int nranks, Memory memory) {
      Case which = sliced(collective, algorithm, nranks, memory);
      which.in_place = in_place;
      return messages_of(which);
    };
    INFO("in place " << static_cast<int>(in_place));
    for (int nranks : {2, 3}) {
      auto pairs = static_cast<size_t>(nranks * (nranks - 1));
      CHECK(messages(TUTTI_ALL_REDUCE, "direct_two_shot", nranks, Memory::kShared) == std::vector<uint64_t>(pairs, 2));
      CHECK(messages(TUTTI_REDUCE_SCATTER, "direct", nranks, Memory::kShared) == std::vector<uint64_t>(pairs, 1));
      auto all = std::vector<uint64_t>(pairs, 2 * kSlices);
      CHECK(messages(TUTTI_ALL_REDUCE, "direct_two_shot", nranks, Memory::kOrdinary) == all);
    }
    // Ranks 0 and 2 share theirs: all read their inputs by chunk, and they take results so.
    CHECK(messages(TUTTI_ALL_REDUCE, "direct_two_shot", 3, Memory::kMixed) ==
          std::vector<uint64_t>{1 + kSlices, 2, 1 + kSlices, 1 + kSlices, 2, 1 + kSlices});
    CHECK(messages(TUTTI_REDUCE, "direct_two_shot", 2, Memory::kShared) == std::vector<uint64_t>{2, 1});
  }
}

TEST_CASE("a chunk that was lent with one message is the lender's again when its last slice was read") {
  Ranks ranks(layout_of(2), fabric("shm").make);
  SendStream& to = ranks[0].peers()[1]->send_stream(0);
  RecvStream& from = ranks[1].peers()[0]->recv_stream(0);
  auto lend = [&](bool with_rest) {
    Message message{.kind = MessageKind::kReference, .size_bytes = kSlice, .payload = {1, 0}, .with_rest = with_rest,
                    .chunk_bytes = kSlices * kSlice};
    REQUIRE(to.send(message, 1, nullptr).ok());
    REQUIRE(from.ready());
    from.take(MessageKind::kReference, nullptr, kSlice, with_rest ? Lent::kNo : Lent::kInPlace);
  };
  for (int i = 0; i < 3; ++i) {
    INFO("time " << i);
    lend(true);
    from.release();
    CHECK(!to.references_released());
    lend(false);
    from.release();
    CHECK(!to.references_released());
    lend(true);
    from.release();
    from.release_chunk();
    CHECK(!to.references_released());
    from.release_chunk();
    CHECK(to.references_released());
  }
}

TEST_CASE("a rank whose output is asked for while the call runs gets a message of each slice") {
  constexpr int kRanks = 3, kFlowing = 1;
  Case which = sliced(TUTTI_ALL_REDUCE, "direct_two_shot", kRanks, Memory::kShared);
  Plan plan = plan_for(which);
  Ranks ranks(layout_of(kRanks), fabric("shm").make);
  std::vector<std::unique_ptr<Buffers>> buffers;
  for (int rank = 0; rank < kRanks; ++rank) buffers.push_back(std::make_unique<Buffers>(ranks[rank], which.count));
  struct Told {
    const Buffers* buffers;
    const Partition* partition;
    std::vector<int32_t> right;
    uint64_t most = 0;
    bool are_final = true;
  };
  auto tell = [](void* argument, uint64_t slices) {
    auto& told = *static_cast<Told*>(argument);
    for (; told.most < std::min(slices, kSlices); ++told.most) {
      for (int chunk = 0; chunk < kRanks; ++chunk) {
        Piece piece = told.partition->output(0, chunk, told.most);
        for (uint64_t i = 0; i < piece.size_bytes / sizeof(int32_t); ++i) {
          uint64_t at = piece.offset_bytes / sizeof(int32_t) + i;
          told.are_final = told.are_final && told.buffers->out()[at] == told.right[at];
        }
      }
    }
  };
  std::vector<Told> told(kRanks);
  auto all = ranks.each([&](int rank) {
    Buffers& own = *buffers[rank];
    own.fill(which, rank, 7);
    BoundCall bound(own, plan.shape(), which, rank, 0);
    told[rank] = {&own, &bound.call.partition, std::vector<int32_t>(which.count), 0, true};
    expected_elements(which, rank, 0, 7, told[rank].right.data(), which.count);
    SliceFlow flow(1, tell, &told[rank]);
    flow.arrive(SliceFlow::kAll);
    if (rank == kFlowing) bound.call.flow = &flow;
    Status status = ranks[rank].run(programs_of(plan, rank), bound.call);
    return status.ok() && !own.wrong_result().empty() ? error(Code::kInternal, "{}", own.wrong_result()) : status;
  });
  for (const Status& status : all) CHECK(status.message() == "");
  CHECK(told[kFlowing].most == kSlices);
  CHECK(told[kFlowing].are_final);
  CHECK(sent(ranks, 0, 2) == 2);
  CHECK(sent(ranks, 0, kFlowing) == 1 + kSlices);  // of its own input one will do
  CHECK(sent(ranks, kFlowing, 0) == 1 + kSlices);  // whose input comes by slices
}

TEST_CASE("a message may stand for a chunk only where the plan says so, and only if all of the chunk is shared") {
  StreamLayout layout = layout_of(2);
  const uint64_t end = layout.arena_bytes(), chunk = kSlices * kSlice;
  struct Bad {
    const char* algorithm;
    Message message;
  };
  auto lending = [&](uint64_t offset) {
    return Message{.kind = MessageKind::kReference, .size_bytes = kSlice, .payload = {1, offset}, .with_rest = true,
                   .chunk_bytes = chunk};
  };
  Message with_output = lending(0);
  with_output.by_chunk = true;
  with_output.output = {1, end - kSlice};
  const Bad bad[] = {{"direct_two_shot", lending(end - kSlice)},
                     {"direct_two_shot", with_output},
                     {"ring", lending(0)}};
  for (const auto& [algorithm, message] : bad) {
    INFO(algorithm << ", payload at " << message.payload.offset << ", output at " << message.output.offset);
    Case which = sliced(TUTTI_ALL_REDUCE, algorithm, 2, Memory::kShared);
    Plan plan = plan_for(which);
    Ranks ranks(layout, fabric("shm").make);
    Buffers buffers(ranks[0], which.count);
    buffers.fill(which, 0, 0);
    BoundCall bound(buffers, plan.shape(), which, 0, 0);
    Link& link = ranks[1].link(0);
    Line line = encode(message, 1, bound.call.signature, &message);
    REQUIRE(link.signal({link.find(1), layout.line_offset(1, 0, 0)}, line).ok());
    CHECK(ranks[0].run(programs_of(plan, 0), bound.call, 1000).code() == Code::kRemote);
    CHECK(buffers.rest_untouched());
  }
}

TEST_CASE("a message of a few bytes says, too, that results come by chunk, and where the output is") {
  // Chunk 0 has two slices, chunk 1 one of four bytes, which is all that rank 1 sends rank 0.
  Case which = sliced(TUTTI_ALL_REDUCE, "direct_two_shot", 3, Memory::kShared);
  which.slice_bytes = 64;
  which.count = 33;
  PlanShape shape = plan_for(which).shape();
  shape.algorithm = "by_chunk_test";
  shape.chunks = 2;
  std::vector<RankPlan> parts(3);
  parts[0] = one_section({wait(1), reduce({input(1), arrival(1)}, temp(0), Finish::kNo), put(2, temp(0)), wait(2),
                          reduce({input(0), arrival(2)}, output(0), Finish::kYes), put(1, output(0), 0),
                          put(2, output(0), 0), wait(2, 1)});
  parts[1] = one_section({put(0, input(1)), put(2, input(0)), wait(0, 0), wait(2, 1)});
  parts[2] = one_section({wait(1), reduce({arrival(1), input(0)}, temp(0), Finish::kNo), put(0, temp(0)), wait(0),
                          reduce({arrival(0), input(1)}, output(1), Finish::kYes), put(0, output(1), 1),
                          put(1, output(1), 1), wait(0, 0)});
  Plan plan(shape, parts);
  REQUIRE(prove(plan, 4).message() == "");
  Ranks ranks(layout_of(3), fabric("shm").make);
  std::vector<std::unique_ptr<Buffers>> buffers;
  for (int rank = 0; rank < 3; ++rank) buffers.push_back(std::make_unique<Buffers>(ranks[rank], room_for(which)));
  for (int number = 0; number < 3; ++number) {
    auto all = ranks.each([&](int rank) {
      return run_call(ranks[rank], plan, programs_of(plan, rank), *buffers[rank], which, number, 5000);
    });
    for (const Status& status : all) CHECK(status.message() == "");
  }
  CHECK(sent(ranks, 0, 1) == 3);  // of two slices in each call
}

TEST_CASE("an output that a peer has named, and whose memory is still under way, is waited for") {
  StreamLayout layout = layout_of(2);
  Case which = sliced(TUTTI_ALL_REDUCE, "direct_two_shot", 2, Memory::kShared);
  Plan plan = plan_for(which);
  Ranks ranks(layout, fabric("shm").make);
  Buffers buffers(ranks[0], which.count);
  Rank::Shared later = ranks[1].allocate(which.count * sizeof(int32_t));
  buffers.fill(which, 0, 0);
  BoundCall bound(buffers, plan.shape(), which, 0, 0);
  Link& link = ranks[1].link(0);
  Message message{.kind = MessageKind::kReference, .size_bytes = kSlice, .payload = {1, 0}, .with_rest = true,
                  .output = {later.memory->id, 0}, .by_chunk = true, .chunk_bytes = kSlices * kSlice};
  Line line = encode(message, 1, bound.call.signature, &message);
  REQUIRE(link.signal({link.find(1), layout.line_offset(1, 0, 0)}, line).ok());
  CHECK(ranks[0].run(programs_of(plan, 0), bound.call, 50).code() == Code::kTimeout);
  CHECK(sent(ranks, 0, 1) == 1);
}

}  // namespace tutti::test
