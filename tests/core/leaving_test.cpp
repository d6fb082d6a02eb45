// Ranks that leave while others still exchange messages.
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "core/links.h"
#include "core/messages.h"
#include "discovery/discover.h"
#include "tutti/tutti_nccl.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 6;  // then 0 and 3 have no control connection to each other
constexpr int kOpposite = kRanks / 2;

void wait_for_others_to_leave() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

int regions_of_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("tutti-memory") != std::string::npos;
  return count;
}

}  // namespace

TEST_CASE("two ranks exchange messages when all others have called finalize") {
  for (const char* transport : kTransports) {
    for (bool were_connected : {true, false}) {
      INFO(transport << (were_connected ? ", connected" : ""));
      auto began = std::chrono::steady_clock::now();
      check_all(with_ranks(kRanks, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
        if (rank % kOpposite != 0) return "";
        std::vector<float> out(100), in(100);
        std::string wrong;
        for (int i = were_connected ? 0 : 1; i < 3; ++i) {
          if (i == 1) wait_for_others_to_leave();
          fill(out, rank, kOpposite - rank, i);
          wrong += rank == 0 ? send(comm, out, kOpposite, i) : receive(comm, in, 0, i);
          wrong += rank == 0 ? receive(comm, in, kOpposite, i) : send(comm, out, 0, i);
          wrong += compare(in, kOpposite - rank, rank, i);
        }
        return wrong;
      }));
      // Nobody has waited for its deadline, which is a minute.
      CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));
    }
  }
}

TEST_CASE("who receives from a rank that has finalized is told, also if they are no neighbours") {
  for (const char* transport : kTransports) {
    for (int peer : {kOpposite, TUTTI_ANY_SOURCE}) {
      INFO(transport << ", peer " << peer);
      auto said = with_ranks(kRanks, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
        if (rank != 0) return "";
        wait_for_others_to_leave();
        std::vector<float> data(2);
        return receive(comm, data, peer, 6);
      });
      CHECK_THAT(said[0], Catch::Contains("finalized, but rank 0 called recv of up to 2 float32 from"));
    }
  }
}

TEST_CASE("who makes another call than a rank that is in finalize is told both calls") {
  for (const char* transport : kTransports) {
    INFO(transport);
    auto said = with_ranks(2, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
      std::vector<float> data(8), out(8);
      tutti_barrier(comm, nullptr);  // connects them, so that the broadcast returns
      if (rank == 0) {
        tutti_broadcast(data.data(), data.data(), 8, TUTTI_FLOAT32, 0, comm, nullptr);
        return "";
      }
      wait_for_others_to_leave();
      tutti_all_reduce(data.data(), out.data(), 8, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
      return tutti_last_error(comm);
    });
    CHECK_THAT(said[1], Catch::Contains("rank 0 called broadcast #2 of 8 float32 from rank 0, but rank 1 called "
                                        "all_reduce #2"));
  }
}

TEST_CASE("freed memory goes back to the system while a receive stands") {
  constexpr int kRounds = 320;  // each region is mapped by both ranks, until they look; that may be late
  constexpr size_t kCount = 300'000;
  std::string transport = GENERATE("loopback", "shm");
  check_all(with_ranks(2, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) -> std::string {
    std::vector<float> flag(1), data(kCount);
    std::vector<tutti_request_t*> standing;
    if (rank == 0) standing.push_back(start(comm, TUTTI_RECV, flag, 1, 99));
    std::string wrong;
    int most = 0;
    for (int i = 0; i < kRounds; ++i) {
      if (rank == 1) {
        wrong += receive(comm, data, 0, 0);
        continue;
      }
      void* memory = nullptr;
      if (tutti_mem_alloc(&memory, kCount * sizeof(float)) != TUTTI_SUCCESS) return tutti_last_error(nullptr);
      wrong += send(comm, {static_cast<const float*>(memory), kCount}, 1, 0);
      tutti_mem_free(memory);
      most = std::max(most, regions_of_shared_memory());
    }
    if (most > kRounds / 2) wrong += fmt::format("{} regions at once; ", most);
    if (rank == 1) return wrong + send(comm, flag, 0, 99);
    return wrong + wait_all(comm, standing);
  }));
}

