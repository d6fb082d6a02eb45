// What a profiler of the program's is told of each call; and where threads of the library's run.
#include <catch2/catch.hpp>

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <string>
#include <vector>

#include "core/profile.h"
#include "core/ranks.h"
#include "fmt/format.h"
#include "tutti/tutti_topology.h"

namespace tutti::test {
namespace {

std::string algorithm_of(tutti_comm_t* comm, tutti_collective_t collective, uint64_t count) {
  float buffer[1];
  tutti_call_t call{};
  call.struct_size = sizeof call;
  call.collective = collective;
  call.datatype = TUTTI_FLOAT32;
  call.count = count;
  call.send_buffer = call.recv_buffer = buffer;
  tutti_plan_info_t info{};
  info.struct_size = sizeof info;
  return tutti_comm_plan_info(comm, &call, &info) == TUTTI_SUCCESS ? info.algorithm : tutti_last_error(comm);
}

std::string expect(const std::string& got, const std::string& want) {
  return got == want ? "" : fmt::format("got\n{}instead of\n{}", got, want);
}

}  // namespace

TEST_CASE("a profiler is told of each call with what it does, also when it is made again", "[profiler]") {
  constexpr int kRanks = 3;
  constexpr uint64_t kSmall = 10, kLarge = 300'000;
  for (const char* transport : {"shm", "tcp"}) {
    auto wrong = with_ranks(kRanks, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) {
      std::vector<float> in(kLarge, 1), out(kLarge);
      auto sum = [&](uint64_t count) {
        tutti_all_reduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
      };
      sum(kSmall);
      sum(kSmall);  // known from here on
      Profile profile;
      tutti_profiler_t functions = profile.functions();
      if (tutti_comm_set_profiler(comm, &functions) != TUTTI_SUCCESS) return std::string(tutti_last_error(comm));
      for (int i = 0; i < 3; ++i) sum(kSmall);
      sum(kLarge);
      if (rank == 0) tutti_send(in.data(), 5, TUTTI_FLOAT32, 1, 7, comm, nullptr);
      if (rank == 1) tutti_recv(out.data(), 8, TUTTI_FLOAT32, 0, 7, comm, nullptr, nullptr);
      tutti_request_t* request = nullptr;
      start_all_reduce(in.data(), out.data(), kSmall, TUTTI_FLOAT32, TUTTI_SUM, comm, &request);
      tutti_wait(&request);
      tutti_comm_set_profiler(comm, nullptr);
      sum(kSmall);
      sum(kSmall);

      std::string small = algorithm_of(comm, TUTTI_ALL_REDUCE, kSmall);
      std::string large = algorithm_of(comm, TUTTI_ALL_REDUCE, kLarge);
      std::string want;
      auto add = [&](int number, const std::string& algorithm, uint64_t bytes) {
        want += fmt::format("0 #{} {} {}>{} to -1 by {} success\n", number, algorithm, bytes, bytes, rank);
      };
      for (int number : {3, 4, 5}) add(number, small, kSmall * 4);
      add(6, large, kLarge * 4);
      if (rank == 0) want += "14 #0  20>0 to 1 by 0 success\n";
      if (rank == 1) want += "15 #0  0>32 to 0 by 1 success\n";
      add(7, small, kSmall * 4);
      uint64_t id = 0;
      tutti_comm_id(comm, &id);
      bool knows_comm = profile.told.at(0).call.comm_id == id && profile.told.at(0).call.nranks == kRanks;
      return expect(profile.text(), want) + (knows_comm ? "" : "another communicator");
    });
    for (const std::string& each : wrong) CHECK(each == "");
  }
}

TEST_CASE("a profiler goes on with communicators that are split off", "[profiler]") {
  auto wrong = with_ranks(2, {}, [&](tutti_comm_t* comm, int) {
    Profile profile;
    tutti_profiler_t functions = profile.functions();
    tutti_comm_set_profiler(comm, &functions);
    tutti_comm_t* half = nullptr;
    if (tutti_comm_dup(comm, &half, nullptr) != TUTTI_SUCCESS) return std::string(tutti_last_error(comm));
    size_t before = profile.told.size();
    tutti_barrier(half, nullptr);
    uint64_t id = 0, its = 0;
    tutti_comm_id(comm, &id);
    tutti_comm_id(half, &its);
    bool is_right = profile.told.size() == before + 1 && profile.told.back().call.comm_id == its && its != id;
    tutti_comm_destroy(half);
    tutti_comm_set_profiler(comm, nullptr);
    return is_right ? std::string() : "the call of the new communicator was not told, or as another one's";
  });
  for (const std::string& each : wrong) CHECK(each == "");
}

