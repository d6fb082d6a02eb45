// Every collective on buffers of GPUs and of the host, mixed in one call: the bits are those of the same call on the
// host's buffers alone.
#include <catch2/catch.hpp>

#include "base/sanitizers.h"
#include "cuda/jobs.h"
#include "cuda/tested_calls.h"

namespace tutti::test {
namespace {

struct Shape {
  tutti_collective_t collective;
  const char* name;
};
const std::vector<Shape> kCollectives = {
    {TUTTI_ALL_REDUCE, "all_reduce"},         {TUTTI_REDUCE, "reduce"},
    {TUTTI_BROADCAST, "broadcast"},           {TUTTI_ALL_GATHER, "all_gather"},
    {TUTTI_REDUCE_SCATTER, "reduce_scatter"}, {TUTTI_ALL_TO_ALL, "all_to_all"},
    {TUTTI_GATHER, "gather"},                 {TUTTI_SCATTER, "scatter"},
};
constexpr int kRoot = 1;
constexpr uint64_t kSeveralSlices = kUnderThreadSanitizer ? 70'000 : 150'000;

template <typename T>
tutti_status_t call(tutti_collective_t collective, const T* in, T* out, uint64_t count, tutti_datatype_t type,
                    tutti_op_t op, tutti_comm_t* comm, tutti_stream_t stream) {
  switch (collective) {
    case TUTTI_ALL_REDUCE: return tutti_all_reduce(in, out, count, type, op, comm, stream);
    case TUTTI_REDUCE: return tutti_reduce(in, out, count, type, op, kRoot, comm, stream);
    case TUTTI_BROADCAST: return tutti_broadcast(in, out, count, type, kRoot, comm, stream);
    case TUTTI_ALL_GATHER: return tutti_all_gather(in, out, count, type, comm, stream);
    case TUTTI_REDUCE_SCATTER: return tutti_reduce_scatter(in, out, count, type, op, comm, stream);
    case TUTTI_ALL_TO_ALL: return tutti_all_to_all(in, out, count, type, comm, stream);
    case TUTTI_GATHER: return tutti_gather(in, out, count, type, kRoot, comm, stream);
    case TUTTI_SCATTER: return tutti_scatter(in, out, count, type, kRoot, comm, stream);
    default: return TUTTI_INVALID_ARGUMENT;
  }
}

// Where the buffers of a rank are, by rank.
using Layout = std::vector<Where>;
const std::vector<std::pair<std::string, Layout>> kLayouts = {
    {"all on devices", {Where::kDevice, Where::kDevice, Where::kDevice}},
    {"a rank on the host", {Where::kDevice, Where::kHost, Where::kDevice}},
    {"managed, host and device", {Where::kManaged, Where::kHost, Where::kDevice}},
    {"pinned and host", {Where::kPinned, Where::kHost, Where::kPinned}},
};

template <typename T>
std::string compare(const char* name, const std::vector<T>& got, const std::vector<T>& wanted) {
  if (got.size() == wanted.size() && std::memcmp(got.data(), wanted.data(), wanted.size() * sizeof(T)) == 0) return "";
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::memcmp(&got[i], &wanted[i], sizeof(T)) != 0) return std::string(name) + " differs at " + std::to_string(i);
  }
  return "";
}

template <typename T>
TUTTI_UNWATCHED void fill(T* values, size_t count, int rank) {
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>((i * 13 + static_cast<size_t>(rank) * 29) % 101);
}

