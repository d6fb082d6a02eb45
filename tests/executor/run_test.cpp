// Runs every algorithm's Programs with real ranks and compares with a plain loop.
#include <catch2/catch.hpp>

#include <random>

#include "executor/ranks.h"
#include "planner/planner.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace tutti::test {
namespace {

struct Fabric {
  std::string name;
  MakeTransport make;
};

Fabric fabric(const std::string& name) {
  if (name == "shm") return {name, [](const TransportContext& context) { return make_shm_transport(context); }};
  if (name == "tcp") return {name, [](const TransportContext& context) { return make_tcp_transport(context); }};
  auto hub = make_loopback_hub();
  return {name, [hub](const TransportContext& context) { return make_loopback_transport(context, hub); }};
}

enum class Memory { kOrdinary, kShared, kMixed };  // kMixed: even ranks pass shared memory, odd ranks ordinary memory

struct Case {
  uint64_t count = 0;
  bool in_place = false;
  Memory memory = Memory::kOrdinary;
  ReduceOp op = TUTTI_SUM;
};

int32_t element(int rank, uint64_t index, uint64_t salt) {
  return static_cast<int32_t>((index * 2654435761u + static_cast<uint64_t>(rank) * 40503u + salt) % 1000) - 500;
}

// The buffers of one rank for one call, with room that must stay untouched behind them.
class Buffers {
 public:
  Buffers(Rank& rank, uint64_t count, bool shared) : count_(count) {
    uint64_t bytes = (count + kGuard) * sizeof(int32_t) + 64;
    if (shared) {
      shared_in_ = rank.allocate(bytes);
      shared_out_ = rank.allocate(bytes);
      in_window = rank.share(shared_in_);
      out_window = rank.share(shared_out_);
      in = reinterpret_cast<int32_t*>(shared_in_.data());
      out = reinterpret_cast<int32_t*>(shared_out_.data());
    } else {
      plain_in_.resize(count + kGuard + 1);
      plain_out_.resize(count + kGuard + 1);
      in = plain_in_.data() + 1;  // aligned for the type, and no better
      out = plain_out_.data() + 1;
    }
  }
  void fill(int rank, uint64_t salt, bool in_place) {
    for (uint64_t i = 0; i < count_; ++i) (in_place ? out : in)[i] = element(rank, i, salt);
    for (uint64_t i = 0; i < kGuard; ++i) out[count_ + i] = kUntouched;
  }
  bool guard_intact() const {
    return std::all_of(out + count_, out + count_ + kGuard, [](int32_t v) { return v == kUntouched; });
  }

  int32_t* in;
  int32_t* out;
  Window in_window, out_window;

 private:
  static constexpr uint64_t kGuard = 16;
  static constexpr int32_t kUntouched = 0x5a5a5a5a;
  uint64_t count_;
  Rank::Shared shared_in_, shared_out_;
  std::vector<int32_t> plain_in_, plain_out_;
};

// "" when `out` holds the right result.
std::string compare(const int32_t* out, int nranks, uint64_t count, uint64_t salt) {
  for (uint64_t i = 0; i < count; ++i) {
    int64_t want = 0;
    for (int rank = 0; rank < nranks; ++rank) want += element(rank, i, salt);
    if (out[i] != want) return fmt::format("element {} is {} and should be {}", i, out[i], want);
  }
  return "";
}

// Several calls back to back with different data.
void run_case(Ranks& ranks, const Plan& plan, const Case& which) {
  constexpr int kCalls = 4;
  const PlanShape& shape = plan.shape();
  auto statuses = ranks.each([&](int rank) -> Status {
    std::vector<Program> programs;
    for (int channel = 0; channel < shape.channels; ++channel) programs.push_back(lower(plan.part(rank, channel)));
    bool shared = which.memory == Memory::kShared || (which.memory == Memory::kMixed && rank % 2 == 0);
    Buffers buffers(ranks[rank], which.count, shared);
    for (int number = 0; number < kCalls; ++number) {
      buffers.fill(rank, number, which.in_place);
      Call call;
      call.shape = &shape;
      call.datatype = TUTTI_INT32;
      call.input = reinterpret_cast<std::byte*>(which.in_place ? buffers.out : buffers.in);
      call.output = reinterpret_cast<std::byte*>(buffers.out);
      call.size_bytes = which.count * sizeof(int32_t);
      call.partition = Partition(which.count, sizeof(int32_t), shape.channels, shape.chunks, shape.slice_bytes);
      call.signature = 1000 + number;
      call.input_window = which.in_place ? buffers.out_window : buffers.in_window;
      call.output_window = buffers.out_window;
      call.options = {.pull_min_bytes = 256, .streaming_min_bytes = 4096};
      TUTTI_TRY(ranks[rank].run(programs, call));
      std::string wrong = compare(buffers.out, shape.nranks, which.count, number);
      if (!buffers.guard_intact()) wrong = "bytes behind the result were written";
      if (!wrong.empty()) return error(Code::kInternal, "rank {}, call {}: {}", rank, number, wrong);
    }
    return {};
  });
  for (const Status& status : statuses) CHECK(status.message() == "");
}

Topology topology_of(int nranks) {
  Inventory inventory;
  inventory.identity.boot_id = "test";
  inventory.cpu.logical_cpus = 2;
  inventory.cpu.allowed_cpus = {0, 1};
  return single_host(inventory, nranks);
}

void run_algorithm(const std::string& name, const Fabric& over, int nranks, int slots, uint64_t slice_bytes) {
  const Algorithm* algorithm = find_algorithm(name);
  REQUIRE(algorithm != nullptr);
  Topology topology = topology_of(nranks);
  Request request{.count = 100'000};
  Tuning tuning{.slice_bytes = slice_bytes, .max_slice_bytes = slice_bytes};
  PlanShape shape = algorithm->shape(topology, request, tuning);
  Plan plan(shape, algorithm->generate);
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
  Topology topology = topology_of(2);
  Request request{.count = 1};
  Tuning tuning{.slice_bytes = 1024, .max_slice_bytes = 1024};
  const Algorithm& one_shot = *find_algorithm("direct_one_shot");
  Plan plan(one_shot.shape(topology, request, tuning), one_shot.generate);
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

}  // namespace tutti::test
