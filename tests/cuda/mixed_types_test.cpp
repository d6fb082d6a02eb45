// Ranks with buffers of GPUs and ranks with the host's in one call, with every type, beside sums that a loop makes in
// float64.
#include <catch2/catch.hpp>

#include <functional>

#include "cuda/jobs.h"
#include "cuda/tested_calls.h"

namespace tutti::test {
namespace {

// Where the buffers of a rank are, by rank.
using Layout = std::vector<Where>;

void check(const Layout& layout, const Options& options, const std::vector<TestedCall>& cases) {
  auto nranks = static_cast<int>(layout.size());
  auto wrong = with_gpu_ranks(nranks, options, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    std::string error;
    for (const TestedCall& each : cases) {
      error += run(each, comm, rank, nranks, stream, layout[static_cast<size_t>(rank)]);
    }
    return error;
  });
  CHECK(wrong == std::vector<std::string>(layout.size()));
}

std::vector<TestedCall> calls_of_every_type(uint64_t count) {
  std::vector<TestedCall> cases = calls_of_every_type_and_op(count);
  for (const TestedCall& each : moving_calls_of_every_type(count)) cases.push_back(each);
  return cases;
}

TEST_CASE("every type, operation and collective among GPU and CPU ranks is what a loop gives") {
  for (const Layout& layout : {Layout{Where::kDevice, Where::kHost},
                               Layout{Where::kHost, Where::kDevice, Where::kPinned},
                               Layout{Where::kDevice, Where::kHost, Where::kManaged, Where::kHost}}) {
    for (const char* transport : {"shm", "tcp"}) {
      INFO(layout.size() << " ranks over " << transport);
      check(layout, {{"transport", transport}}, calls_of_every_type(61));
    }
  }
}

TEST_CASE("every type among GPU and CPU ranks at odd counts, in place and misaligned") {
  const Layout layout = {Where::kDevice, Where::kHost, Where::kDevice};
  std::vector<TestedCall> cases;
  for (const TestedType& type : tested_types()) {
    for (uint64_t count : {uint64_t{1}, uint64_t{5003}}) {
      for (bool in_place : {false, true}) {
        size_t misalignment = count == 1 ? 1 : type.size;
        for (tutti_collective_t each : kReducing) {
          cases.push_back({each, type, kSumOp, count, in_place, misalignment});
        }
        for (tutti_collective_t each : kMoving) cases.push_back({each, type, kSumOp, count, in_place, misalignment});
      }
    }
  }
  for (const char* transport : {"shm", "tcp"}) {
    INFO(transport);
    check(layout, {{"transport", transport}}, cases);
  }
}

// Blocks of different sizes, one of them empty, and gaps between them.
struct Blocks {
  std::vector<uint64_t> counts, displacements;
  uint64_t room = 0;  // of all, in elements
};
Blocks blocks_of(int nranks, int first) {
  Blocks blocks;
  for (int rank = 0; rank < nranks; ++rank) {
    blocks.counts.push_back(rank == 1 ? 0 : static_cast<uint64_t>(37 * rank + first));
    blocks.displacements.push_back(blocks.room + 3);
    blocks.room += blocks.counts.back() + 3;
  }
  return blocks;
}

class CallsWithCounts {
 public:
  CallsWithCounts(const TestedType& type, tutti_comm_t* comm, int rank, int nranks, Where where)
      : type_(type), comm_(comm), rank_(rank), nranks_(nranks), where_(where), blocks_(blocks_of(nranks, 5)) {}

  std::string run_all(const Stream& stream) {
    tutti_stream_t on = where_ == Where::kHost ? nullptr : stream.get();
    const uint64_t *counts = blocks_.counts.data(), *at = blocks_.displacements.data();
    uint64_t mine = blocks_.counts[static_cast<size_t>(rank_)];
    tutti_datatype_t type = type_.id;
    auto of_rank = [](int from) { return from + 1; };
    std::string error;
    error += check("all_gather_v", stream, true, of_rank, [&](const void* in, void* out) {
      return tutti_all_gather_v(in, mine, out, counts, at, type, comm_, on);
    });
    error += check("gather_v", stream, rank_ == kRoot, of_rank, [&](const void* in, void* out) {
      return tutti_gather_v(in, mine, out, counts, at, type, kRoot, comm_, on);
    });
    // Each sends to rank r what that rank would send in the others.
    std::vector<uint64_t> alike(static_cast<size_t>(nranks_), mine);
    error += check("all_to_all_v", stream, true, of_rank, [&](const void* in, void* out) {
      return tutti_all_to_all_v(in, alike.data(), nullptr, out, counts, at, type, comm_, on);
    });
    error += check_one("scatter_v", stream, kRoot + 1, [&](const void* in, void* out) {
      return tutti_scatter_v(in, counts, nullptr, out, mine, type, kRoot, comm_, on);
    });
    error += check_one("reduce_scatter_v", stream, nranks_ * (nranks_ + 1) / 2, [&](const void* in, void* out) {
      return tutti_reduce_scatter_v(in, out, counts, type, TUTTI_SUM, comm_, on);
    });
    return error;
  }

