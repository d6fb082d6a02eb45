// Calls that are made again (executor/repeat.h): the results of all algorithms, with links that hold back, refuse
// and break in the middle of them, and a peer that comes with another call.
#include <catch2/catch.hpp>

#include "base/sanitizers.h"
#include "executor/collective.h"
#include "transports/fault/fault.h"

namespace tutti::test {
namespace {

constexpr uint64_t kSeed = 20261123;

MakeTransport with_faults(const std::string& over, const Faults& faults) {
  return [inner = fabric(over).make, faults](const TransportContext& context) {
    Faults own = faults;
    own.seed = faults.seed * 100 + static_cast<uint64_t>(context.rank);
    return make_fault_transport(inner(context), own);
  };
}

Case draw_repeatable(Chance& chance, const Algorithm& algorithm, int nranks) {
  Case which = draw_case(chance, algorithm, nranks, false);
  which.count = static_cast<uint64_t>(chance.one_of({0, 1, 10, 11, 250}));  // a line holds 10 elements
  which.channels = 1;
  return which;
}

// One call that its ranks make again and again, each time with other contents.
class Repeated {
 public:
  Repeated(Case which, const MakeTransport& make)
      : which_(std::move(which)),
        plan_(plan_for(which_)),
        ranks_({.nranks = which_.nranks,
                .channels = plan_.shape().channels,
                .slots = 3,
                .slot_bytes = plan_.shape().slice_bytes,
                .mapped_slots = {.large_bytes = 64}},
               make),
        again_(which_.nranks) {
    for (int rank = 0; rank < which_.nranks; ++rank) {
      programs_.push_back(programs_of(plan_, rank));
      buffers_.push_back(std::make_unique<Buffers>(ranks_[rank], room_for(which_)));
      buffers_.back()->fill(which_, rank, 0);
      bound_.push_back(std::make_unique<BoundCall>(*buffers_.back(), plan_.shape(), which_, rank, 0));
      bound_.back()->call.common_slots = ranks_[rank].common_slots();
    }
  }

  // Who fails breaks its links, as its communicator would.
  std::vector<Status> each(const std::function<Status(int rank)>& body) {
    return ranks_.each([&](int rank) {
      Status status = body(rank);
      if (!status.ok()) ranks_[rank].abort();
      return status;
    });
  }

  // One that the rank makes anew, with memory that the others reach if they did not, or the reverse.
  Status call_otherwise(int rank, int number) {
    Case other = which_;
    other.memory = which_.shares(rank) ? Memory::kOrdinary : Memory::kShared;
    again_[rank] = false;
    return run_call(ranks_[rank], plan_, programs_[rank], *buffers_[rank], other, number);
  }

  Status call(int rank, int number) {
    Buffers& buffers = *buffers_[rank];
    buffers.fill(which_, rank, static_cast<uint64_t>(number));
    Call& call = bound_[rank]->call;
    call.signature = 1000 + static_cast<uint64_t>(number);
    TUTTI_TRY(again_[rank] ? ranks_[rank].run_again() : ranks_[rank].run(programs_[rank], call));
    if (again_[rank] && ranks_[rank].repeats()) ++repeated_;
    again_[rank] = true;
    std::string wrong = buffers.wrong_result();
    if (!wrong.empty()) return error(Code::kInternal, "rank {}, call {}: {}", rank, number, wrong);
    if (buffers.rest_untouched()) return {};
    return error(Code::kSystem, "rank {}, call {} wrote beside its result", rank, number);
  }

  // All ranks make so many calls, and each gives them their results.
  void check(int calls) {
    auto statuses = each([&](int rank) -> Status {
      for (int number = 0; number < calls; ++number) TUTTI_TRY(call(rank, number));
      return {};
    });
    for (const Status& status : statuses) CHECK(status.message() == "");
  }

  int repeated() const { return repeated_; }
  // Of calls whose results go through the caches.
  void set_options(const DataPathOptions& options) {
    for (auto& each : bound_) {
      each->call.options = options;
      each->call.streams = false;
    }
  }

