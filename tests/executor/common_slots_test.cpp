// Values that several peers read from one slot of their sender (executor/common_slots.h).
#include <catch2/catch.hpp>
#include <cstring>

#include "executor/collective.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kSlice = 8192, kSignature = 5;

StreamLayout layout_of(int channels = 1) {
  return {.nranks = kRanks, .channels = channels, .slots = 4, .slot_bytes = kSlice};
}

// A value of rank 0's slots has gone to those peers.
void send(Ranks& ranks, std::initializer_list<int> peers, uint64_t size_bytes = kSlice) {
  CommonSlots& slots = ranks[0].common_slots()[0];
  REQUIRE(slots.awaited(size_bytes) == nullptr);
  std::byte* place = slots.next(size_bytes, Spread());
  slots.take(size_bytes);
  Message message{.kind = MessageKind::kCommon, .size_bytes = size_bytes, .payload = {0, slots.offset_of(place)}};
  for (int peer : peers) {
    SendStream& to = ranks[0].peers()[peer]->send_stream(0);
    REQUIRE(to.send(message, kSignature, place).ok());
    slots.add_reader(to);
  }
}

// The next message of rank 0 is this rank's, and is released.
void receive(Ranks& ranks, int rank) {
  RecvStream& stream = ranks[rank].peers()[0]->recv_stream(0);
  REQUIRE(stream.ready());
  Message message = decode(stream.next_line());
  const std::byte* payload = stream.payload_in_arena(message);
  REQUIRE(payload != nullptr);
  stream.take(MessageKind::kCommon, payload, message.size_bytes, Lent::kNo);
  stream.release();
}

int awaited(Ranks& ranks, uint64_t size_bytes = kSlice) {
  const Peer* peer = ranks[0].common_slots()[0].awaited(size_bytes);
  return peer == nullptr ? -1 : peer->rank();
}

bool all_went_to(Ranks& ranks, int peer, size_t count, uint64_t size_bytes = kSlice) {
  return ranks[0].common_slots()[0].all_went_to(ranks[0].peers()[peer]->send_stream(0), count, size_bytes);
}

// What rank 0's messages of the first call are in a peer's arena.
std::vector<Message> first_messages(Ranks& ranks, int to, int count) {
  std::vector<Message> messages;
  for (int i = 0; i < count; ++i) {
    const auto* line = reinterpret_cast<const Line*>(ranks[to].arena() + layout_of().line_offset(0, 0, i));
    messages.push_back(decode(*line));
  }
  return messages;
}

}  // namespace

TEST_CASE("a slot is free again when all who read it have released it") {
  Ranks ranks(layout_of(), fabric("shm").make);
  for (int i = 0; i < 4; ++i) send(ranks, {1, 2});
  CHECK(awaited(ranks) == 1);
  receive(ranks, 1);
  CHECK(awaited(ranks) == 2);
  receive(ranks, 2);
  CHECK(awaited(ranks) == -1);
  send(ranks, {1, 2});
  CHECK(awaited(ranks) == 1);  // the next slot
  for (int i = 0; i < 4; ++i) receive(ranks, 1);
  CHECK(awaited(ranks) == 2);
  for (int i = 0; i < 4; ++i) receive(ranks, 2);
  CHECK(awaited(ranks) == -1);
}

TEST_CASE("who waits for a slot waits for peers to which every slot has gone") {
  Ranks ranks(layout_of(), fabric("shm").make);
  CHECK_FALSE(all_went_to(ranks, 1, 2));
  for (int i = 0; i < 4; ++i) send(ranks, {1, 2});
  CHECK(all_went_to(ranks, 1, 2));
  CHECK(all_went_to(ranks, 2, 2));
  CHECK_FALSE(all_went_to(ranks, 1, 1));
  receive(ranks, 1);
  receive(ranks, 2);
  send(ranks, {2});
  CHECK_FALSE(all_went_to(ranks, 1, 2));
  CHECK_FALSE(all_went_to(ranks, 2, 2));
  for (int i = 0; i < 3; ++i) {
    receive(ranks, 1);
    receive(ranks, 2);
    send(ranks, {2});
  }
  CHECK(all_went_to(ranks, 2, 1));
}

