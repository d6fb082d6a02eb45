// Every collective, type and operation among GPUs, beside sums that a loop makes in float64.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cuda/jobs.h"
#include "differential/float_format.h"

namespace tutti::test {
namespace {

using differential::FloatFormat;

struct Type {
  tutti_datatype_t id;
  const char* name;
  size_t size;
  bool is_signed;
  std::optional<FloatFormat> format;

  bool is_float() const { return format.has_value(); }
};
const std::vector<Type> kTypes = {
    {TUTTI_INT8, "int8", 1, true, {}},
    {TUTTI_UINT8, "uint8", 1, false, {}},
    {TUTTI_INT32, "int32", 4, true, {}},
    {TUTTI_UINT32, "uint32", 4, false, {}},
    {TUTTI_INT64, "int64", 8, true, {}},
    {TUTTI_UINT64, "uint64", 8, false, {}},
    {TUTTI_FLOAT16, "float16", 2, true, FloatFormat{5, 10}},
    {TUTTI_BFLOAT16, "bfloat16", 2, true, FloatFormat{8, 7}},
    {TUTTI_FLOAT32, "float32", 4, true, differential::kSingle},
    {TUTTI_FLOAT64, "float64", 8, true, differential::kDouble},
    {TUTTI_FLOAT8_E4M3, "float8_e4m3", 1, true, differential::kFloat8E4M3},
    {TUTTI_FLOAT8_E5M2, "float8_e5m2", 1, true, differential::kFloat8E5M2},
};

struct Op {
  tutti_op_t id;
  const char* name;
};
const std::vector<Op> kOps = {{TUTTI_SUM, "sum"},   {TUTTI_PROD, "prod"}, {TUTTI_MAX, "max"},  {TUTTI_MIN, "min"},
                              {TUTTI_AVG, "avg"},   {TUTTI_BAND, "band"}, {TUTTI_BOR, "bor"},  {TUTTI_BXOR, "bxor"}};

bool is_of_bits(tutti_op_t op) { return op == TUTTI_BAND || op == TUTTI_BOR || op == TUTTI_BXOR; }

// Small integers, whose sums and products of a few are exact in every type.
double contribution(const Type& type, int rank, size_t i) {
  constexpr double kValues[] = {-1, 0, 1, 2, 2, -1, 1};
  double value = kValues[(i * 3 + static_cast<size_t>(rank) * 5 + i / 7) % std::size(kValues)];
  return type.is_signed ? value : std::fabs(value);
}

void put(std::vector<uint8_t>& bytes, size_t i, double value, const Type& type) {
  uint64_t bits = type.is_float() ? differential::encoded(differential::rounded(value, *type.format), *type.format)
                                  : static_cast<uint64_t>(static_cast<int64_t>(value));
  std::memcpy(bytes.data() + i * type.size, &bits, type.size);
}

double combined(const Type& type, tutti_op_t op, int nranks, size_t i) {
  double result = contribution(type, 0, i);
  for (int rank = 1; rank < nranks; ++rank) {
    double next = contribution(type, rank, i);
    auto a = static_cast<int64_t>(result), b = static_cast<int64_t>(next);
    switch (op) {
      case TUTTI_PROD: result *= next; break;
      case TUTTI_MAX: result = std::max(result, next); break;
      case TUTTI_MIN: result = std::min(result, next); break;
      case TUTTI_BAND: result = static_cast<double>(a & b); break;
      case TUTTI_BOR: result = static_cast<double>(a | b); break;
      case TUTTI_BXOR: result = static_cast<double>(a ^ b); break;
      default: result += next;
    }
  }
  if (op != TUTTI_AVG) return result;
  return type.is_float() ? result / nranks : std::trunc(result / nranks);
}

constexpr int kRoot = 1;

struct Case {
  tutti_collective_t collective;
  Type type;
  Op op;
  uint64_t count = 0;
  bool in_place = false;
  size_t misalignment = 0;
};

struct Blocks {
  size_t sent = 0;
  size_t received = 0;
};
Blocks blocks_of(tutti_collective_t collective, int rank, int nranks) {
  auto n = static_cast<size_t>(nranks);
  bool is_root = rank == kRoot;
  switch (collective) {
    case TUTTI_REDUCE: return {1, is_root ? 1U : 0U};
    case TUTTI_ALL_GATHER: return {1, n};
    case TUTTI_REDUCE_SCATTER: return {n, 1};
    case TUTTI_ALL_TO_ALL: return {n, n};
    case TUTTI_GATHER: return {1, is_root ? n : 0};
    case TUTTI_SCATTER: return {is_root ? n : 0, 1};
    default: return {1, 1};
  }
}

double expected(const Case& which, int rank, int nranks, size_t i) {
  size_t block = i / which.count, at = i % which.count, own = static_cast<size_t>(rank) * which.count;
  switch (which.collective) {
    case TUTTI_BROADCAST: return contribution(which.type, kRoot, i);
    case TUTTI_SCATTER: return contribution(which.type, kRoot, own + i);
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER: return contribution(which.type, static_cast<int>(block), at);
    case TUTTI_ALL_TO_ALL: return contribution(which.type, static_cast<int>(block), own + at);
    case TUTTI_REDUCE_SCATTER: return combined(which.type, which.op.id, nranks, own + i);
    default: return combined(which.type, which.op.id, nranks, i);
  }
}

tutti_status_t call(const Case& which, const void* in, void* out, tutti_comm_t* comm, tutti_stream_t stream) {
  uint64_t count = which.count;
  tutti_datatype_t type = which.type.id;
  tutti_op_t op = which.op.id;
  switch (which.collective) {
    case TUTTI_ALL_REDUCE: return tutti_all_reduce(in, out, count, type, op, comm, stream);
    case TUTTI_REDUCE: return tutti_reduce(in, out, count, type, op, kRoot, comm, stream);
    case TUTTI_BROADCAST: return tutti_broadcast(in, out, count, type, kRoot, comm, stream);
    case TUTTI_ALL_GATHER: return tutti_all_gather(in, out, count, type, comm, stream);
    case TUTTI_REDUCE_SCATTER: return tutti_reduce_scatter(in, out, count, type, op, comm, stream);
    case TUTTI_ALL_TO_ALL: return tutti_all_to_all(in, out, count, type, comm, stream);
    case TUTTI_GATHER: return tutti_gather(in, out, count, type, kRoot, comm, stream);
    default: return tutti_scatter(in, out, count, type, kRoot, comm, stream);
  }
}

// One call. What is stored beside the output is found, too.
std::string run(const Case& which, tutti_comm_t* comm, int rank, int nranks, const Stream& stream) {
  constexpr size_t kGuard = 64;
  constexpr uint8_t kUntouched = 0xa5;
  size_t element = which.type.size, block_bytes = which.count * element;
  Blocks blocks = blocks_of(which.collective, rank, nranks);
  size_t room = kGuard + which.misalignment + block_bytes * static_cast<size_t>(nranks) + kGuard;
  OnGpu<uint8_t> in(room, Where::kDevice, kUntouched), out(room, Where::kDevice, kUntouched);
  size_t begin = kGuard + which.misalignment, own = static_cast<size_t>(rank) * block_bytes;
  bool shares = which.in_place && blocks.sent > 0 && blocks.received > 0;
  size_t sent_at = begin + (shares && blocks.received > blocks.sent ? own : 0);
  size_t received_at = begin + (shares && blocks.sent > blocks.received ? own : 0);
  std::vector<uint8_t> sent(blocks.sent * block_bytes);
  for (size_t i = 0; i < blocks.sent * which.count; ++i) put(sent, i, contribution(which.type, rank, i), which.type);
  OnGpu<uint8_t>& target = shares ? in : out;
  std::copy(sent.begin(), sent.end(), in.host.begin() + static_cast<std::ptrdiff_t>(sent_at));
  in.upload();
  std::vector<uint8_t> wanted = target.host, received(blocks.received * block_bytes);
  for (size_t i = 0; i < blocks.received * which.count; ++i) {
    put(received, i, expected(which, rank, nranks, i), which.type);
  }
  // In place, what else the buffer held is not promised to stay.
  if (!shares) std::copy(received.begin(), received.end(), wanted.begin() + static_cast<std::ptrdiff_t>(received_at));
  std::string error = said(comm, call(which, in.data() + sent_at, target.data() + received_at, comm, stream.get()));
  if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
  target.download();
  auto first = target.host.begin() + static_cast<std::ptrdiff_t>(received_at);
  bool is_right = shares ? std::equal(received.begin(), received.end(), first) : target.host == wanted;
  if (is_right && error.empty()) return "";
  return error + (is_right ? "" : "another result") + std::string(" of ") + which.type.name + " " + which.op.name +
         ", collective " + std::to_string(which.collective) + ", " + std::to_string(which.count) + " elements" +
         (which.in_place ? " in place" : "") + "; ";
}

constexpr tutti_collective_t kReducing[] = {TUTTI_ALL_REDUCE, TUTTI_REDUCE, TUTTI_REDUCE_SCATTER};
constexpr tutti_collective_t kMoving[] = {TUTTI_BROADCAST, TUTTI_ALL_GATHER, TUTTI_ALL_TO_ALL, TUTTI_GATHER,
                                          TUTTI_SCATTER};

void check(int nranks, const std::vector<Case>& cases) {
  Counted host("cuLaunchHostFunc"), launches("cuLaunchKernel");
  auto wrong = with_ranks_of_gpus(nranks, {}, [&](tutti_comm_t* comm, int rank) {
    Stream stream;
    std::string error;
    for (const Case& each : cases) error += run(each, comm, rank, nranks, stream);
    return error;
  });
  CHECK(wrong == std::vector<std::string>(nranks));
  CHECK(host.now() == 0);
  CHECK(launches.now() == nranks * static_cast<int>(cases.size()));
}

TEST_CASE("every type and operation is combined among GPUs as a loop in float64 does it") {
  for (int nranks : {2, 3, 4}) {
    INFO(nranks << " ranks");
    std::vector<Case> cases;
    for (const Type& type : kTypes) {
      for (const Op& op : kOps) {
        if (is_of_bits(op.id) && type.is_float()) continue;
        for (tutti_collective_t collective : kReducing) cases.push_back({collective, type, op, 61});
      }
    }
    check(nranks, cases);
  }
}

TEST_CASE("every collective among GPUs is right at odd counts, in place and misaligned") {
  for (int nranks : {2, 3, 4}) {
    INFO(nranks << " ranks");
    std::vector<Case> cases;
    for (size_t t : {size_t{1}, size_t{6}, size_t{8}, size_t{9}}) {  // of 1, 2, 4 and 8 bytes
      const Type& type = kTypes[t];
      for (uint64_t count : {uint64_t{1}, uint64_t{37}, uint64_t{5003}}) {
        for (bool in_place : {false, true}) {
          size_t misalignment = count == 37 ? type.size : count == 1 ? 1 : 0;
          for (tutti_collective_t each : kReducing) {
            cases.push_back({each, type, kOps[0], count, in_place, misalignment});
          }
          for (tutti_collective_t each : kMoving) {
            if (in_place && each == TUTTI_ALL_TO_ALL) continue;  // it goes through the host
            cases.push_back({each, type, kOps[0], count, in_place, misalignment});
          }
        }
      }
    }
    check(nranks, cases);
  }
}

}  // namespace
}  // namespace tutti::test