 private:
  const Case which_;
  const Plan plan_;
  Ranks ranks_;
  std::vector<std::vector<Program>> programs_;
  std::vector<std::unique_ptr<Buffers>> buffers_;
  std::vector<std::unique_ptr<BoundCall>> bound_;
  std::vector<char> again_;  // whether the rank's last call was this one
  std::atomic<int> repeated_{0};
};

}  // namespace

TEST_CASE("a call made again gives each rank its result, also over links that hold back and refuse") {
  constexpr int kCalls = 12;
  const std::string over = GENERATE("loopback", "shm", "tcp");
  const bool with_holds = GENERATE(false, true);
  const Faults faults{.hold_chance = 0.15, .full_chance = 0.15};
  Chance chance(kSeed);
  int repeated = 0;
  for (int nranks : {2, 3, 4}) {
    for (const Algorithm* algorithm : algorithms()) {
      Case which = draw_repeatable(chance, *algorithm, nranks);
      INFO(which.text() << " over " << over << ", faults " << with_holds);
      Repeated calls(which, with_holds ? with_faults(over, faults) : fabric(over).make);
      calls.check(kCalls);
      repeated += calls.repeated();
    }
  }
  // Links that need polling, TCP's and those with faults, are driven by advance() alone.
  CHECK((repeated > 0) == (over != "tcp" && !with_holds));
}

TEST_CASE("lines, slots, references, direct stores, bare signals and steps that lag are repeated") {
  constexpr int kCalls = 5, kRanks = 3;
  const Memory memory = GENERATE(Memory::kOrdinary, Memory::kShared, Memory::kMixed);
  auto [collective, algorithm, count] = GENERATE(table<Collective, const char*, uint64_t>(
      {{TUTTI_ALL_REDUCE, "direct_one_shot", 1}, {TUTTI_ALL_REDUCE, "direct_one_shot", 20},
       {TUTTI_ALL_REDUCE, "direct_two_shot", 90}, {TUTTI_REDUCE_SCATTER, "direct", 20}, {TUTTI_BARRIER, "direct", 0}}));
  const std::string over = GENERATE("loopback", "shm");
  const Case which{.algorithm = find_algorithm(collective, algorithm),
                   .collective = collective,
                   .nranks = kRanks,
                   .count = count,
                   .memory = memory};
  INFO(which.text() << " over " << over);
  Repeated calls(which, fabric(over).make);
  calls.check(kCalls);
  CHECK(calls.repeated() == kRanks * (kCalls - 1));
}

TEST_CASE("a call made again is right when the messages of some ranks are of another kind than before") {
  constexpr int kCalls = 16;
  const std::string over = GENERATE("loopback", "shm");
  Chance chance(kSeed + 2);
  for (int nranks : {2, 3, 4}) {
    for (const Algorithm* algorithm : algorithms()) {
      Case which = draw_repeatable(chance, *algorithm, nranks);
      which.count = static_cast<uint64_t>(chance.one_of({11, 100, 250}));
      INFO(which.text() << " over " << over);
      Repeated calls(which, fabric(over).make);
      auto statuses = calls.each([&](int rank) -> Status {
        for (int number = 0; number < kCalls; ++number) {
          bool is_other = rank % 2 == 0 && number % 4 == 3;
          TUTTI_TRY(is_other ? calls.call_otherwise(rank, number) : calls.call(rank, number));
        }
        return {};
      });
      for (const Status& status : statuses) CHECK(status.message() == "");
    }
  }
}

TEST_CASE("calls are repeated again after a trial of how slots are filled, but not while that is past the caches") {
#ifndef __SSE2__
  return;  // there is one way only
#endif
  constexpr int kCalls = 300;
  constexpr uint64_t kBytes = 12'000;
  const int nranks = GENERATE(2, 3);  // three share slots
  // By a cost of memory that nothing makes up for, or that is less than none.
  const bool past_caches = GENERATE(false, true);
  Case which{.algorithm = find_algorithm(TUTTI_ALL_REDUCE, "direct_one_shot"),
             .nranks = nranks,
             .slice_bytes = 16384,
             .count = kBytes / 4};
  Repeated calls(which, fabric("shm").make);
  calls.set_options({.memory_ns_per_byte = past_caches ? -1e9F : 1e9F});
  calls.check(kCalls);
  // The first trial begins within the first 256 calls; one takes six, and two more until calls are repeated again.
  INFO("repeated " << calls.repeated() << ", past caches " << past_caches);
  if (past_caches) CHECK((calls.repeated() > 0 && calls.repeated() <= nranks * 256));
  else CHECK((calls.repeated() >= nranks * (kCalls - 40) && calls.repeated() <= nranks * (kCalls - 7)));
}

TEST_CASE("results are right while it is tried whether slots are better filled through the caches or past them") {
  constexpr int kCalls = 300;  // the trial begins within the first 256 payloads of a size, and takes six
  const std::string over = GENERATE("loopback", "shm");
  for (int nranks : {2, 3}) {
    if (kUnderThreadSanitizer && (nranks > 2) != (over == "shm")) continue;
    for (const Algorithm* algorithm : algorithms()) {
      Case which{.algorithm = algorithm, .collective = algorithm->collective, .nranks = nranks, .slice_bytes = 16384};
      which.root = has_root(which.collective) ? nranks - 1 : -1;
      which.count = which.collective == TUTTI_BARRIER ? 0 : 3000;
      INFO(which.text() << " over " << over);
      Repeated calls(which, fabric(over).make);
      calls.check(kCalls);
    }
  }
}

TEST_CASE("a link that breaks in a call made again ends every rank with an error") {
  const std::string over = GENERATE("loopback", "shm");
  Chance chance(kSeed + 1);
  for (const Algorithm* algorithm : algorithms()) {
    Case which = draw_repeatable(chance, *algorithm, 3);
    Faults faults{.kill = static_cast<uint64_t>(chance.between(3, 20))};
    INFO(which.text() << " over " << over << ", broken at " << faults.kill);
    Repeated calls(which, with_faults(over, faults));
    auto statuses = calls.each([&](int rank) {
      Status status;
      for (int number = 0; number < 2000 && status.ok(); ++number) status = calls.call(rank, number);
      return status;
    });
    for (const Status& status : statuses) {
      INFO(status.message());
      CHECK((status.code() == Code::kAborted || status.code() == Code::kRemote));
    }
  }
}

TEST_CASE("an access to memory of a peer that leaves meanwhile is ended once") {
  constexpr uint64_t kSignature = 7;
  const std::string over = GENERATE("loopback", "shm");
  INFO(over);
  Ranks ranks({.nranks = 2, .channels = 1, .slots = 2, .slot_bytes = 64}, fabric(over).make);
  Peer& lender = *ranks[0].peers()[1];
  Repeat repeat;
  repeat.begin_call({});
  repeat.lend(lender, nullptr);
  repeat.enter();
  repeat.receive(lender, lender.recv_stream(0), {.kind = MessageKind::kInline}, nullptr, nullptr);
  repeat.leave();
  CHECK(repeat.walk(kSignature) == Repeat::Walk::kWaits);
  CHECK(ranks[1].link(0).is_accessed());
  const std::byte value{};
  CHECK(ranks[1].peers()[0]->send_stream(0).send_inline(kSignature, {&value, 0}).ok());
  ranks[1].abort();
  CHECK(repeat.walk(kSignature) == Repeat::Walk::kElse);
  CHECK(repeat.walk(kSignature) == Repeat::Walk::kElse);  // whoever takes over may ask once more
  CHECK_FALSE(ranks[1].link(0).is_accessed());
}

TEST_CASE("memory of a peer that is read and stored to is entered once, and whatever is read") {
  constexpr uint64_t kSignature = 7;
  Ranks ranks({.nranks = 2, .channels = 1, .slots = 2, .slot_bytes = 64}, fabric("shm").make);
  Peer& lender = *ranks[0].peers()[1];
  const RecvStream* reads = &lender.recv_stream(0);  // holds nothing, and so nothing of the lender's
  for (bool stores : {false, true}) {
    for (bool reads_first : {false, true}) {
      INFO("stores " << stores << ", reads first " << reads_first);
      Repeat repeat;
      repeat.begin_call({});
      if (reads_first) repeat.lend(lender, reads);
      if (stores) repeat.lend(lender, nullptr);
      if (!reads_first) repeat.lend(lender, reads);
      repeat.enter();
      repeat.receive(lender, lender.recv_stream(0), {.kind = MessageKind::kInline}, nullptr, nullptr);
      repeat.leave();
      CHECK(repeat.walk(kSignature) == Repeat::Walk::kWaits);
      CHECK(ranks[1].link(0).is_accessed() == stores);
      const std::byte value{};
      CHECK(ranks[1].peers()[0]->send_stream(0).send_inline(kSignature, {&value, 0}).ok());
      CHECK(repeat.walk(kSignature) == Repeat::Walk::kDone);
      CHECK_FALSE(ranks[1].link(0).is_accessed());
      lender.recv_stream(0).release();
    }
  }
}

TEST_CASE("a call made again waits for a slot that several share, or goes on otherwise where it may not") {
  constexpr uint64_t kSignature = 7;
  constexpr uint32_t kSize = 64, kOp = 3;
  constexpr int kSlots = 2;
  Ranks ranks({.nranks = 3, .channels = 1, .slots = kSlots, .slot_bytes = kSize}, fabric("shm").make);
  CommonSlots& slots = ranks[0].common_slots()[0];
  std::byte* place = nullptr;
  auto note = [&](Repeat& repeat, std::initializer_list<int> peers) {
    repeat.begin_call({});
    repeat.begin_op(kOp);
    for (int peer : peers) repeat.share_with(ranks[0].peers()[peer]->send_stream(0));
    repeat.find_common(&place, slots, kSize, PayloadOrigin::kCopied);
    for (int peer : peers) {
      Peer& to = *ranks[0].peers()[peer];
      repeat.send_common(to, to.send_stream(0), {.kind = MessageKind::kCommon, .size_bytes = kSize}, slots, &place);
    }
  };
  auto walk = [&](Repeat& repeat) {
    repeat.start();
    return repeat.walk(kSignature);
  };
  auto release_next = [&](int rank) {
    RecvStream& stream = ranks[rank].peers()[0]->recv_stream(0);
    REQUIRE(stream.ready());
    const std::byte* payload = stream.payload_in_arena(decode(stream.next_line()));
    REQUIRE(payload != nullptr);
    stream.take(MessageKind::kCommon, payload, kSize, Lent::kNo);
    stream.release();
  };
  Repeat both, one;
  note(both, {1, 2});
  note(one, {2});
  for (int i = 0; i < kSlots; ++i) CHECK(walk(both) == Repeat::Walk::kDone);
  CHECK(walk(one) == Repeat::Walk::kElse);
  CHECK(one.op() == kOp);
  CHECK(walk(both) == Repeat::Walk::kWaits);
  CHECK(both.awaited_from().rank() == 1);
  CHECK(both.awaited() == nullptr);
  release_next(1);
  CHECK(both.walk(kSignature) == Repeat::Walk::kWaits);
  CHECK(both.awaited_from().rank() == 2);
  release_next(2);
  CHECK(both.walk(kSignature) == Repeat::Walk::kDone);
}

TEST_CASE("a call made again waits for the slot that a value of its size takes") {
  constexpr uint64_t kSignature = 7, kLarge = 128;
  Ranks ranks({.nranks = 3, .channels = 1, .slots = 3, .slot_bytes = kLarge, .mapped_slots = {.large_bytes = 64}},
              fabric("shm").make);
  CommonSlots& slots = ranks[0].common_slots()[0];
  std::byte* place = nullptr;
  auto walk = [&](int rank, uint32_t size_bytes) {
    Repeat repeat;
    Peer& to = *ranks[0].peers()[rank];
    repeat.begin_call({});
    repeat.begin_op(1);
    repeat.share_with(to.send_stream(0));
    repeat.find_common(&place, slots, size_bytes, PayloadOrigin::kCopied);
    repeat.send_common(to, to.send_stream(0), {.kind = MessageKind::kCommon, .size_bytes = size_bytes}, slots, &place);
    repeat.start();
    return repeat.walk(kSignature);
  };
  CHECK(walk(1, 64) == Repeat::Walk::kDone);
  CHECK(walk(2, kLarge) == Repeat::Walk::kDone);
  CHECK(walk(2, kLarge) == Repeat::Walk::kDone);
  CHECK(walk(2, 64) == Repeat::Walk::kElse);  // its slot is rank 1's
  CHECK(walk(2, kLarge) == Repeat::Walk::kWaits);
  RecvStream& stream = ranks[2].peers()[0]->recv_stream(0);
  REQUIRE(stream.ready());
  const std::byte* payload = stream.payload_in_arena(decode(stream.next_line()));
  REQUIRE(payload != nullptr);
  stream.take(MessageKind::kCommon, payload, kLarge, Lent::kNo);
  stream.release();
  CHECK(walk(2, kLarge) == Repeat::Walk::kDone);
}

TEST_CASE("a rank that makes a call again finds that its peer makes another one") {
  constexpr int kSame = 4;
  const std::string over = GENERATE("loopback", "shm");
  const Case which{.algorithm = find_algorithm(TUTTI_ALL_REDUCE, "direct_one_shot"), .count = 3};
  INFO(over);
  Repeated calls(which, fabric(over).make);
  auto statuses = calls.each([&](int rank) -> Status {
    for (int number = 0; number < kSame; ++number) TUTTI_TRY(calls.call(rank, number));
    return calls.call(rank, kSame + rank);  // another number is another signature
  });
  for (const Status& status : statuses) CHECK(status.code() == Code::kInvalidUsage);
}

}  // namespace tutti::test