TEST_CASE("a rank that leaves in the middle of a call disturbs the others when they need it, and not before") {
  constexpr int kAll = 4;
  for (const char* transport : kTransports) {
    for (bool in_message : {true, false}) {
      INFO(transport << (in_message ? ", a message" : ", a collective"));
      auto said = with_ranks(kAll, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
        std::vector<float> out(100), in(100);
        auto all_reduce = [&] {
          return tutti_all_reduce(out.data(), in.data(), 100, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
        };
        if (all_reduce() != TUTTI_SUCCESS) return tutti_last_error(comm);
        if (rank == 0) {
          std::thread other([&] {
            wait_for_others_to_leave();
            tutti_comm_leave(comm);
          });
          tutti_status_t status = tutti_recv(in.data(), 100, TUTTI_FLOAT32, 1, 77, comm, nullptr, nullptr);
          other.join();
          return status == TUTTI_ABORTED ? "" : "the call has not ended";
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(400));
        std::string wrong;
        int before = rank == 1 ? kAll - 1 : rank - 1, after = rank == kAll - 1 ? 1 : rank + 1;
        for (int i = 0; i < 3; ++i) {
          fill(out, rank, after, i);
          tutti_status_t status = tutti_send_recv(out.data(), 100, after, i, in.data(), 100, before, i, TUTTI_FLOAT32,
                                                  comm, nullptr, nullptr);
          wrong += status == TUTTI_SUCCESS ? compare(in, before, rank, i) : tutti_last_error(comm);
        }
        if (tutti_comm_status(comm) != TUTTI_SUCCESS) wrong += "failed too early; ";
        if (!wrong.empty()) return wrong;
        tutti_status_t status =
            in_message ? tutti_recv(in.data(), 100, TUTTI_FLOAT32, 0, 9, comm, nullptr, nullptr) : all_reduce();
        return status == TUTTI_REMOTE_ERROR ? tutti_last_error(comm) : "another status";
      });
      CHECK(said[0] == "");
      for (int rank = 1; rank < kAll; ++rank) {
        CHECK_THAT(said[rank], Catch::Contains("rank 0 has left the communicator"));
      }
    }
  }
}

TEST_CASE("an abort during finalize is told by it, on all ranks") {
  auto began = std::chrono::steady_clock::now();
  check_all(with_ranks(3, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    tutti_barrier(comm, nullptr);
    if (rank == 2) return std::this_thread::sleep_for(std::chrono::seconds(2)), "";
    std::thread other([&] {
      if (rank != 0) return;
      wait_for_others_to_leave();
      tutti_comm_abort(comm);
    });
    tutti_status_t finalized = tutti_comm_finalize(comm);
    other.join();
    bool is_told = finalized == TUTTI_ABORTED && tutti_comm_status(comm) == TUTTI_ABORTED;
    return is_told ? "" : fmt::format("finalize gave {}, status {}", int(finalized), int(tutti_comm_status(comm)));
  }));
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));
}

