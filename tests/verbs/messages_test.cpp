// Sends and receives over verbs, through the C API: where their data go, and that they arrive.
#include <cstring>
#include <map>

#include "core/messages.h"
#include "verbs/faked.h"

namespace tutti::test {
namespace {

constexpr size_t kFloats = 4'000'000;  // four of what goes at once

Options over_fake(const Options& more = {}) {
  Options options = {{"transport", "verbs"}, {"ib_library", TUTTI_TEST_VERBS_LIBRARY}};
  options.insert(more.begin(), more.end());
  return options;
}

// Floats of a kind of memory.
class Memory {
 public:
  enum Kind : uint8_t { kOrdinary, kShared, kRegistered };
  // What is registered begins and ends within pages.
  Memory(Kind kind, size_t count, tutti_comm_t* comm) : kind_(kind), comm_(comm) {
    ordinary_.resize(kind == kShared ? 0 : count + 3);
    void* memory = ordinary_.data() + 3;
    if (kind == kShared) tutti_mem_alloc(&memory, count * sizeof(float));
    floats_ = {static_cast<float*>(memory), count};
    if (kind == kRegistered) tutti_comm_register(comm, memory, count * sizeof(float), &registration_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (kind_ == kShared) tutti_mem_free(floats_.data());
    if (kind_ == kRegistered) tutti_comm_deregister(comm_, registration_);
  }
  std::span<float> floats() const { return floats_; }

 private:
  const Kind kind_;
  tutti_comm_t* const comm_;
  std::vector<float> ordinary_;
  std::span<float> floats_;
  void* registration_ = nullptr;
};

tutti_request_t* start_sum(tutti_comm_t* comm, std::span<const float> input, std::span<float> output) {
  tutti_call_t call{};
  call.struct_size = sizeof call;
  call.collective = TUTTI_ALL_REDUCE;
  call.datatype = TUTTI_FLOAT32;
  call.op = TUTTI_SUM;
  call.count = input.size();
  call.send_buffer = input.data();
  call.recv_buffer = output.data();
  tutti_request_t* request = nullptr;
  tutti_start(comm, &call, &request);
  return request;
}

// What one message of kFloats costs the device, to and from such memory.
FakeCounts cost_of_message(Memory::Kind from, Memory::Kind to) {
  Fake fake;
  check_all(with_ranks(2, over_fake(), [&](tutti_comm_t* comm, int rank) {
    Memory memory(rank == 0 ? from : to, kFloats, comm);
    if (rank == 0) {
      fill(memory.floats(), 0, 1, 5);
      return send(comm, memory.floats(), 1, 5);
    }
    std::fill(memory.floats().begin(), memory.floats().end(), -1.0F);
    std::string wrong = receive(comm, memory.floats(), 0, 5);
    return wrong + compare(memory.floats(), 0, 1, 5);
  }));
  check_used_well(fake);
  return fake.counts();
}

}  // namespace

TEST_CASE("a message into memory that the device knows arrives there, without a copy") {
  for (Memory::Kind to : {Memory::kShared, Memory::kRegistered}) {
    // Four puts of a write and a message each, and what it takes to join, to agree and to part.
    CHECK(cost_of_message(Memory::kShared, to).requests < 60);
    CHECK(cost_of_message(Memory::kOrdinary, to).requests < 60 + kFloats * sizeof(float) / (64 << 10));
  }
}

TEST_CASE("a message into other memory arrives in pieces that are copied") {
  for (Memory::Kind from : {Memory::kShared, Memory::kRegistered, Memory::kOrdinary}) {
    CHECK(cost_of_message(from, Memory::kOrdinary).requests > 2 * (kFloats * sizeof(float)) / (64 << 10));
  }
}

TEST_CASE("messages that wait together, for the link to connect, leave with few doorbells") {
  constexpr int kMessages = 48;
  Fake fake;
  check_all(with_ranks(2, over_fake(), [&](tutti_comm_t* comm, int rank) {
    std::vector<std::vector<float>> data(kMessages, std::vector<float>(8));
    std::vector<tutti_request_t*> requests;
    for (int i = 0; i < kMessages; ++i) {
      if (rank == 0) fill(data[i], 0, 1, i);
      requests.push_back(start(comm, rank == 0 ? TUTTI_SEND : TUTTI_RECV, data[i], 1 - rank, i));
    }
    std::string wrong = wait_all(comm, requests);
    for (int i = 0; rank == 1 && i < kMessages; ++i) wrong += compare(data[i], 0, 1, i);
    return wrong;
  }));
  CHECK(fake.counts().requests > kMessages);
  CHECK(fake.counts().doorbells + kMessages / 2 < fake.counts().requests);
  check_used_well(fake);
}

TEST_CASE("the channels of a large call are halves of it, and each goes over a device of its own as far as it can") {
  constexpr size_t kCount = 2'000'000;
  Fake fake;
  std::map<std::string, uint64_t> before;
  check_all(with_ranks(2, over_fake(), [&](tutti_comm_t* comm, int rank) {
    Memory memory(Memory::kShared, kCount, comm);
    std::fill(memory.floats().begin(), memory.floats().end(), rank == 0 ? 3.0F : 0.0F);
    std::span<float> floats = memory.floats();
    if (tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) return std::string(tutti_last_error(comm));
    if (rank == 0) before = fake.counts().written_bytes;
    auto status = tutti_broadcast(floats.data(), floats.data(), kCount, TUTTI_FLOAT32, 0, comm, nullptr);
    if (status != TUTTI_SUCCESS) return std::string(tutti_last_error(comm));
    bool is_right = std::all_of(floats.begin(), floats.end(), [](float each) { return each == 3; });
    return std::string(is_right ? "" : "a wrong number");
  }));
  std::map<std::string, uint64_t> after = fake.counts().written_bytes;
  for (const char* device : {"fake0", "fake1"}) {
    INFO(device);
    CHECK(after[device] - before[device] > kCount * sizeof(float) * 40 / 100);
  }
  check_used_well(fake);
}

// Without that the peer's puts would be refused, which ends the job.
TEST_CASE("memory that a message is on its way to stays registered, however many receives there are") {
  constexpr int kMessages = 12;
  constexpr size_t kCount = 100'000;
  Fake fake;
  check_all(with_ranks(2, over_fake({{"ib_regions", "3"}}), [&](tutti_comm_t* comm, int rank) {
    std::vector<std::unique_ptr<Memory>> memory;
    std::vector<tutti_request_t*> requests;
    for (int i = 0; i < kMessages; ++i) {
      memory.push_back(std::make_unique<Memory>(Memory::kShared, kCount, comm));
      std::span<float> floats = memory.back()->floats();
      if (rank == 0) fill(floats, 0, 1, i);
      requests.push_back(start(comm, rank == 0 ? TUTTI_SEND : TUTTI_RECV, floats, 1 - rank, i));
    }
    std::string wrong = wait_all(comm, requests);
    for (int i = 0; rank == 1 && i < kMessages; ++i) wrong += compare(memory[i]->floats(), 0, 1, i);
    return wrong;
  }));
  check_used_well(fake);
}

// The peer learns that it may not write there any more when it may already have begun to.
TEST_CASE("a collective's output stays registered, whatever is sent and received meanwhile") {
  constexpr int kMessages = 8;
  constexpr size_t kSums = 2'000'000;
  constexpr size_t kCount = 200'000;
  auto bounds = GENERATE(Options{{"ib_regions", "2"}}, Options{{"ib_regions", "2"}},
                         Options{{"ib_region_bytes", "1000000"}});  // less than either buffer of the sum
  Fake fake;
  check_all(with_ranks(2, over_fake(bounds), [&](tutti_comm_t* comm, int rank) {
    Memory input(Memory::kShared, kSums, comm), output(Memory::kShared, kSums, comm);
    std::vector<std::unique_ptr<Memory>> messages;
    for (int i = 0; i < kMessages; ++i) {
      messages.push_back(std::make_unique<Memory>(Memory::kShared, kCount, comm));
      if (rank == 0) fill(messages.back()->floats(), 0, 1, i);
    }
    std::fill(input.floats().begin(), input.floats().end(), 1.0F);
    if (rank == 0) fake.verbs->set_faults({.lag = 50});
    for (int round = 0; round < 2; ++round) {
      std::vector<tutti_request_t*> requests = {start_sum(comm, input.floats(), output.floats())};
      for (int i = 0; i < kMessages; ++i) {
        requests.push_back(start(comm, rank == 0 ? TUTTI_SEND : TUTTI_RECV, messages[i]->floats(), 1 - rank, i));
      }
      if (std::string wrong = wait_all(comm, requests); !wrong.empty()) return wrong;
      std::span<float> sums = output.floats();
      if (std::any_of(sums.begin(), sums.end(), [](float sum) { return sum != 2; })) return std::string("a wrong sum");
      std::fill(sums.begin(), sums.end(), 0.0F);
    }
    std::string wrong;
    for (int i = 0; rank == 1 && i < kMessages; ++i) wrong += compare(messages[i]->floats(), 0, 1, i);
    return wrong;
  }));
  check_used_well(fake);
}

}  // namespace tutti::test