template <typename T>
std::string check_all(tutti_comm_t* comm, int rank, int nranks, Where where, uint64_t count, tutti_datatype_t type) {
  Stream stream;
  tutti_stream_t on = where == Where::kHost ? nullptr : stream.get();
  std::string wrong;
  for (const Shape& shape : kCollectives) {
    for (bool in_place : {false, true}) {
      // In place where one pointer serves every collective of it.
      bool same = in_place && (shape.collective == TUTTI_ALL_REDUCE || shape.collective == TUTTI_REDUCE ||
                               shape.collective == TUTTI_BROADCAST);
      if (in_place && !same) continue;
      size_t room = count * nranks;
      std::vector<T> input = worked_out<T>(room, [&](T* values) { fill(values, room, rank); }), wanted(room, T(7));
      OnGpu<T> in(room, where), out(room, where, T(7));
      in.host = input;
      in.upload();
      std::vector<T> both = input;
      T* host_out = same ? both.data() : wanted.data();
      const T* host_in = same ? both.data() : input.data();
      wrong += said(comm, call(shape.collective, host_in, host_out, count, type, TUTTI_SUM, comm, nullptr), shape.name);
      T* device_out = same ? in.data() : out.data();
      const T* device_in = in.data();
      wrong += said(comm, call(shape.collective, device_in, device_out, count, type, TUTTI_SUM, comm, on), shape.name);
      if (on != nullptr && stream.synchronize() != CUDA_SUCCESS) wrong += "the stream has failed";
      wrong += compare(shape.name, (same ? in : out).download(), same ? both : wanted);
      if (!same) wrong += compare("the input", in.download(), input);
    }
  }
  return wrong;
}

TEST_CASE("every collective on buffers of devices and of the host has the bits of the host's") {
  constexpr int kRanks = 3;
  for (const char* transport : {"shm", "tcp"}) {
    for (const auto& each : kLayouts) {
      const Layout& layout = each.second;
      for (uint64_t count : {uint64_t{1}, uint64_t{1000}, kSeveralSlices}) {
        INFO(transport << ", " << each.first << ", " << count << " elements");
        auto wrong = with_gpu_ranks(kRanks, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) {
          return check_all<int32_t>(comm, rank, kRanks, layout[rank], count, TUTTI_INT32) +
                 (count == 1000 ? check_all<double>(comm, rank, kRanks, layout[rank], count, TUTTI_FLOAT64) : "");
        });
        CHECK(wrong == std::vector<std::string>(kRanks));
      }
    }
  }
}

TEST_CASE("every collective among ranks of one GPU has the bits of the host's, also where one has other buffers") {
  constexpr int kRanks = 3;
  for (const auto& each : kLayouts) {
    const Layout& layout = each.second;
    for (uint64_t count : {uint64_t{1}, uint64_t{1000}, kSeveralSlices}) {
      INFO(each.first << ", " << count << " elements");
      auto wrong = with_ranks_of_one_gpu(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
        return check_all<int32_t>(comm, rank, kRanks, layout[rank], count, TUTTI_INT32) +
               (count == 1000 ? check_all<double>(comm, rank, kRanks, layout[rank], count, TUTTI_FLOAT64) : "");
      });
      CHECK(wrong == std::vector<std::string>(kRanks));
    }
  }
}

TEST_CASE("every collective among ranks of several GPUs has the bits of the host's, also where one has other buffers") {
  constexpr int kRanks = 3;
  for (const auto& each : kLayouts) {
    const Layout& layout = each.second;
    for (uint64_t count : {uint64_t{1}, uint64_t{1000}, kSeveralSlices}) {
      INFO(each.first << ", " << count << " elements");
      auto wrong = with_ranks_of_gpus(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
        return check_all<int32_t>(comm, rank, kRanks, layout[rank], count, TUTTI_INT32) +
               (count == 1000 ? check_all<double>(comm, rank, kRanks, layout[rank], count, TUTTI_FLOAT64) : "");
      });
      CHECK(wrong == std::vector<std::string>(kRanks));
    }
  }
}