 private:
  static constexpr int kRoot = 0;
  static constexpr double kBetween = 9;  // what lies there, and stays
  using Make = std::function<tutti_status_t(const void* in, void* out)>;

  std::vector<uint8_t> filled(uint64_t count, double value) const {
    std::vector<uint8_t> bytes(count * type_.size);
    for (size_t i = 0; i < count; ++i) put(bytes, i, value, type_);
    return bytes;
  }
  std::string make(const char* name, const Stream& stream, const std::vector<uint8_t>& wanted, const Make& call) const {
    uint64_t room = blocks_.room * static_cast<uint64_t>(nranks_);
    OnGpu<uint8_t> in(room * type_.size, where_), out(wanted.size(), where_);
    in.host = filled(room, rank_ + 1);
    in.upload();
    out.host = filled(blocks_.room, kBetween);
    out.upload();
    std::string error = said(comm_, call(in.data(), out.data()), name);
    if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed; ";
    if (out.download() != wanted) error += std::string(name) + " of " + type_.name + " has another result; ";
    return error;
  }
  // The blocks of all ranks, where this one gets them.
  std::string check(const char* name, const Stream& stream, bool gets, int (*value)(int from), const Make& call) const {
    std::vector<uint8_t> wanted = filled(blocks_.room, kBetween);
    for (int from = 0; gets && from < nranks_; ++from) {
      auto block = static_cast<size_t>(from);
      for (uint64_t i = 0; i < blocks_.counts[block]; ++i) {
        put(wanted, blocks_.displacements[block] + i, value(from), type_);
      }
    }
    return make(name, stream, wanted, call);
  }
  // This rank's.
  std::string check_one(const char* name, const Stream& stream, int value, const Make& call) const {
    std::vector<uint8_t> wanted = filled(blocks_.room, kBetween);
    for (uint64_t i = 0; i < blocks_.counts[static_cast<size_t>(rank_)]; ++i) put(wanted, i, value, type_);
    return make(name, stream, wanted, call);
  }

  const TestedType& type_;
  tutti_comm_t* comm_;
  const int rank_;
  const int nranks_;
  const Where where_;
  const Blocks blocks_;
};

TEST_CASE("every type in calls with counts among GPU and CPU ranks") {
  for (const Layout& layout : {Layout{Where::kDevice, Where::kHost},
                               Layout{Where::kHost, Where::kDevice, Where::kHost, Where::kManaged}}) {
    for (const char* transport : {"shm", "tcp"}) {
      auto nranks = static_cast<int>(layout.size());
      INFO(nranks << " ranks over " << transport);
      auto wrong = with_gpu_ranks(nranks, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) {
        Stream stream;
        std::string error;
        for (const TestedType& type : tested_types()) {
          error += CallsWithCounts(type, comm, rank, nranks, layout[static_cast<size_t>(rank)]).run_all(stream);
        }
        return error;
      });
      for (const std::string& each : wrong) CHECK(each == "");
    }
  }
}

// Their slices come and go in pieces, and partial results of 8 and 16 bits are larger on the way.
TEST_CASE("large calls of small types among GPU and CPU ranks") {
  std::vector<TestedCall> cases;
  for (size_t t : {size_t{0}, size_t{5}, size_t{6}, size_t{7}, size_t{10}, size_t{11}}) {
    const TestedType& type = tested_types()[t];
    for (tutti_collective_t each : {TUTTI_ALL_REDUCE, TUTTI_REDUCE_SCATTER, TUTTI_ALL_GATHER}) {
      cases.push_back({each, type, kSumOp, 300'007});
    }
  }
  check({Where::kDevice, Where::kHost}, {}, cases);
}

}  // namespace
}  // namespace tutti::test
