// Streams of two communicators, interleaved in one process: each call sees what its stream has before it, whichever
// communicator that was of, and is a call of its own.
#include <catch2/catch.hpp>

#include <chrono>
#include <functional>
#include <thread>

#include "cuda/jobs.h"

namespace tutti::test {
namespace {

constexpr size_t kCount = 500;

enum class Placed { kOnOneGpu, kOnGpus, kThroughHost };
constexpr Placed kAllPlaced[] = {Placed::kOnOneGpu, Placed::kOnGpus, Placed::kThroughHost};

// Its second communicator has the ranks in the opposite order.
struct Twins {
  tutti_comm_t* first = nullptr;
  tutti_comm_t* second = nullptr;
  int rank = 0;
  int nranks = 0;
  Placed placed = Placed::kOnOneGpu;

  bool has_device_memory() const { return placed != Placed::kThroughHost || rank % 2 == 0; }
};

// `of_the_test`: so many host functions each rank puts on streams itself.
void check(Placed placed, int nranks, const std::function<std::string(const Twins&)>& body, int of_the_test = 0) {
  INFO("placed " << static_cast<int>(placed) << ", " << nranks << " ranks");
  Counted host("cuLaunchHostFunc");
  auto both = [&](tutti_comm_t* comm, int rank) {
    Twins twins{.first = comm, .rank = rank, .nranks = nranks, .placed = placed};
    std::string error = said(comm, tutti_comm_split(comm, 0, -rank, &twins.second, nullptr), "split");
    if (!error.empty()) return error;
    error = body(twins);
    tutti_comm_destroy(twins.second);
    return error;
  };
  const Options options = {{"timeout_ms", "30000"}};
  auto wrong = placed == Placed::kOnOneGpu ? with_ranks_of_one_gpu(nranks, options, both)
               : placed == Placed::kOnGpus ? with_ranks_of_gpus(nranks, options, both)
                                           : with_gpu_ranks(nranks, options, both);
  for (const std::string& each : wrong) CHECK(each == "");
  if (placed != Placed::kThroughHost) CHECK(host.now() == of_the_test * nranks);
}

// The second one's rank r is the first one's nranks - 1 - r.
TEST_CASE("calls of two communicators on one stream see what the other one's have left there") {
  constexpr int kRounds = 20;
  for (Placed placed : kAllPlaced) {
    for (int nranks : {2, 4}) {
      check(placed, nranks, [&](const Twins& twins) {
        Where where = twins.has_device_memory() ? Where::kDevice : Where::kPinned;
        Stream stream;
        OnGpu<int32_t> value(kCount, where, twins.rank + 1), scattered(kCount, where);
        OnGpu<int32_t> all(kCount * static_cast<size_t>(nranks), where);
        std::string error;
        // What each of the ranks has, as a loop has it.
        std::vector<uint32_t> values;
        for (int rank = 0; rank < nranks; ++rank) values.push_back(static_cast<uint32_t>(rank) + 1);
        for (int i = 0; i < kRounds; ++i) {
          int root = i % nranks;
          error += said(twins.first, tutti_all_gather(value.data(), all.data(), kCount, TUTTI_INT32, twins.first,
                                                      stream.get()));
          error += said(twins.second, tutti_reduce_scatter(all.data(), scattered.data(), kCount, TUTTI_INT32,
                                                           TUTTI_SUM, twins.second, stream.get()));
          // On all ranks n times the value of the rank that has the other one's number.
          error += said(twins.first, tutti_broadcast(scattered.data(), value.data(), kCount, TUTTI_INT32, root,
                                                     twins.first, stream.get()));
          error += said(twins.second, tutti_reduce(scattered.data(), value.data(), kCount, TUTTI_INT32, TUTTI_SUM,
                                                   root, twins.second, stream.get()));
          uint32_t total = 0;
          std::vector<uint32_t> next(values.size());
          auto n = static_cast<uint32_t>(nranks);
          for (uint32_t each : values) total += n * each;
          for (uint32_t& each : next) each = n * values[static_cast<size_t>(nranks - 1 - root)];
          next[static_cast<size_t>(nranks - 1 - root)] = total;
          values = next;
        }
        must(stream.synchronize());
        auto expected = static_cast<int32_t>(values[static_cast<size_t>(twins.rank)]);
        return error + (value.download() == std::vector<int32_t>(kCount, expected) ? "" : "another value");
      });
    }
  }
}

int32_t power(int base, int exponent) {
  uint32_t result = 1;
  for (int i = 0; i < exponent; ++i) result *= static_cast<uint32_t>(base);
  return static_cast<int32_t>(result);
}

// Each rank makes `rounds` calls of both, in the order that `make_all` has them in for it.
using MakeAll = std::function<void(const Twins&, const std::function<void(bool is_first)>& call)>;
void check_order(Placed placed, int rounds, const MakeAll& make_all) {
  for (int nranks : {2, 4}) {
    check(placed, nranks, [&](const Twins& twins) {
      Where where = twins.has_device_memory() ? Where::kDevice : Where::kPinned;
      Stream streams[2];
      OnGpu<int32_t> a(kCount, where, 1), b(kCount, where, twins.rank == 0 ? 5 : 0);
      std::string error;
      make_all(twins, [&](bool is_first) {
        const OnGpu<int32_t>& value = is_first ? a : b;
        error += sum(is_first ? twins.first : twins.second, value, value, streams[is_first ? 0 : 1].get());
      });
      for (const Stream& each : streams) must(each.synchronize());
      bool is_right = a.download() == std::vector<int32_t>(kCount, power(nranks, rounds));
      is_right = is_right && b.download() == std::vector<int32_t>(kCount, 5 * power(nranks, rounds - 1));
      return error + (is_right ? "" : "another sum");
    });
  }
}

// In the order of the program, which is the same on all ranks.
TEST_CASE("calls of two communicators alternate on streams of their own") {
  constexpr int kRounds = 40;
  for (Placed placed : kAllPlaced) {
    check_order(placed, kRounds, [](const Twins&, const auto& call) {
      for (int i = 0; i < kRounds; ++i) {
        call(i % 2 == 0);
        call(i % 2 != 0);
      }
    });
  }
}

// Threads on one GPU wait on the host until all have called, and so make all calls in one order.
TEST_CASE("ranks interleave the calls of two communicators as each likes, on streams of their own") {
  constexpr int kRounds = 15;
  for (Placed placed : {Placed::kOnGpus, Placed::kThroughHost}) {
    check_order(placed, kRounds, [](const Twins& twins, const auto& call) {
      bool begins = twins.rank % 2 == 0;
      int at_once = twins.rank < 2 ? 1 : kRounds;
      for (int i = 0; i < kRounds; i += at_once) {
        for (int j = 0; j < at_once; ++j) call(begins);
        for (int j = 0; j < at_once; ++j) call(!begins);
      }
    });
  }
}

void put_copy(const Stream& stream, const OnGpu<int32_t>& to, const OnGpu<int32_t>& from) {
  must(Gpu::driver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to.data()), reinterpret_cast<CUdeviceptr>(from.data()),
                                   to.bytes(), stream.get()));
}
// `ms` stays until the stream is there.
void put_sleep(const Stream& stream, int& ms) {
  CUhostFn sleep = [](void* its) { std::this_thread::sleep_for(std::chrono::milliseconds(*static_cast<int*>(its))); };
  must(Gpu::driver().cuLaunchHostFunc(stream.get(), sleep, &ms));
}