TEST_CASE("every type and operation is combined among 2, 4 and 8 ranks of one GPU as a loop in float64 does it") {
  for (int nranks : {2, 4, 8}) {
    INFO(nranks << " ranks");
    std::vector<TestedCall> calls = calls_of_every_type_and_op(61);
    for (tutti_collective_t each : kMoving) {
      for (size_t misalignment : {size_t{0}, size_t{1}}) {
        calls.push_back({each, tested_types().front(), kSumOp, 1031, false, misalignment});
      }
    }
    auto wrong = with_ranks_of_one_gpu(nranks, {}, [&](tutti_comm_t* comm, int rank) {
      Stream stream;
      std::string error;
      for (const TestedCall& each : calls) error += run(each, comm, rank, nranks, stream);
      return error;
    });
    CHECK(wrong == std::vector<std::string>(nranks));
  }
}

TEST_CASE("an all-reduce of devices is the sum that a loop gives") {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 100'000;
  auto wrong = with_gpu_ranks(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    OnGpu<float> in(kCount), out(kCount);
    Stream stream;
    for (size_t i = 0; i < kCount; ++i) in.host[i] = static_cast<float>((i + 1) * (rank + 1) % 1000);
    in.upload();
    std::string error =
        said(comm, tutti_all_reduce(in.data(), out.data(), kCount, TUTTI_FLOAT32, TUTTI_SUM, comm, stream.get()));
    if (stream.synchronize() != CUDA_SUCCESS) return std::string("the stream has failed");
    out.download();
    for (size_t i = 0; i < kCount; ++i) {
      double sum = 0;
      for (int each = 0; each < kRanks; ++each) sum += static_cast<double>((i + 1) * (each + 1) % 1000);
      if (out.host[i] != static_cast<float>(sum)) return "wrong at " + std::to_string(i);
    }
    return error;
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("blocks of different sizes: what lies between them on the device stays") {
  constexpr int kRanks = 3;
  auto wrong = with_gpu_ranks(kRanks, {}, [&](tutti_comm_t* comm, int rank) {
    const std::vector<uint64_t> counts = {5, 0, 300}, displacements = {2, 9, 20};
    std::string error;
    OnGpu<int32_t> in(counts[rank] + 1), out(400, Where::kDevice, -1);
    for (size_t i = 0; i < counts[rank]; ++i) in.host[i] = static_cast<int32_t>(1000 * rank + i);
    in.upload();
    Stream stream;
    error += said(comm, tutti_all_gather_v(in.data(), counts[rank], out.data(), counts.data(), displacements.data(),
                                           TUTTI_INT32, comm, stream.get()));
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
    std::vector<int32_t> wanted(400, -1);
    for (int each = 0; each < kRanks; ++each) {
      for (size_t i = 0; i < counts[each]; ++i) {
        wanted[displacements[each] + i] = static_cast<int32_t>(1000 * each + i);
      }
    }
    return error + compare("all_gather_v", out.download(), wanted);
  });
  CHECK(wrong == std::vector<std::string>(kRanks));
}

TEST_CASE("sends and receives on streams: a short message leaves the rest of the buffer") {
  constexpr size_t kCount = 60'000;
  for (Where other : {Where::kDevice, Where::kHost}) {
    auto wrong = with_gpu_ranks(2, {}, [&](tutti_comm_t* comm, int rank) {
      Where where = rank == 0 ? Where::kDevice : other;
      OnGpu<int32_t> in(kCount, where, 5 + rank), out(kCount + 100, where, -1);
      Stream stream;
      tutti_stream_t on = where == Where::kHost ? nullptr : stream.get();
      int peer = 1 - rank;
      // Each sends before it receives: only together do they get on.
      tutti_message_t message{};
      std::string error = said(comm, tutti_send_recv(in.data(), kCount, peer, 3, out.data(), kCount + 100, peer, 3,
                                                     TUTTI_INT32, comm, on, &message));
      if (on != nullptr && stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
      std::vector<int32_t> wanted(kCount + 100, 5 + peer);
      std::fill(wanted.begin() + kCount, wanted.end(), -1);
      if (message.count != kCount || message.source != peer) error += "the message is told wrongly";
      return error + compare("send_recv", out.download(), wanted);
    });
    CHECK(wrong == std::vector<std::string>(2));
  }
}

}  // namespace
}  // namespace tutti::test
