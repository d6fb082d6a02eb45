// A call that is made again and again, with the same arguments, keeps what it was bound to: what happens in between
// must not be missed.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/sanitizers.h"
#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

constexpr size_t kMost = 20'000;

// Element i of what `rank` contributes in round `round`: sums of them are exact in any order.
float element(int rank, int round, size_t i) { return static_cast<float>((i * 7 + rank * 13 + round * 5) % 31) - 15; }

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

  void expect(const char* what, int round, size_t n, const std::function<double(size_t)>& want) {
    for (size_t i = 0; i < n && wrong.empty(); ++i) {
      if (out[i] == want(i)) continue;
      wrong = fmt::format("{} of {} in round {}: element {} is {} and should be {}", what, count, round, i, out[i],
                          want(i));
    }
  }

  double sum(int round, size_t i) const {
    double total = 0;
    for (int each = 0; each < nranks; ++each) total += element(each, round, i);
    return total;
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
    for (size_t i = 0; i < count * nranks; ++i) in[i] = element(rank, round, i);
  }

  void run_disturbed(const char* what, size_t expected, const std::function<tutti_status_t()>& call,
                     const std::function<double(int, size_t)>& want) {
    for (int round = 0; round < 4 * 8 && wrong.empty(); ++round) {
      tutti_request_t* request = disturb(round);
      fill(round);
      ok(call());
      if (request != nullptr) ok(tutti_wait(&request));
      expect(what, round, expected, [&](size_t i) { return want(round, i); });
    }
  }

  // Undisturbed, for longer than a ring of lines is, while each rank in turn is late; and for as long in memory that is
  // registered, first that of one rank and then that of all.
  void run_in_a_row(const char* what, size_t expected, const std::function<tutti_status_t()>& call,
                    const std::function<double(int, size_t)>& want) {
    for (int round = 0; round < 300 && wrong.empty(); ++round) {
      if (round == 150) toggle_registration(nranks - 1);
      for (int who = 0; round == 200 && who < nranks - 1; ++who) toggle_registration(who);
      for (int who = 0; round == 299 && who < nranks; ++who) toggle_registration(who);
      if (round % 40 == rank) std::this_thread::sleep_for(std::chrono::microseconds(300));
      fill(round);
      ok(call());
      expect(what, round, expected, [&](size_t i) { return want(round, i); });
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
    run("all_reduce", count,
        [&] { return tutti_all_reduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr); },
        [&](int round, size_t i) { return sum(round, i); });
    run("broadcast", count,
        [&] { return tutti_broadcast(in.data(), out.data(), count, TUTTI_FLOAT32, nranks - 1, comm, nullptr); },
        [&](int round, size_t i) { return element(nranks - 1, round, i); });
    run("all_gather", count * nranks,
        [&] { return tutti_all_gather(in.data(), out.data(), count, TUTTI_FLOAT32, comm, nullptr); },
        [&](int round, size_t i) { return element(static_cast<int>(i / count), round, i % count); });
    run("reduce_scatter", count,
        [&] { return tutti_reduce_scatter(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr); },
        [&](int round, size_t i) { return sum(round, static_cast<size_t>(rank) * count + i); });
    run("all_to_all", count * nranks,
        [&] { return tutti_all_to_all(in.data(), out.data(), count, TUTTI_FLOAT32, comm, nullptr); },
        [&](int round, size_t i) {
          return element(static_cast<int>(i / count), round, static_cast<size_t>(rank) * count + i % count);
        });
    auto only = [&](int root, double value) { return rank == root ? value : 0.0; };
    run("reduce", rank == 0 ? count : 0,
        [&] { return tutti_reduce(in.data(), out.data(), count, TUTTI_FLOAT32, TUTTI_SUM, 0, comm, nullptr); },
        [&](int round, size_t i) { return only(0, sum(round, i)); });
    run("gather", rank == 1 ? count * nranks : 0,
        [&] { return tutti_gather(in.data(), out.data(), count, TUTTI_FLOAT32, 1, comm, nullptr); },
        [&](int round, size_t i) { return only(1, element(static_cast<int>(i / count), round, i % count)); });
    run("scatter", count,
        [&] { return tutti_scatter(in.data(), out.data(), count, TUTTI_FLOAT32, 0, comm, nullptr); },
        [&](int round, size_t i) { return element(0, round, static_cast<size_t>(rank) * count + i); });
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
        if (kUnderThreadSanitizer && count == kMost && nranks > 2) continue;
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
          for (size_t i = 0; i < kCount; ++i) input[i] = element(rank, round, i);
          std::fill_n(output, kCount, -1.0F);
          tutti_status_t called = tutti_all_reduce(input, output, kCount, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
          if (called != TUTTI_SUCCESS) wrong = tutti_last_error(comm);
          for (size_t i = 0; i < kCount && wrong.empty(); ++i) {
            float sum = element(0, round, i) + element(1, round, i) + element(2, round, i);
            if (output[i] != sum) wrong = fmt::format("round {}: element {} is {}, not {}", round, i, output[i], sum);
          }
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