TEST_CASE("large values take turns in two slots, and a small one after them waits for who reads its own") {
  constexpr uint64_t kSmall = kSlice / 2;
  StreamLayout layout = layout_of();
  layout.slots = 3;
  layout.mapped_slots.large_bytes = kSmall;
  Ranks ranks(layout, fabric("shm").make);
  const std::byte* arena = ranks[0].arena();
  auto place_of_next = [&](uint64_t size_bytes) {
    const std::byte* place = ranks[0].common_slots()[0].next(size_bytes, Spread());
    return place - arena - static_cast<ptrdiff_t>(layout.common_offset(0));
  };
  const auto stride = static_cast<ptrdiff_t>(layout.common_shape().stride());
  send(ranks, {1}, kSmall);
  CHECK(place_of_next(kSlice) == stride);
  send(ranks, {2});
  CHECK(place_of_next(kSlice) == 2 * stride);
  CHECK_FALSE(all_went_to(ranks, 2, 1));
  send(ranks, {2});
  CHECK(place_of_next(kSlice) == stride);
  CHECK(place_of_next(kSmall) == 0);
  CHECK(all_went_to(ranks, 2, 1));
  CHECK_FALSE(all_went_to(ranks, 2, 1, kSmall));
  CHECK(awaited(ranks) == 2);
  CHECK(awaited(ranks, kSmall) == 1);
  receive(ranks, 2);
  CHECK(awaited(ranks) == -1);
  CHECK(awaited(ranks, kSmall) == 1);
  send(ranks, {2});
  CHECK(place_of_next(kSlice) == 2 * stride);
  CHECK(awaited(ranks) == 2);
  receive(ranks, 1);
  CHECK(awaited(ranks, kSmall) == -1);
  send(ranks, {1}, kSmall);
  CHECK(awaited(ranks, kSmall) == 2);
}

TEST_CASE("a large value that is not yet by turns may be waited with only if every slot went to its peers") {
  StreamLayout layout = layout_of();
  layout.slots = 3;
  layout.mapped_slots.large_bytes = kSlice / 2;
  Ranks ranks(layout, fabric("shm").make);
  send(ranks, {1}, kSlice / 2);
  send(ranks, {2}, kSlice / 2);
  send(ranks, {2});
  CHECK(awaited(ranks) == 1);
  CHECK_FALSE(all_went_to(ranks, 2, 1));
}

TEST_CASE("slots of different channels lie apart, and inside the arena") {
  StreamLayout layout = layout_of(2);
  Ranks ranks(layout, fabric("shm").make);
  std::byte* end = nullptr;
  for (int channel = 0; channel < 2; ++channel) {
    CommonSlots& slots = ranks[0].common_slots()[static_cast<size_t>(channel)];
    for (int i = 0; i < 4; ++i) {
      std::byte* place = slots.next(kSlice, Spread());
      CHECK(place >= end);
      CHECK(slots.offset_of(place) >= layout.common_offset(channel));
      end = place + kSlice;
      CHECK(slots.offset_of(end) <= layout.common_offset(channel + 1));
      slots.take(kSlice);
    }
  }
}

