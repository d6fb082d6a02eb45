// A call that is made again and again, with the same arguments, keeps what it was bound to: what happens in between
// must not be missed.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "core/contents.h"
#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

constexpr size_t kMost = 20'000;

struct Repeated {
  tutti_comm_t* comm;
  int nranks;
  int rank;
  size_t count;
  std::vector<float> in = std::vector<float>(kMost * nranks), out = std::vector<float>(kMost * nranks);
  std::vector<float> other = std::vector<float>(kMost * nranks), result = std::vector<float>(kMost * nranks);
  void *in_handle = nullptr, *out_handle = nullptr;
  std::string wrong;

  void ok(tutti_status_t status) {
    if (status != TUTTI_SUCCESS && wrong.empty()) wrong = tutti_last_error(comm);
  }

  void expect(const char* what, int round, const std::vector<float>& want) {
    if (!wrong.empty()) return;
    wrong = compare(out.data(), want, fmt::format("{} of {} in round {}", what, count, round));
  }

  tutti_call_t other_call() const {
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = TUTTI_ALL_REDUCE;
    call.datatype = TUTTI_FLOAT32;
    call.op = TUTTI_SUM;
    call.count = count + 3;
    call.send_buffer = other.data();
    call.recv_buffer = const_cast<float*>(result.data());
    return call;
  }

  // What may come between two of the calls; the request is to be waited for after the second.
  tutti_request_t* disturb(int round) {
    tutti_request_t* request = nullptr;
    tutti_call_t call = other_call();
    int next = (rank + 1) % nranks, before = (rank + nranks - 1) % nranks;
    switch (round % 8) {
      case 1: ok(tutti_start(comm, &call, &request)); break;
      case 2: ok(tutti_all_reduce(other.data(), result.data(), count, TUTTI_FLOAT32, TUTTI_MAX, comm, nullptr)); break;
      case 3: toggle_registration((round / 8) % nranks); break;
      case 4:
        ok(tutti_group_begin());
        for (int i = 0; i < 3; ++i) {
          ok(tutti_all_reduce(other.data() + i * 100, result.data() + i * 100, 90, TUTTI_FLOAT32, TUTTI_SUM, comm,
                              nullptr));
        }
        ok(tutti_group_end());
        break;
      case 5:
        ok(tutti_send_recv(other.data(), count, next, 0, result.data(), count, before, 0, TUTTI_FLOAT32, comm, nullptr,
                           nullptr));
        break;
      case 6: {
        tutti_prepared_t* prepared = nullptr;
        ok(tutti_prepare(comm, &call, &prepared));
        ok(tutti_start_prepared(prepared, &request));
        ok(tutti_wait(&request));
        ok(tutti_prepared_destroy(prepared));
        break;
      }
      default: break;
    }
    return request;
  }

  void toggle_registration(int who) {
    if (rank != who) return;
    size_t bytes = in.size() * sizeof(float);
    if (in_handle == nullptr) {
      ok(tutti_comm_register(comm, in.data(), bytes, &in_handle));
      ok(tutti_comm_register(comm, out.data(), bytes, &out_handle));
    } else {
      ok(tutti_comm_deregister(comm, in_handle));
      ok(tutti_comm_deregister(comm, out_handle));
      in_handle = out_handle = nullptr;
    }
  }

  void fill(int round) {
    auto values = contribution(rank, round, count * nranks);
    std::copy(values.begin(), values.end(), in.begin());
  }

  void run_disturbed(const char* what, const std::function<tutti_status_t()>& call,
                     const std::function<std::vector<float>(int round)>& want) {
    for (int round = 0; round < 4 * 8 && wrong.empty(); ++round) {
      tutti_request_t* request = disturb(round);
      fill(round);
      ok(call());
      if (request != nullptr) ok(tutti_wait(&request));
      expect(what, round, want(round));
    }
  }

  // Undisturbed, for longer than a ring of lines is, while each rank in turn is late; and for as long in memory that is
  // registered, first that of one rank and then that of all.
  void run_in_a_row(const char* what, const std::function<tutti_status_t()>& call,
                    const std::function<std::vector<float>(int round)>& want) {
    for (int round = 0; round < 300 && wrong.empty(); ++round) {
      if (round == 150) toggle_registration(nranks - 1);
      for (int who = 0; round == 200 && who < nranks - 1; ++who) toggle_registration(who);
      for (int who = 0; round == 299 && who < nranks; ++who) toggle_registration(who);
      if (round % 40 == rank) std::this_thread::sleep_for(std::chrono::microseconds(300));
      fill(round);
      ok(call());
      expect(what, round, want(round));
    }
  }

  void run_all() {
    run_each([this](auto&&... call) { run_disturbed(call...); });
    run_each([this](auto&&... call) { run_in_a_row(call...); });
    ok(tutti_comm_deregister(comm, in_handle));
    ok(tutti_comm_deregister(comm, out_handle));
  }

