// Several threads of a rank that use one communicator at a time, and calls that say when they are done.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fmt/format.h>
#include <thread>

#include "core/ranks.h"

namespace tutti::test {
namespace {

tutti_status_t start_receive(float* value, int peer, int tag, tutti_comm_t* comm, tutti_request_t** request,
                             int64_t timeout_ms = 0) {
  tutti_call_t call{};
  call.struct_size = sizeof call;
  call.collective = TUTTI_RECV;
  call.datatype = TUTTI_FLOAT32;
  call.recv_buffer = value;
  call.count = 1;
  call.peer = peer;
  call.tag = tag;
  call.timeout_ms = timeout_ms;
  return tutti_start(comm, &call, request);
}

// Of a receive that nobody answers, beside traffic that goes on for longer than the receive may take to fail.
using Seconds = std::chrono::duration<double>;
constexpr int kUnanswered = 1;  // its tag
constexpr int64_t kTimeoutMs = 300;
constexpr Seconds kTraffic(6), kBound(2);

std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

std::string has_timed_out(tutti_comm_t* comm, Seconds took) {
  if (took > kBound) return fmt::format("failed only after {} s", took.count());
  if (tutti_comm_status(comm) != TUTTI_TIMEOUT) return std::string("no timeout: ") + tutti_last_error(comm);
  return "";
}

}  // namespace

// The message comes only after a collective that another thread makes meanwhile: who waits for the message makes
// progress for both, and must not keep the other one from seeing that its call is complete.
TEST_CASE("a thread makes calls while another one waits for a message") {
  bool blocking = GENERATE(false, true);
  auto transport = GENERATE("shm", "tcp");
  check_all(with_ranks(2, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
    constexpr int kRounds = 20;
    for (int round = 0; round < kRounds; ++round) {
      float received = 0, sum = 1, mine = static_cast<float>(10 * round + rank);
      tutti_request_t* request = nullptr;
      if (start_receive(&received, 1 - rank, round, comm, &request)) return tutti_last_error(comm);
      tutti_status_t waited = TUTTI_SUCCESS;
      std::thread waiter([&] { waited = tutti_wait(&request); });
      if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      tutti_status_t made = TUTTI_SUCCESS;
      if (blocking) {
        made = tutti_all_reduce(&sum, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
      } else {
        tutti_request_t* reduced = nullptr;
        made = start_all_reduce(&sum, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &reduced);
        if (made == TUTTI_SUCCESS) made = tutti_wait(&reduced);
      }
      if (made == TUTTI_SUCCESS) made = tutti_send(&mine, 1, TUTTI_FLOAT32, 1 - rank, round, comm, nullptr);
      waiter.join();
      if (made != TUTTI_SUCCESS || waited != TUTTI_SUCCESS) return tutti_last_error(comm);
      if (sum != 2 || received != static_cast<float>(10 * round + 1 - rank)) return "a result is wrong";
    }
    return "";
  }));
}

TEST_CASE("many threads exchange messages over one communicator") {
  check_all(with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    constexpr int kThreads = 4, kRounds = 50;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int tag = 0; tag < kThreads; ++tag) {
      threads.emplace_back([&, tag] {
        for (int round = 0; round < kRounds; ++round) {
          float mine = static_cast<float>(round), theirs = -1;
          if (tag % 2 == 0) {
            if (tutti_send_recv(&mine, 1, 1 - rank, tag, &theirs, 1, 1 - rank, tag, TUTTI_FLOAT32, comm, nullptr,
                                nullptr)) {
              ++wrong;
            }
          } else {
            tutti_request_t* request = nullptr;
            if (start_receive(&theirs, 1 - rank, tag, comm, &request)) ++wrong;
            if (tutti_send(&mine, 1, TUTTI_FLOAT32, 1 - rank, tag, comm, nullptr)) ++wrong;
            if (request == nullptr || tutti_wait(&request)) ++wrong;
          }
          if (theirs != mine) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wrong == 0 ? "" : std::to_string(wrong) + " calls went wrong: " + tutti_last_error(comm);
  }));
}

// The thread that makes progress for both has no time to sleep, which is when it looks at deadlines otherwise.
TEST_CASE("steady traffic of one thread does not hide the deadline of another one's call") {
  Options options{{"transport", "shm"}, {"spin_us", "1000"}, {"yield_us", "1000000"}};
  check_all(with_ranks(2, options, [](tutti_comm_t* comm, int rank) -> std::string {
    float nothing = 0;
    Seconds took(0);
    std::thread waiter;
    if (rank == 0) {
      tutti_request_t* request = nullptr;
      if (start_receive(&nothing, 1, kUnanswered, comm, &request, kTimeoutMs)) return tutti_last_error(comm);
      waiter = std::thread([&took, request, started = now()]() mutable {
        tutti_wait(&request);
        took = now() - started;
      });
    }
    float goes_on = 1, theirs = 1;
    for (auto started = now(); goes_on != 0 && theirs != 0;) {
      if (rank == 0 && now() - started > kTraffic) goes_on = 0;
      if (tutti_send_recv(&goes_on, 1, 1 - rank, 0, &theirs, 1, 1 - rank, 0, TUTTI_FLOAT32, comm, nullptr, nullptr)) {
        break;
      }
    }
    if (waiter.joinable()) waiter.join();
    return has_timed_out(comm, took);
  }));
}

TEST_CASE("steady traffic that nobody waits for does not hide the deadline of another call") {
  check_all(with_ranks(2, {{"transport", "shm"}}, [](tutti_comm_t* comm, int rank) -> std::string {
    struct Reduction {
      std::vector<float> goes_on = std::vector<float>(1 << 20, 1.0f);
      std::atomic<bool> done{false};
      tutti_request_t* request = nullptr;
    };
    std::array<Reduction, 8> reductions;
    auto start = [&](Reduction& reduction) {
      reduction.done = false;
      tutti_call_t call{};
      call.struct_size = sizeof call;
      call.collective = TUTTI_ALL_REDUCE;
      call.datatype = TUTTI_FLOAT32;
      call.op = TUTTI_MIN;
      call.send_buffer = call.recv_buffer = reduction.goes_on.data();
      call.count = reduction.goes_on.size();
      call.completed = [](void* done) { *static_cast<std::atomic<bool>*>(done) = true; };
      call.context = &reduction.done;
      if (tutti_start(comm, &call, &reduction.request)) reduction.done = true;
    };
    float nothing = 0;
    tutti_request_t* unanswered = nullptr;
    if (rank == 0 && start_receive(&nothing, 1, kUnanswered, comm, &unanswered, kTimeoutMs)) {
      return tutti_last_error(comm);
    }
    auto started = now();
    for (Reduction& reduction : reductions) start(reduction);
    for (bool goes_on = true; goes_on;) {
      for (Reduction& reduction : reductions) {
        // Once more when it has said so: tutti_wait() then has nothing to make progress with in the engine's place.
        for (bool was_done = false; !was_done;) {
          was_done = reduction.done;
          std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        if (reduction.request != nullptr) tutti_wait(&reduction.request);
        goes_on = goes_on && tutti_comm_status(comm) == TUTTI_SUCCESS && reduction.goes_on[0] != 0;
        if (rank == 0 && now() - started > kTraffic) reduction.goes_on[0] = 0;
        if (goes_on) start(reduction);
      }
    }
    Seconds took = now() - started;
    // Those that were started again before one had failed: until they are done, their buffers are the library's.
    for (Reduction& reduction : reductions) {
      if (reduction.request != nullptr) tutti_wait(&reduction.request);
    }
    if (unanswered != nullptr) tutti_wait(&unanswered);
    return has_timed_out(comm, took);
  }));
}

TEST_CASE("a call says once that it is done, whoever makes progress, and also when it fails") {
  check_all(with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    std::atomic<int> done{0};
    float value = 1;
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = TUTTI_ALL_REDUCE;
    call.datatype = TUTTI_FLOAT32;
    call.send_buffer = call.recv_buffer = &value;
    call.count = 1;
    call.completed = [](void* context) { ++*static_cast<std::atomic<int>*>(context); };
    call.context = &done;
    tutti_request_t* request = nullptr;
    if (tutti_start(comm, &call, &request) || tutti_wait(&request)) return tutti_last_error(comm);
    if (done != 1 || value != 2) return "it was not said once that the first call is done";
    // Nobody waits: the library's thread.
    if (tutti_start(comm, &call, &request)) return tutti_last_error(comm);
    while (done == 1) std::this_thread::yield();
    if (tutti_wait(&request)) return tutti_last_error(comm);
    if (done != 2 || value != 4) return "it was not said once that the second call is done";
    tutti_barrier(comm, nullptr);
    if (rank == 1) {
      tutti_comm_abort(comm);
      return "";
    }
    if (tutti_start(comm, &call, &request)) return "";  // it has heard of the abort already
    if (tutti_wait(&request) != TUTTI_ABORTED) return "the call was not aborted";
    return done == 3 ? "" : "it was not said once that the aborted call is done";
  }));
}

}  // namespace tutti::test