TEST_CASE("a rank whose own calls take longer than the deadline still waits for the others") {
  std::atomic<bool> has_come{false};
  check_all(with_ranks(2, {{"timeout_ms", "1000"}}, [&](tutti_comm_t* comm, int rank) -> std::string {
    std::vector<float> data(1);
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      std::string wrong = send(comm, data, 1, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      has_come = true;
      return wrong;
    }
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = TUTTI_RECV;
    call.datatype = TUTTI_FLOAT32;
    call.count = 1;
    call.recv_buffer = data.data();
    call.timeout_ms = 30'000;
    tutti_request_t* standing = nullptr;
    if (tutti_start(comm, &call, &standing) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (tutti_comm_finalize(comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
    bool has_waited = has_come;
    if (tutti_wait(&standing) != TUTTI_SUCCESS) return tutti_last_error(comm);
    return has_waited ? "" : "it left before the other one had come";
  }));
}

TEST_CASE("a rank that another one has left waits for a third asleep") {
  std::string transport = GENERATE("loopback", "shm", "tcp");
  constexpr auto kWait = std::chrono::milliseconds(600);
  std::atomic<bool> has_left{false};
  check_all(with_ranks(3, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
    std::vector<float> data(1);
    std::string wrong;
    for (int from = 0; from < 3; ++from) {  // all are connected
      for (int to = 0; to < 3; ++to) {
        if (from != to && rank == from) wrong += send(comm, data, to, 0);
        if (from != to && rank == to) wrong += receive(comm, data, from, 0);
      }
    }
    if (rank == 2) {
      if (tutti_comm_leave(comm) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
      has_left = true;
      return wrong;
    }
    while (!has_left) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (rank == 1) {
      std::this_thread::sleep_for(kWait);
      return wrong + send(comm, data, 0, 1);
    }
    auto worked_ns = [] {
      timespec time{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return std::chrono::nanoseconds(time.tv_sec * 1'000'000'000 + time.tv_nsec);
    };
    auto before = worked_ns();
    wrong += receive(comm, data, 1, 1);
    if (worked_ns() - before > kWait / 2) wrong += "it has worked all the time";
    return wrong;
  }));
}

TEST_CASE("who calls a rank that has left and is gone is told so, whatever it stores for it") {
  for (const char* transport : kTransports) {
    for (size_t count : {1, 5'000, 500'000}) {  // in a line, in slots, and in memory that is shared
      INFO(transport << ", " << count);
      auto comms = make_ranks(2, transport);
      REQUIRE((comms[0] != nullptr && comms[1] != nullptr));
      float* data[2] = {};
      for (float*& each : data) {
        void* memory = nullptr;
        REQUIRE(tutti_mem_alloc(&memory, count * sizeof(float)) == TUTTI_SUCCESS);
        each = static_cast<float*>(memory);
      }
      auto all_reduce = [&](int rank) {
        return tutti_all_reduce(data[rank], data[rank], count, TUTTI_FLOAT32, TUTTI_SUM, comms[rank], nullptr);
      };
      std::thread other([&] { all_reduce(0); });
      CHECK(all_reduce(1) == TUTTI_SUCCESS);
      other.join();
      CHECK(tutti_comm_leave(comms[0]) == TUTTI_SUCCESS);
      CHECK(tutti_comm_destroy(comms[0]) == TUTTI_ABORTED);
      tutti_mem_free(data[0]);
      CHECK(all_reduce(1) == TUTTI_REMOTE_ERROR);
      CHECK_THAT(tutti_last_error(comms[1]), Catch::Contains("rank 0 has left the communicator"));
      tutti_comm_destroy(comms[1]);
      tutti_mem_free(data[1]);
    }
  }
}

// It may store there as soon as it has found that memory, also while the other one still looks for its own.
TEST_CASE("memory for messages stays as long as a rank of this process that has found it") {
  std::array<std::byte, 32> token{};
  Config config;
  config.transport = "loopback";
  auto hub = std::make_shared<LoopbackHub>();
  auto inventory = discover_live();
  REQUIRE(inventory.ok());
  std::vector<std::unique_ptr<Links>> links;
  std::vector<Facts> facts;
  std::vector<RankFacts> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    TransportContext context{.rank = rank, .nranks = 2, .job = 1, .token = token, .interface = ""};
    auto created = Links::create(context, config, hub);
    REQUIRE(created.ok());
    RankFacts& mine = ranks.emplace_back();
    mine.inventory = *inventory;
    mine.pid = ::getpid();
    facts.push_back({.rank = ranks[rank], .transports = (*created)->facts(), .gpu = "", .agreed = {}});
    links.push_back(std::move(*created));
  }
  auto topology = merge(ranks, config.transport);
  REQUIRE(topology.ok());
  for (auto& each : links) each->learn(facts, *topology);
  const std::array<int32_t, 1> to_first{0}, to_second{1};
  for (int i = 0; i < 10 && links[0]->peers()[1] == nullptr; ++i) {
    REQUIRE(links[1]->connect(to_first).ok());
    REQUIRE(links[0]->connect(to_second).ok());
  }
  REQUIRE(links[0]->peers()[1] != nullptr);
  CHECK(links[1]->peers()[0] == nullptr);
  std::byte* memory = links[0]->peers()[1]->link().find(kArena)->mapped;
  uint64_t size_bytes = links[0]->peers()[1]->link().find(kArena)->size_bytes;
  links[1].reset();
  memory[0] = memory[size_bytes - 1] = std::byte{1};
  CHECK(memory[size_bytes - 1] == std::byte{1});
}

TEST_CASE("a rank without a link can be woken") {
  std::array<std::byte, 32> token{};
  TransportContext context{.rank = 0, .nranks = 2, .job = 1, .token = token, .interface = ""};
  Config config;
  config.transport = "shm";
  auto links = Links::create(context, config, std::make_shared<LoopbackHub>());
  REQUIRE(links.ok());
  (*links)->ring();  // while awake: the next sleep ends at once, and that is all
  for (int i = 0; i < 3; ++i) {
    WaitSet waits;
    Links::Armed armed = (*links)->arm(waits);
    if (i > 0) (*links)->ring();
    CHECK(waits.sleep(20'000));
  }
  WaitSet waits;
  Links::Armed armed = (*links)->arm(waits);
  CHECK(!waits.sleep(0));
}

}  // namespace tutti::test
