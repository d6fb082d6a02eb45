// Calls that ranks' GPUs know of when streams have reached them, beside calls of the host, failures and questions.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <memory>

#include "base/capture.h"
#include "base/fd.h"
#include "core/gpu_board.h"
#include "cuda/jobs.h"
#include "tutti/tutti_topology.h"

namespace tutti::test {
namespace {

constexpr size_t kCount = 64;
const std::vector<int32_t> kSum(kCount, 3);

void sleep_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// From here on the rank's calls come to the GPUs late.
std::string capture_once(tutti_comm_t* comm, const Stream& stream) {
  const Gpu& gpu = Gpu::driver();
  OnGpu<int32_t> in(kCount), out(kCount);
  CUgraph graph = nullptr;
  must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  std::string error = sum(comm, in, out, stream.get());
  must(gpu.cuStreamEndCapture(stream.get(), &graph));
  must(gpu.cuGraphDestroy(graph));
  return error;
}

size_t occurrences(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST_CASE("a started call on host buffers comes after a late one that turns out to go through the host") {
  constexpr int kRanks = 2;
  const Gpu& gpu = Gpu::driver();
  auto wrong = with_ranks_of_gpus(kRanks, {{"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> in(kCount, rank == 0 ? Where::kDevice : Where::kManaged, rank + 1), out(kCount);
    std::string error;
    if (rank == 0) error += capture_once(comm, stream);
    if (rank == 0) must(gpu.cuLaunchHostFunc(stream.get(), [](void*) { sleep_ms(30); }, nullptr));
    if (rank == 1) sleep_ms(100);
    error += sum(comm, in, out, stream.get());
    int32_t mine = rank + 10, all = 0;
    tutti_request_t* request = nullptr;
    error += said(comm, start_all_reduce(&mine, &all, 1, TUTTI_INT32, TUTTI_SUM, comm, &request), "start");
    if (request != nullptr) error += said(comm, tutti_wait(&request), "wait");
    must(stream.synchronize());
    if (all != 21) error += "another sum on the host";
    return error + (out.download() == kSum ? "" : "another sum");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("the board knows the collectives of a rank's last calls, and of those before nothing") {
  constexpr int kRanks = 2;
  size_t size_bytes = GpuBoard::bytes_for(kRanks);
  auto file = create_memfd("board", size_bytes);
  REQUIRE(file.ok());
  auto memory = Mapping::create(file->get(), size_bytes);
  REQUIRE(memory.ok());
  GpuBoard board(std::move(*memory), kRanks);
  CHECK_FALSE(board.collective(1, 1).has_value());
  for (uint32_t call = 1; call <= GpuBoard::kCalls; ++call) board.say_collective(call, 1, TUTTI_BROADCAST);
  CHECK(board.collective(1, 1) == TUTTI_BROADCAST);
  CHECK_FALSE(board.collective(1, 0).has_value());
  board.say_collective(1 + GpuBoard::kCalls, 1, TUTTI_BARRIER);
  CHECK_FALSE(board.collective(1, 1).has_value());
  CHECK(board.collective(1 + GpuBoard::kCalls, 1) == TUTTI_BARRIER);
  CHECK(board.collective(2, 1) == TUTTI_BROADCAST);
}

TEST_CASE("a rank that does not call is named by what it has not called, however far others are ahead") {
  constexpr int kRanks = 2, kCallsAhead = 64;  // the last of which waits for the place of the first
  auto wrong = with_ranks_of_gpus(kRanks, {{"timeout_ms", "2000"}}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<int32_t> in(1000, Where::kDevice, rank + 1), out(1000);
    Stream stream;
    if (rank == 1) {
      await_failure(comm);
      return std::string();
    }
    std::string error = said(comm, tutti_barrier(comm, stream.get()));
    for (int i = 0; i < kCallsAhead; ++i) error += sum(comm, in, out, stream.get());
    (void)stream.synchronize();
    return error + said(comm, tutti_comm_status(comm));
  });
  CHECK_THAT(wrong[0], Catch::Contains("rank 1 has not called barrier (call 1 on the GPUs)"));
}

TEST_CASE("a communicator that has failed opens no gates of another one") {
  constexpr int kRanks = 2;
  auto wrong = with_ranks_of_gpus(kRanks, {{"timeout_ms", "20000"}}, [&](tutti_comm_t* failing, int rank) {
    Stream stream;
    OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
    tutti_comm_t* other = nullptr;
    std::string error = said(failing, tutti_comm_dup(failing, &other, nullptr));
    if (other == nullptr) return error;
    if (rank == 0) error += capture_once(failing, stream);
    if (rank == 0) error += sum(failing, in, out, stream.get());
    sleep_ms(50);  // by then the stream has mostly come to the call
    error += said(other, tutti_barrier(other, nullptr));
    if (rank == 1) tutti_comm_abort(failing);
    await_failure(failing);
    must(stream.synchronize());
    // The first of these calls gets the words of the one that is over.
    std::vector<std::unique_ptr<OnGpu<int32_t>>> ins, outs;
    if (rank == 1) sleep_ms(400);
    for (int i = 0; i < 4; ++i) {
      ins.push_back(std::make_unique<OnGpu<int32_t>>(kCount, Where::kManaged, rank + 1));
      outs.push_back(std::make_unique<OnGpu<int32_t>>(kCount, Where::kManaged));
      error += sum(other, *ins.back(), *outs.back(), stream.get());
    }
    must(stream.synchronize());
    for (auto& each : outs) error += each->download() == kSum ? "" : "another sum; ";
    error += said(other, tutti_comm_status(other));
    tutti_comm_destroy(other);
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("what a rank's own stream stores last has a place to go to, also when the call is done and the rank leaves") {
  const Gpu& gpu = Gpu::driver();
  if (gpu.fake_delay_words == nullptr) {
    WARN("skipped: needs the fake driver, whose streams are as slow as one likes");
    return;
  }
  auto body = [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
    std::string error = sum(comm, in, out, stream.get());
    error += said(comm, tutti_barrier(comm, nullptr));
    if (rank == 0) gpu.fake_delay_words(200);
    error += said(comm, tutti_barrier(comm, nullptr));
    error += sum(comm, in, out, stream.get());
    must(stream.synchronize());
    return error + (out.download() == kSum ? "" : "another sum");
  };
  check_all(with_ranks_of_gpus(2, {}, body));
  sleep_ms(400);  // a store without a place ends the process
  gpu.fake_delay_words(0);
}

// Rank 0's kernel of the first call begins when the communicator has gone, and then stores to the rank's gate that this
// call is done; its stream comes to the gate of the second one only after that.
TEST_CASE("a launch that comes after its communicator has gone closes no gates") {
  constexpr int kRanks = 2;
  const Gpu& gpu = Gpu::driver();
  static std::atomic<bool> may_go{false}, is_behind{false};
  auto wrong = with_ranks_of_gpus(kRanks, {{"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> in(kCount, Where::kDevice, rank + 1), out(kCount);
    tutti_comm_t* failing = nullptr;
    std::string error = said(comm, tutti_comm_dup(comm, &failing, nullptr));
    if (failing == nullptr) return error;
    if (rank == 0) gpu.fake_hold_kernels(0);
    error += said(comm, tutti_barrier(comm, nullptr)) + sum(failing, in, out, stream.get());
    if (rank == 0) {
      must(gpu.cuLaunchHostFunc(stream.get(), [](void*) { while (!may_go) sleep_ms(1); }, nullptr));
      error += sum(failing, in, out, stream.get());
      must(gpu.cuLaunchHostFunc(stream.get(), [](void*) { is_behind = true; }, nullptr));
    }
    error += said(comm, tutti_barrier(comm, nullptr));
    if (rank == 1) tutti_comm_abort(failing);
    await_failure(failing);
    tutti_comm_destroy(failing);
    error += said(comm, tutti_barrier(comm, nullptr));
    if (rank == 1) return error;
    gpu.fake_hold_kernels(-1);
    sleep_ms(200);
    may_go = true;
    for (int i = 0; i < 500 && !is_behind; ++i) sleep_ms(10);
    return error + (is_behind ? "" : "a stream stands at its gate");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("a question for the plan of an impossible call on a stream is refused, and the communicator goes on") {
  constexpr int kRanks = 2;
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int) {
    Stream stream;
    tutti_plan_info_t info{};
    info.struct_size = sizeof info;
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = TUTTI_ALL_REDUCE;
    call.datatype = static_cast<tutti_datatype_t>(99);
    call.op = TUTTI_SUM;
    call.count = 10;
    call.stream = stream.get();
    std::string error;
    if (tutti_comm_plan_info(comm, &call, &info) != TUTTI_INVALID_ARGUMENT) error += "taken with type 99; ";
    call.collective = TUTTI_BROADCAST;
    call.datatype = TUTTI_INT32;
    call.root = 7;
    if (tutti_comm_plan_info(comm, &call, &info) != TUTTI_INVALID_ARGUMENT) error += "taken with root 7; ";
    call.root = 1;
    error += said(comm, tutti_comm_plan_info(comm, &call, &info));
    return error + (std::string(info.transport) == "gpu" ? "" : "another transport");
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("why calls go through the host is in the log, once for each reason and rank") {
  constexpr int kRanks = 2;
  StderrCapture log;
  ::setenv("TUTTI_LOG", "info", 1);
  auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    OnGpu<int32_t> managed(kCount, Where::kManaged, rank + 1), device(kCount, Where::kDevice, rank + 1);
    OnGpu<int32_t> out(kCount);
    std::string error;
    for (int i = 0; i < 3; ++i) error += sum(comm, managed, out, stream.get());
    for (int i = 0; i < 3; ++i) {
      tutti_group_begin();
      error += sum(comm, device, out, stream.get());
      error += sum(comm, device, out, stream.get());
      error += said(comm, tutti_group_end());
    }
    must(stream.synchronize());
    return error + (out.download() == kSum ? "" : "another sum");
  });
  ::unsetenv("TUTTI_LOG");
  CHECK(wrong == std::vector<std::string>(kRanks));
  INFO(log.text());
  CHECK(occurrences(log.text(), "through the host: all_reduce: a buffer is managed or pinned memory") == kRanks);
  CHECK(occurrences(log.text(), "through the host: a group of several calls") == kRanks);
}

}  // namespace
}  // namespace tutti::test