  template <typename Run>
  void run_each(const Run& run) {
    const size_t own = static_cast<size_t>(rank) * count;
    run("all_reduce",
        [&] { return tutti_all_reduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr); },
        [&](int round) { return sum_of_all(nranks, round, count); });
    run("broadcast",
        [&] { return tutti_broadcast(in.data(), out.data(), count, TUTTI_FLOAT32, nranks - 1, comm, nullptr); },
        [&](int round) { return contribution(nranks - 1, round, count); });
    run("all_gather",
        [&] { return tutti_all_gather(in.data(), out.data(), count, TUTTI_FLOAT32, comm, nullptr); },
        [&](int round) { return blocks_of_all(nranks, round, count); });
    run("reduce_scatter",
        [&] { return tutti_reduce_scatter(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr); },
        [&](int round) { return sum_of_all(nranks, round, count, own); });
    run("all_to_all",
        [&] { return tutti_all_to_all(in.data(), out.data(), count, TUTTI_FLOAT32, comm, nullptr); },
        [&](int round) { return blocks_of_all(nranks, round, count, own); });
    run("reduce",
        [&] { return tutti_reduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, 0, comm, nullptr); },
        [&](int round) { return rank == 0 ? sum_of_all(nranks, round, count) : std::vector<float>(); });
    run("gather",
        [&] { return tutti_gather(in.data(), out.data(), count, TUTTI_FLOAT32, 1, comm, nullptr); },
        [&](int round) { return rank == 1 ? blocks_of_all(nranks, round, count) : std::vector<float>(); });
    run("scatter",
        [&] { return tutti_scatter(in.data(), out.data(), count, TUTTI_FLOAT32, 0, comm, nullptr); },
        [&](int round) { return contribution(0, round, count, own); });
  }
};

void check_repeated(int nranks, size_t count, const Options& options) {
  auto wrong = with_ranks(nranks, options, [&](tutti_comm_t* comm, int rank) {
    Repeated calls{.comm = comm, .nranks = nranks, .rank = rank, .count = count};
    calls.run_all();
    return calls.wrong;
  });
  check_all(wrong);
}

}  // namespace

TEST_CASE("calls that are made again see what has changed in between") {
  for (const char* transport : {"shm", "tcp", "loopback"}) {
    for (int nranks : {2, 3}) {
      for (size_t count : {size_t{1}, size_t{9}, size_t{300}, size_t{4'000}, kMost}) {
        if (kUnderThreadSanitizer && count == kMost && (nranks > 2 || transport != std::string("shm"))) continue;
        INFO(transport << ", " << nranks << " ranks, " << count << " elements");
        check_repeated(nranks, count, {{"transport", transport}});
      }
    }
  }
}

TEST_CASE("calls that are made again see what has changed in between, with several channels and slices") {
  for (const char* algorithm : {"direct", "ring", "binomial_tree", "direct_two_shot"}) {
    for (size_t count : {size_t{7}, size_t{3'000}}) {
      INFO(algorithm << ", " << count << " elements");
      check_repeated(4, count, {{"transport", "shm"}, {"algorithm", algorithm}, {"channels", "2"}});
      check_repeated(3, count, {{"transport", "tcp"}, {"algorithm", algorithm}, {"slice_bytes", "4096"}});
    }
  }
}

// The others make the same call as before, and find what they read and store elsewhere.
TEST_CASE("calls that are made again see that a peer's buffers have moved within its memory") {
  constexpr size_t kCount = 10'000, kAway = 2'048;  // as much is looked for in every call
  for (const char* algorithm : {"direct_one_shot", "direct_two_shot"}) {
    for (bool is_input : {true, false}) {
      INFO(algorithm << ", moved is the " << (is_input ? "input" : "output"));
      auto wrong = with_ranks(3, {{"transport", "shm"}, {"algorithm", algorithm}}, [&](tutti_comm_t* comm, int rank) {
        constexpr size_t kBytes = (kCount + kAway) * sizeof(float);
        void *in = nullptr, *out = nullptr;
        std::string wrong;
        bool is_there = tutti_mem_alloc(&in, kBytes) == TUTTI_SUCCESS && tutti_mem_alloc(&out, kBytes) == TUTTI_SUCCESS;
        if (!is_there) return std::string("no memory");
        for (int round = 0; round < 60 && wrong.empty(); ++round) {
          size_t moved = rank == 1 && round / 10 % 2 == 1 ? kAway : 0;
          float* input = static_cast<float*>(in) + (is_input ? moved : 0);
          float* output = static_cast<float*>(out) + (is_input ? 0 : moved);
          auto values = contribution(rank, round, kCount);
          std::copy(values.begin(), values.end(), input);
          std::fill_n(output, kCount, -1.0F);
          tutti_status_t called = tutti_all_reduce(input, output, kCount, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
          if (called != TUTTI_SUCCESS) wrong = tutti_last_error(comm);
          if (wrong.empty()) wrong = compare(output, sum_of_all(3, round, kCount), fmt::format("round {}", round));
        }
        tutti_mem_free(in);
        tutti_mem_free(out);
        return wrong;
      });
      check_all(wrong);
    }
  }
}

}  // namespace tutti::test
