// Any of the driver's calls may fail, at any time: then the ranks say which, or go on without it; none waits for ever,
// and what is said to be done is right.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "cuda/jobs.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 2;
constexpr size_t kCount = 1000;
const std::vector<int32_t> kSum(kCount, 3);

constexpr const char* kCalls[] = {
#define TUTTI_CUDA_CALL(name, version) #name,
    TUTTI_CUDA_CALLS(TUTTI_CUDA_CALL)
#undef TUTTI_CUDA_CALL
};

struct Buffers {
  explicit Buffers(int rank, Where where) : in(kCount, where, rank + 1), out(kCount, where) {}
  OnGpu<int32_t> in, out;
  std::string sum(tutti_comm_t* comm, const Stream& stream) {
    return said(comm, tutti_all_reduce(in.data(), out.data(), kCount, TUTTI_INT32, TUTTI_SUM, comm, stream.get()));
  }
};

// "" when all went well, or the communicator's failure.
std::string call_all(tutti_comm_t* comm, const Stream& stream, std::vector<std::unique_ptr<Buffers>>& all) {
  std::string error;
  for (auto& buffers : all) error += buffers->sum(comm, stream);
  (void)stream.synchronize();
  if (tutti_comm_status(comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
  if (!error.empty()) return error;
  for (auto& buffers : all) error += buffers->out.download() == kSum ? "" : "another sum; ";
  return error;
}

std::vector<std::unique_ptr<Buffers>> make_buffers(int rank) {
  std::vector<std::unique_ptr<Buffers>> all;
  for (Where where : {Where::kDevice, Where::kManaged, Where::kDevice}) {
    all.push_back(std::make_unique<Buffers>(rank, where));
  }
  return all;
}

void check(const std::string& call, const std::vector<std::string>& said_by) {
  bool has_failed = false, is_named = false;
  for (const std::string& each : said_by) {
    UNSCOPED_INFO(each);
    CHECK_THAT(each, !Catch::Contains("another sum"));
    has_failed = has_failed || !each.empty();
    is_named = is_named || each.find(call) != std::string::npos;
  }
  for (const std::string& each : said_by) UNSCOPED_INFO(each);
  CHECK(has_failed == is_named);
}

const Options kOptions = {{"timeout_ms", "20000"}};

// Where ranks are: rank * `step` is the device of each.
void check_joining(int step) {
  const Gpu& gpu = Gpu::driver();
  for (const char* call : kCalls) {
    for (int after : {0, 1}) {
      INFO(call << " after " << after);
      std::atomic<int> here{0};
      std::atomic<bool> may_join{false};
      auto wrong = with_ranks(
          kRanks, gpu_options(kOptions),
          [&](tutti_comm_t* comm, int rank) {
            gpu.fake_fail("", 0, CUDA_SUCCESS);
            auto all = make_buffers(rank);
            Stream stream;
            return call_all(comm, stream, all);
          },
          [&](int rank) {
            gpu.use(rank * step);
            if (++here == kRanks) {
              gpu.fake_fail(call, after, CUDA_ERROR_UNKNOWN);
              may_join = true;
            }
            while (!may_join) std::this_thread::yield();
          });
      gpu.fake_fail("", 0, CUDA_SUCCESS);
      check(call, wrong);
    }
  }
}

void check_calls(int step) {
  const Gpu& gpu = Gpu::driver();
  for (const char* call : kCalls) {
    for (int after : {0, 1, 3}) {
      INFO(call << " after " << after);
      auto body = [&](tutti_comm_t* comm, int rank) {
        auto all = make_buffers(rank);
        Stream stream;
        std::string error = call_all(comm, stream, all);
        error += said(comm, tutti_barrier(comm, nullptr));
        if (rank == 0) gpu.fake_fail(call, after, CUDA_ERROR_UNKNOWN);
        error += said(comm, tutti_barrier(comm, nullptr));
        if (!error.empty()) return error;
        for (auto& buffers : all) std::fill(buffers->out.host.begin(), buffers->out.host.end(), 0);
        return call_all(comm, stream, all);
      };
      auto wrong = step == 0 ? with_ranks_of_one_gpu(kRanks, kOptions, body)
                             : with_ranks_of_gpus(kRanks, kOptions, body);
      gpu.fake_fail("", 0, CUDA_SUCCESS);
      check(call, wrong);
    }
  }
}

TEST_CASE("a driver's call that fails while ranks join is named, or done without") {
  SECTION("on one GPU") { check_joining(0); }
  SECTION("on two") { check_joining(1); }
}

TEST_CASE("a driver's call that fails in calls is named, or done without") {
  SECTION("on one GPU") { check_calls(0); }
  SECTION("on two") { check_calls(1); }
}

}  // namespace
}  // namespace tutti::test
