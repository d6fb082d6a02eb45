#include "cuda/tested_calls.h"

#include <algorithm>
#include <cmath>

namespace tutti::test {
namespace {

using differential::FloatFormat;

const std::vector<TestedType> kTypes = {
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

const std::vector<TestedOp> kOps = {{TUTTI_SUM, "sum"}, {TUTTI_PROD, "prod"}, {TUTTI_MAX, "max"}, {TUTTI_MIN, "min"},
                                    {TUTTI_AVG, "avg"}, {TUTTI_BAND, "band"}, {TUTTI_BOR, "bor"}, {TUTTI_BXOR, "bxor"}};

bool is_of_bits(tutti_op_t op) { return op == TUTTI_BAND || op == TUTTI_BOR || op == TUTTI_BXOR; }

// Small integers, whose sums and products of a few are exact in every type.
double contribution(const TestedType& type, int rank, size_t i) {
  constexpr double kValues[] = {-1, 0, 1, 2, 2, -1, 1};
  double value = kValues[(i * 3 + static_cast<size_t>(rank) * 5 + i / 7) % std::size(kValues)];
  return type.is_signed ? value : std::fabs(value);
}

double combined(const TestedType& type, tutti_op_t op, int nranks, size_t i) {
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

struct Blocks {
  size_t sent = 0;
  size_t received = 0;
};
Blocks blocks_of(tutti_collective_t collective, int rank, int nranks) {
  auto n = static_cast<size_t>(nranks);
  bool is_root = rank == kRoot;
  switch (collective) {
    case TUTTI_BARRIER: return {0, 0};
    case TUTTI_REDUCE: return {1, is_root ? 1U : 0U};
    case TUTTI_ALL_GATHER: return {1, n};
    case TUTTI_REDUCE_SCATTER: return {n, 1};
    case TUTTI_ALL_TO_ALL: return {n, n};
    case TUTTI_GATHER: return {1, is_root ? n : 0};
    case TUTTI_SCATTER: return {is_root ? n : 0, 1};
    default: return {1, 1};
  }
}

double expected(const TestedCall& which, int rank, int nranks, size_t i) {
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

tutti_status_t call(const TestedCall& which, const void* in, void* out, tutti_comm_t* comm, tutti_stream_t stream) {
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
    case TUTTI_BARRIER: return tutti_barrier(comm, stream);
    default: return tutti_scatter(in, out, count, type, kRoot, comm, stream);
  }
}

}  // namespace

const std::vector<TestedType>& tested_types() { return kTypes; }

void put(std::vector<uint8_t>& bytes, size_t i, double value, const TestedType& type) {
  uint64_t bits = type.is_float() ? differential::encoded(differential::rounded(value, *type.format), *type.format)
                                  : static_cast<uint64_t>(static_cast<int64_t>(value));
  std::memcpy(bytes.data() + i * type.size, &bits, type.size);
}

std::vector<TestedCall> calls_of_every_type_and_op(uint64_t count) {
  std::vector<TestedCall> calls;
  for (const TestedType& type : kTypes) {
    for (const TestedOp& op : kOps) {
      if (is_of_bits(op.id) && type.is_float()) continue;
      for (tutti_collective_t collective : kReducing) calls.push_back({collective, type, op, count});
    }
  }
  return calls;
}

std::vector<TestedCall> moving_calls_of_every_type(uint64_t count) {
  std::vector<TestedCall> calls;
  for (const TestedType& type : kTypes) {
    for (tutti_collective_t collective : kMoving) calls.push_back({collective, type, kSumOp, count});
  }
  return calls;
}

std::string run(const TestedCall& which, tutti_comm_t* comm, int rank, int nranks, const Stream& stream, Where where) {
  constexpr size_t kGuard = 64;
  constexpr uint8_t kUntouched = 0xa5;
  size_t element = which.type.size, block_bytes = which.count * element;
  Blocks blocks = blocks_of(which.collective, rank, nranks);
  size_t room = kGuard + which.misalignment + block_bytes * static_cast<size_t>(nranks) + kGuard;
  OnGpu<uint8_t> in(room, where, kUntouched), out(room, where, kUntouched);
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
  std::string error;
  tutti_stream_t on = where == Where::kHost ? nullptr : stream.get();
  if (call(which, in.data() + sent_at, target.data() + received_at, comm, on) != TUTTI_SUCCESS) {
    error = tutti_last_error(comm);
  }
  if (stream.synchronize() != CUDA_SUCCESS) error += "the stream has failed";
  if (error.empty() && tutti_comm_status(comm) != TUTTI_SUCCESS) error = tutti_last_error(comm);
  std::string name = std::string(which.type.name) + " " + which.op.name + ", collective " +
                     std::to_string(which.collective) + ", " + std::to_string(which.count) + " elements" +
                     (which.in_place ? " in place" : "") + "; ";
  // What is there after a failure is not promised. And where the driver has not said that other ranks' launches have
  // ended, they got two seconds for it, which ThreadSanitizer does not see.
  if (!error.empty()) return error + " of " + name;
  target.download();
  auto first = target.host.begin() + static_cast<std::ptrdiff_t>(received_at);
  bool is_right = shares ? std::equal(received.begin(), received.end(), first) : target.host == wanted;
  return is_right ? "" : "another result of " + name;
}

}  // namespace tutti::test