TEST_CASE("what goes to several peers lies in one slot, from the size on that the options say") {
  Case which{.algorithm = find_algorithm(TUTTI_ALL_GATHER, "direct"), .collective = TUTTI_ALL_GATHER, .nranks = kRanks,
             .slice_bytes = kSlice, .count = 100};
  uint64_t bytes = which.count * sizeof(int32_t);
  for (uint64_t least : {bytes, bytes + 1}) {
    INFO(bytes << " bytes, common from " << least << " on");
    Plan plan = plan_for(which);
    Ranks ranks(layout_of(), fabric("shm").make);
    std::vector<std::unique_ptr<Buffers>> buffers;
    for (int rank = 0; rank < kRanks; ++rank) {
      buffers.push_back(std::make_unique<Buffers>(ranks[rank], room_for(which)));
    }
    auto statuses = ranks.each([&](int rank) {
      buffers[rank]->fill(which, rank, 0);
      BoundCall bound(*buffers[rank], plan.shape(), which, rank, 0);
      bound.call.common_slots = ranks[rank].common_slots();
      bound.call.options.common_min_bytes = least;
      bound.call.options.pull_min_bytes = UINT64_MAX;
      return ranks[rank].run(programs_of(plan, rank), bound.call);
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      CHECK(statuses[rank].message() == "");
      CHECK(buffers[rank]->wrong_result() == "");
    }
    Message to_1 = first_messages(ranks, 1, 1)[0], to_2 = first_messages(ranks, 2, 1)[0];
    MessageKind expected = least == bytes ? MessageKind::kCommon : MessageKind::kSlot;
    CHECK(to_1.kind == expected);
    CHECK(to_2.kind == expected);
    if (expected == MessageKind::kCommon) CHECK(to_1.payload.offset == to_2.payload.offset);
  }
}

TEST_CASE("a root waits for the readers of a common slot if all have gone to the same peers, and else does without") {
  const bool same = GENERATE(true, false);
  Case which{.algorithm = find_algorithm(TUTTI_BROADCAST, "direct"), .collective = TUTTI_BROADCAST, .nranks = kRanks,
             .root = 0, .slice_bytes = kSlice, .count = 1000};
  Plan plan = plan_for(which);
  Ranks ranks(layout_of(), fabric("shm").make);
  Buffers buffers(ranks[0], room_for(which));
  auto run = [&](int number) {
    buffers.fill(which, 0, static_cast<uint64_t>(number));
    BoundCall bound(buffers, plan.shape(), which, 0, number);
    bound.call.common_slots = ranks[0].common_slots();
    bound.call.options.pull_min_bytes = UINT64_MAX;
    return ranks[0].run(programs_of(plan, 0), bound.call, 50).code();
  };
  if (!same) send(ranks, {1});
  const int free = same ? 4 : 3;
  for (int i = 0; i < free; ++i) CHECK(run(i) == Code::kOk);
  CHECK(run(free) == (same ? Code::kTimeout : Code::kOk));
  if (!same) CHECK(first_messages(ranks, 2, 4)[3].kind == MessageKind::kSlot);
  CHECK(awaited(ranks) == 1);
}

TEST_CASE("a call that did without a common slot once is repeated with one later") {
  Case which{.algorithm = find_algorithm(TUTTI_BROADCAST, "direct"), .collective = TUTTI_BROADCAST, .nranks = kRanks,
             .root = 0, .slice_bytes = kSlice, .count = 1000};
  Plan plan = plan_for(which);
  std::vector<Program> programs = programs_of(plan, 0);
  Ranks ranks(layout_of(), fabric("shm").make);
  Buffers buffers(ranks[0], room_for(which));
  buffers.fill(which, 0, 0);
  BoundCall bound(buffers, plan.shape(), which, 0, 0);
  bound.call.common_slots = ranks[0].common_slots();
  bound.call.options.pull_min_bytes = UINT64_MAX;
  for (int i = 0; i < 4; ++i) send(ranks, {1});
  REQUIRE(ranks[0].run(programs, bound.call).ok());
  CHECK(first_messages(ranks, 2, 1)[0].kind == MessageKind::kSlot);
  for (int i = 0; i < 4; ++i) receive(ranks, 1);
  for (int i = 1; i <= 2; ++i) {
    ++bound.call.signature;
    REQUIRE(ranks[0].run_again().ok());
    CHECK(first_messages(ranks, 2, i + 1)[static_cast<size_t>(i)].kind == MessageKind::kCommon);
    CHECK(ranks[0].repeats() == (i == 2));
  }
}

TEST_CASE("a message that points beside its sender's common slots ends the call") {
  constexpr uint64_t kCount = 1000, kBytes = kCount * sizeof(int32_t);
  StreamLayout layout = layout_of();
  Case which{.algorithm = find_algorithm(TUTTI_BROADCAST, "direct"), .collective = TUTTI_BROADCAST, .nranks = kRanks,
             .root = 1, .slice_bytes = kSlice, .count = kCount};
  Plan plan = plan_for(which);
  for (uint64_t offset : {layout.common_offset(0) - 64, layout.arena_bytes() - kBytes + 64, UINT64_MAX - 63}) {
    Ranks ranks(layout, fabric("shm").make);
    Buffers buffers(ranks[0], room_for(which));
    buffers.fill(which, 0, 0);
    BoundCall bound(buffers, plan.shape(), which, 0, 0);
    Message message{.kind = MessageKind::kCommon, .size_bytes = kBytes, .payload = {0, offset}, .chunk_bytes = kBytes};
    Line line = encode(message, 1, bound.call.signature, nullptr);
    Link& link = ranks[1].link(0);
    REQUIRE(link.signal({link.find(1), layout.line_offset(1, 0, 0)}, line).ok());
    CHECK(ranks[0].run(programs_of(plan, 0), bound.call).code() == Code::kRemote);
    CHECK(buffers.rest_untouched());
  }
}

TEST_CASE("places outside a sender's common slots are errors, and are not read") {
  StreamLayout layout = layout_of();
  uint64_t begin = layout.common_offset(0), end = layout.arena_bytes();
  Ranks ranks(layout, fabric("shm").make);
  const RecvStream& stream = ranks[1].peers()[0]->recv_stream(0);
  auto is_read = [&](uint64_t offset, uint64_t size_bytes) {
    Message message{.kind = MessageKind::kCommon, .size_bytes = size_bytes, .payload = {0, offset}};
    return stream.payload_in_arena(message) != nullptr;
  };
  CHECK(is_read(begin, kSlice));
  CHECK(is_read(end - kSlice, kSlice));
  CHECK_FALSE(is_read(begin - 64, kSlice));
  CHECK_FALSE(is_read(0, kSlice));
  CHECK_FALSE(is_read(end - kSlice + 64, kSlice));
  CHECK_FALSE(is_read(end, 1));
  CHECK_FALSE(is_read(UINT64_MAX - 63, kSlice));
  CHECK_FALSE(is_read(begin, UINT64_MAX - 63));
  // Messages between two ranks alone have none.
  const RecvStream& direct = ranks[1].peers()[0]->recv_stream(layout.direct_channel());
  CHECK(direct.payload_in_arena({.kind = MessageKind::kCommon, .size_bytes = 1, .payload = {0, begin}}) == nullptr);
}

}  // namespace tutti::test
