// Large calls through the host: they begin when their first slices are there, and their results go back while they run.
#include <catch2/catch.hpp>

#include <functional>

#include "base/sanitizers.h"
#include "cuda/jobs.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 3, kRoot = 1;
constexpr size_t kCount = 5'000'003;  // of the whole, of 20 MB: two pieces and a rest
constexpr size_t kBlock = kCount / kRanks;

struct Buffers {
  const int32_t* in = nullptr;
  int32_t* out = nullptr;
};
struct Shape {
  const char* name;
  size_t sent;      // elements,
  size_t received;  // on all ranks
  bool may_be_in_place;
  std::function<tutti_status_t(const Buffers&, tutti_comm_t*, tutti_stream_t)> call;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"all_reduce", kCount, kCount, true,
       [](const Buffers& on, tutti_comm_t* comm, tutti_stream_t stream) {
         return tutti_all_reduce(on.in, on.out, kCount, TUTTI_INT32, TUTTI_SUM, comm, stream);
       }},
      {"broadcast", kCount, kCount, true,
       [](const Buffers& on, tutti_comm_t* comm, tutti_stream_t stream) {
         return tutti_broadcast(on.in, on.out, kCount, TUTTI_INT32, kRoot, comm, stream);
       }},
      {"reduce", kCount, kCount, true,
       [](const Buffers& on, tutti_comm_t* comm, tutti_stream_t stream) {
         return tutti_reduce(on.in, on.out, kCount, TUTTI_INT32, TUTTI_SUM, kRoot, comm, stream);
       }},
      {"all_gather", kBlock, kBlock * kRanks, false,
       [](const Buffers& on, tutti_comm_t* comm, tutti_stream_t stream) {
         return tutti_all_gather(on.in, on.out, kBlock, TUTTI_INT32, comm, stream);
       }},
      {"reduce_scatter", kBlock * kRanks, kBlock, false,
       [](const Buffers& on, tutti_comm_t* comm, tutti_stream_t stream) {
         return tutti_reduce_scatter(on.in, on.out, kBlock, TUTTI_INT32, TUTTI_MAX, comm, stream);
       }},
      {"all_to_all", kBlock * kRanks, kBlock * kRanks, false,
       [](const Buffers& on, tutti_comm_t* comm, tutti_stream_t stream) {
         return tutti_all_to_all(on.in, on.out, kBlock, TUTTI_INT32, comm, stream);
       }},
      {"gather", kBlock, kBlock * kRanks, false,
       [](const Buffers& on, tutti_comm_t* comm, tutti_stream_t stream) {
         return tutti_gather(on.in, on.out, kBlock, TUTTI_INT32, kRoot, comm, stream);
       }},
      {"scatter", kBlock * kRanks, kBlock, false,
       [](const Buffers& on, tutti_comm_t* comm, tutti_stream_t stream) {
         return tutti_scatter(on.in, on.out, kBlock, TUTTI_INT32, kRoot, comm, stream);
       }},
  };
  return all;
}

// What is left of another call in the memory that this one goes through must not be taken for its data: each has its
// own.
TUTTI_UNWATCHED void fill(int32_t* values, size_t count, int rank, int call) {
  const size_t from = static_cast<size_t>(rank) * 1013 + static_cast<size_t>(call) * 100'003;
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i * 7 + from);
}

std::string check(const Shape& shape, tutti_comm_t* comm, int rank, Where where, bool in_place, int call) {
  auto input = worked_out<int32_t>(shape.sent, [&](int32_t* values) { fill(values, shape.sent, rank, call); });
  std::vector<int32_t> wanted(shape.received, -1);
  Stream stream;
  OnGpu<int32_t> in(shape.sent, where), out(in_place ? 1 : shape.received, where, -1);
  in.host = input;
  in.upload();
  if (in_place) wanted = input;
  std::string error = said(comm, shape.call({in_place ? wanted.data() : input.data(), wanted.data()}, comm, nullptr));
  tutti_stream_t on = where == Where::kHost ? nullptr : stream.get();
  error += said(comm, shape.call({in.data(), in_place ? in.data() : out.data()}, comm, on));
  if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed; ";
  bool is_right = (in_place ? in : out).download() == wanted;
  return error + (is_right ? "" : std::string("another result of ") + shape.name + (in_place ? " in place; " : "; "));
}

TEST_CASE("large calls whose data comes and goes in pieces have the bits of the host's") {
  for (const char* transport : {"tcp", "shm"}) {
    for (Where second : {Where::kDevice, Where::kHost}) {
      if (kUnderThreadSanitizer && (second == Where::kHost) != (transport == std::string("shm"))) continue;
      INFO(transport << (second == Where::kHost ? ", one rank on the host" : ""));
      auto wrong = with_gpu_ranks(kRanks, {{"transport", transport}, {"timeout_ms", "60000"}},
                                  [&](tutti_comm_t* comm, int rank) {
                                    Where where = rank == 1 ? second : Where::kDevice;
                                    std::string error;
                                    int call = 0;
                                    for (const Shape& shape : shapes()) {
                                      error += check(shape, comm, rank, where, false, ++call);
                                      if (!shape.may_be_in_place || kUnderThreadSanitizer) continue;
                                      error += check(shape, comm, rank, where, true, ++call);
                                    }
                                    return error;
                                  });
      CHECK(wrong == std::vector<std::string>(kRanks));
    }
  }
}

TEST_CASE("a large call comes in pieces, and a small one as a whole") {
  const Gpu& gpu = Gpu::driver();
  if (gpu.fake_calls == nullptr) return;
  constexpr size_t kSmall = 1'000'000;
  for (size_t count : {kSmall, kCount}) {
    Counted reached("cuLaunchHostFunc");
    auto wrong = with_gpu_ranks(2, {{"transport", "tcp"}}, [&](tutti_comm_t* comm, int rank) {
      OnGpu<int32_t> in(count, Where::kDevice, rank + 1), out(count);
      Stream stream;
      std::string error = sum(comm, in, out, stream.get());
      must(stream.synchronize());
      return error + (out.download() == std::vector<int32_t>(count, 3) ? "" : "another sum");
    });
    CHECK(wrong == std::vector<std::string>(2));
    CHECK(reached.now() == (count == kSmall ? 2 : 4));
  }
}

// The first pieces of a call may be on their way when it fails.
TEST_CASE("a large call that fails half way lets its stream go on") {
  const Gpu& gpu = Gpu::driver();
  std::atomic<int> calls{0};
  auto wrong = with_gpu_ranks(2, {{"transport", "tcp"}, {"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
    Stream stream;
    static std::atomic<bool> may_go{false};
    if (rank == 1) {
      must(gpu.cuLaunchHostFunc(
          stream.get(), [](void*) { while (!may_go) std::this_thread::yield(); }, nullptr));
    }
    std::string error = sum(comm, in, out, stream.get());
    ++calls;
    while (rank == 1 && calls < 2) std::this_thread::yield();
    if (rank == 1) tutti_comm_abort(comm);
    await_failure(comm);
    may_go = true;
    (void)stream.synchronize();
    return error;
  });
  CHECK(wrong == std::vector<std::string>(2));
}

}  // namespace
}  // namespace tutti::test
