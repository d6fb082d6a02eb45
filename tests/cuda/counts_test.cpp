// The forms with counts, and operations of the program, on buffers of devices: the bits are those of the same call on
// the host's buffers.
#include <catch2/catch.hpp>

#include <atomic>
#include <functional>

#include "cuda/jobs.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 3, kRoot = 1;
constexpr size_t kRoom = 400;
constexpr int32_t kUntouched = -1;
using Counts = std::vector<uint64_t>;

struct Buffers {
  const int32_t* in = nullptr;
  int32_t* out = nullptr;
};
using MakeCall = std::function<tutti_status_t(const Buffers& buffers, tutti_stream_t stream)>;

// Makes the call on the host and on the device, and compares all of what is then in the outputs.
std::string compare(const char* name, tutti_comm_t* comm, int rank, const MakeCall& call, Where where) {
  std::vector<int32_t> input(kRoom), wanted(kRoom, kUntouched);
  for (size_t i = 0; i < kRoom; ++i) {
    input[i] = static_cast<int32_t>((i * 7 + static_cast<size_t>(rank) * 31) % 9973 + 1);
  }
  OnGpu<int32_t> in(kRoom, where), out(kRoom, where, kUntouched);
  in.host = input;
  in.upload();
  Stream stream;
  std::string error = said(comm, call({input.data(), wanted.data()}, nullptr), name);
  error += said(comm, call({in.data(), out.data()}, where == Where::kHost ? nullptr : stream.get()), name);
  if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
  return error + (out.download() == wanted ? "" : std::string(name) + ": another result; ");
}

std::string make_all_with_counts(tutti_comm_t* comm, int rank, Where where) {
  const Counts counts = {5, 0, 100}, displacements = {2, 9, 20};
  // What rank i sends to rank j, and where it lies there; rank i has the same places to send from.
  auto sent = [](int from, int to) { return static_cast<uint64_t>(3 * from + 10 * to); };
  Counts send_counts, recv_counts, places = {1, 90, 180};
  for (int peer = 0; peer < kRanks; ++peer) {
    send_counts.push_back(sent(rank, peer));
    recv_counts.push_back(sent(peer, rank));
  }
  auto own = counts[static_cast<size_t>(rank)];
  const std::pair<const char*, MakeCall> calls[] = {
      {"all_gather_v",
       [&](const Buffers& on, tutti_stream_t stream) {
         return tutti_all_gather_v(on.in, own, on.out, counts.data(), displacements.data(), TUTTI_INT32, comm, stream);
       }},
      {"reduce_scatter_v",
       [&](const Buffers& on, tutti_stream_t stream) {
         return tutti_reduce_scatter_v(on.in, on.out, counts.data(), TUTTI_INT32, TUTTI_SUM, comm, stream);
       }},
      {"all_to_all_v",
       [&](const Buffers& on, tutti_stream_t stream) {
         return tutti_all_to_all_v(on.in, send_counts.data(), places.data(), on.out, recv_counts.data(), places.data(),
                                   TUTTI_INT32, comm, stream);
       }},
      {"gather_v",
       [&](const Buffers& on, tutti_stream_t stream) {
         return tutti_gather_v(on.in, own, on.out, counts.data(), displacements.data(), TUTTI_INT32, kRoot, comm,
                               stream);
       }},
      {"scatter_v",
       [&](const Buffers& on, tutti_stream_t stream) {
         return tutti_scatter_v(on.in, counts.data(), displacements.data(), on.out, own, TUTTI_INT32, kRoot, comm,
                                stream);
       }},
  };
  std::string error;
  for (const auto& [name, call] : calls) error += compare(name, comm, rank, call, where);
  return error;
}

// Neither commutes: the last one's digits, and the first one's remainder.
void keep_both_ends(const void* in, void* in_out, uint64_t count, tutti_datatype_t, void* calls) {
  ++*static_cast<std::atomic<int>*>(calls);
  const auto* first = static_cast<const int32_t*>(in);
  auto* last = static_cast<int32_t*>(in_out);
  for (uint64_t i = 0; i < count; ++i) last[i] = first[i] % 100 + last[i] / 100 * 100;
}

std::string make_all_with_own_ops(tutti_comm_t* comm, int rank, Where where) {
  std::atomic<int> calls_made{0};
  tutti_op_t own{}, scaled{};
  int32_t factor = rank + 2;
  std::string error = said(comm, tutti_op_create(&own, keep_both_ends, 0, &calls_made, comm), "op_create");
  error += said(comm, tutti_op_create_pre_mul_sum(&scaled, &factor, TUTTI_INT32, comm), "op_create_pre_mul_sum");
  for (tutti_op_t op : {own, scaled}) {
    const std::pair<const char*, MakeCall> calls[] = {
        {"all_reduce",
         [&](const Buffers& on, tutti_stream_t stream) {
           return tutti_all_reduce(on.in, on.out, kRoom, TUTTI_INT32, op, comm, stream);
         }},
        {"reduce",
         [&](const Buffers& on, tutti_stream_t stream) {
           return tutti_reduce(on.in, on.out, kRoom, TUTTI_INT32, op, kRoot, comm, stream);
         }},
        {"reduce_scatter",
         [&](const Buffers& on, tutti_stream_t stream) {
           return tutti_reduce_scatter(on.in, on.out, kRoom / kRanks, TUTTI_INT32, op, comm, stream);
         }},
    };
    for (const auto& [name, call] : calls) error += compare(name, comm, rank, call, where);
  }
  error += said(comm, tutti_op_destroy(scaled, comm), "op_destroy") + said(comm, tutti_op_destroy(own, comm));
  int any = calls_made, all = 0;
  error += said(comm, tutti_all_reduce(&any, &all, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr));
  return error + (all > 0 ? "" : "the function was not called; ");
}

void check(std::string (*body)(tutti_comm_t*, int, Where), const char* what) {
  for (auto ranks_on : {with_ranks_of_one_gpu, with_ranks_of_gpus}) {
    for (Where other : {Where::kDevice, Where::kHost}) {
      INFO(what << (ranks_on == with_ranks_of_gpus ? ", a GPU each" : ", one GPU")
                << (other == Where::kHost ? ", one rank on the host" : ""));
      auto wrong = ranks_on(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
        return body(comm, rank, rank == 2 ? other : Where::kDevice);
      });
      CHECK(wrong == std::vector<std::string>(kRanks));
    }
  }
}

TEST_CASE("every collective with counts on devices has the bits of the host's, and what lies between blocks stays") {
  check(make_all_with_counts, "with counts");
}

TEST_CASE("operations of the program combine what is on devices as what is on the host") {
  check(make_all_with_own_ops, "own operations");
}

}  // namespace
}  // namespace tutti::test