TEST_CASE("a profiler is told how a call has failed", "[profiler]") {
  auto wrong = with_ranks(2, {}, [&](tutti_comm_t* comm, int rank) {
    Profile profile;
    tutti_profiler_t functions = profile.functions();
    tutti_comm_set_profiler(comm, &functions);
    std::vector<float> in(20), out(20);
    tutti_status_t status =
        tutti_all_reduce(in.data(), out.data(), 10 + rank, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
    if (status == TUTTI_SUCCESS) return std::string("ranks that differ were not noticed");
    bool is_right = profile.told.size() == 1 && profile.told[0].has_ended && profile.told[0].status == status;
    return is_right ? std::string() : profile.text();
  });
  for (const std::string& each : wrong) CHECK(each == "");
}

TEST_CASE("a profiler of one rank is told of copies", "[profiler]") {
  tutti_comm_t* comm = nullptr;
  REQUIRE(tutti_comm_init_rank(&comm, 1, nullptr, 0) == TUTTI_SUCCESS);
  Profile profile;
  tutti_profiler_t functions = profile.functions();
  REQUIRE(tutti_comm_set_profiler(comm, &functions) == TUTTI_SUCCESS);
  float in = 1, out = 0;
  for (int i = 0; i < 2; ++i) tutti_all_reduce(&in, &out, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
  CHECK(profile.text() == "0 #1 copy 4>4 to -1 by 0 success\n0 #2 copy 4>4 to -1 by 0 success\n");

  functions.end = nullptr;
  CHECK(tutti_comm_set_profiler(comm, &functions) == TUTTI_INVALID_ARGUMENT);
  CHECK(std::string(tutti_last_error(comm)) == "tutti_comm_set_profiler: profiler.end is NULL");
  functions = profile.functions();
  functions.struct_size = 0;
  CHECK(tutti_comm_set_profiler(comm, &functions) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_comm_set_profiler(nullptr, nullptr) == TUTTI_INVALID_ARGUMENT);
  tutti_comm_destroy(comm);
}

TEST_CASE("a profiler is not changed while calls are under way", "[profiler]") {
  auto wrong = with_ranks(2, {}, [&](tutti_comm_t* comm, int rank) {
    float value = 0;
    tutti_status_t status = TUTTI_SUCCESS;
    if (rank == 0) {
      tutti_call_t call{};
      call.struct_size = sizeof call;
      call.collective = TUTTI_RECV;
      call.datatype = TUTTI_FLOAT32;
      call.recv_buffer = &value;
      call.count = call.peer = 1;
      tutti_request_t* request = nullptr;
      tutti_start(comm, &call, &request);
      status = tutti_comm_set_profiler(comm, nullptr);
      tutti_barrier(comm, nullptr);
      tutti_wait(&request);
    } else {
      tutti_barrier(comm, nullptr);
      tutti_send(&value, 1, TUTTI_FLOAT32, 0, 0, comm, nullptr);
    }
    return std::string(status == (rank == 0 ? TUTTI_INVALID_USAGE : TUTTI_SUCCESS) ? "" : "it was");
  });
  for (const std::string& each : wrong) CHECK(each == "");
}

namespace {

std::vector<int> cpus_of_this_thread() {
  cpu_set_t set;
  ::pthread_getaffinity_np(::pthread_self(), sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

struct Seen {
  std::vector<int> cpus;
  pthread_t by{};
  std::atomic<bool> done{false};
};

}  // namespace

TEST_CASE("the thread that makes progress runs on the CPUs that the program names", "[affinity]") {
  int last = cpus_of_this_thread().back();
  auto wrong = with_ranks(2, {{"thread_cpus", std::to_string(last)}}, [&](tutti_comm_t* comm, int) {
    float in = 1, out = 0;
    Seen seen;
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = TUTTI_ALL_REDUCE;
    call.datatype = TUTTI_FLOAT32;
    call.send_buffer = &in;
    call.recv_buffer = &out;
    call.count = 1;
    call.context = &seen;
    call.completed = [](void* context) {
      auto& seen = *static_cast<Seen*>(context);
      seen.cpus = cpus_of_this_thread();
      seen.by = ::pthread_self();
      seen.done = true;
    };
    tutti_request_t* request = nullptr;
    if (tutti_start(comm, &call, &request) != TUTTI_SUCCESS) return std::string(tutti_last_error(comm));
    for (int i = 0; i < 10'000 && !seen.done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    bool by_engine = seen.done && seen.by != ::pthread_self();
    tutti_wait(&request);
    if (!by_engine) return std::string("nobody made progress");
    return std::string(seen.cpus == std::vector<int>{last} ? "" : "it ran elsewhere");
  });
  for (const std::string& each : wrong) CHECK(each == "");
}

TEST_CASE("CPUs that are none, or not this process's, are refused", "[affinity]") {
  tutti_config_t* config = nullptr;
  tutti_comm_t* comm = nullptr;
  REQUIRE(tutti_config_create(&config) == TUTTI_SUCCESS);
  for (auto& [value, sentence] : std::map<std::string, std::string>{
           {"none", "TUTTI_THREAD_CPUS is \"none\", which is no list of CPUs such as 0-3,8"},
           {"9000-9001", "TUTTI_THREAD_CPUS is 9000-9001, but this process may use none of these CPUs"}}) {
    tutti_config_set(config, "thread_cpus", value.c_str());
    CHECK(tutti_comm_init_rank_config(&comm, 1, nullptr, 0, config) == TUTTI_INVALID_ARGUMENT);
    CHECK_THAT(std::string(tutti_last_error(nullptr)), Catch::Matchers::Contains(sentence));
  }
  tutti_config_destroy(config);
}

}  // namespace tutti::test