// The first call of each communicator is on a stream that comes late, on each rank later, and the second one on one
// that would be there at once.
TEST_CASE("calls of each of two communicators keep their order on streams that both of them use") {
  for (Placed placed : kAllPlaced) {
    for (int nranks : {2, 4}) {
      auto body = [&](const Twins& twins) {
        Where where = twins.has_device_memory() ? Where::kDevice : Where::kPinned;
        Stream streams[2];
        OnGpu<int32_t> one(kCount, where, 1), a(kCount, where), two(kCount, where, 2), b(kCount, where);
        int later_ms = 5 * (twins.rank + 1);
        std::string error;
        auto twice = [&](tutti_comm_t* comm, const OnGpu<int32_t>& value, const OnGpu<int32_t>& comes, int late) {
          put_sleep(streams[late], later_ms);
          put_copy(streams[late], value, comes);
          error += sum(comm, value, value, streams[late].get());
          error += sum(comm, value, value, streams[1 - late].get());
        };
        twice(twins.first, a, one, 0);
        twice(twins.second, b, two, 1);
        for (const Stream& each : streams) must(each.synchronize());
        bool is_right = a.download() == std::vector<int32_t>(kCount, power(nranks, 2));
        is_right = is_right && b.download() == std::vector<int32_t>(kCount, 2 * power(nranks, 2));
        return error + (is_right ? "" : "another sum");
      };
      check(placed, nranks, body, 2);
    }
  }
}

// Each stream has something on its way to its buffer when the group comes, later on each rank, and something behind it
// that looks at the result.
std::string check_group(const Twins& twins, bool first_begins) {
  struct Side {
    Side(tutti_comm_t* its, Where where, int32_t has)
        : comm(its), comes(kCount, where, has), value(kCount, where), seen(kCount, where) {}
    tutti_comm_t* comm;
    OnGpu<int32_t> comes, value, seen;
    Stream stream;
  };
  Where where = twins.has_device_memory() ? Where::kDevice : Where::kPinned;
  Side a(twins.first, where, 1), b(twins.second, where, 2);
  std::vector<Side*> sides = {&a, &b};
  if (!first_begins) std::swap(sides[0], sides[1]);
  int later_ms = 5 * (twins.rank + 1);
  for (Side* each : sides) {
    put_sleep(each->stream, later_ms);
    put_copy(each->stream, each->value, each->comes);
  }
  std::string error = said(twins.first, tutti_group_begin(), "group");
  for (Side* each : sides) error += sum(each->comm, each->value, each->value, each->stream.get());
  error += said(twins.first, tutti_group_end(), "group");
  for (Side* each : sides) put_copy(each->stream, each->seen, each->value);
  for (Side* each : sides) must(each->stream.synchronize());
  bool is_right = a.seen.download() == std::vector<int32_t>(kCount, twins.nranks);
  is_right = is_right && b.seen.download() == std::vector<int32_t>(kCount, 2 * twins.nranks);
  return error + (is_right ? "" : "another sum");
}

TEST_CASE("calls of two communicators in one group see what is on both streams, and are seen there") {
  for (int nranks : {2, 4}) {
    for (bool first_begins : {true, false}) {
      check(Placed::kThroughHost, nranks, [&](const Twins& twins) { return check_group(twins, first_begins); });
    }
  }
}

}  // namespace
}  // namespace tutti::test
