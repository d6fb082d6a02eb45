// Whole all-reduces of int32 sums by any algorithm, over any transport, with known contents. For tests.
#pragma once

#include "executor/ranks.h"
#include "planner/planner.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace tutti::test {

struct Fabric {
  std::string name;
  MakeTransport make;
};

inline Fabric fabric(const std::string& name) {
  if (name == "shm") return {name, [](const TransportContext& context) { return make_shm_transport(context); }};
  if (name == "tcp") return {name, [](const TransportContext& context) { return make_tcp_transport(context); }};
  auto hub = make_loopback_hub();
  return {name, [hub](const TransportContext& context) { return make_loopback_transport(context, hub); }};
}

enum class Memory { kOrdinary, kShared, kMixed };  // kMixed: even ranks pass shared memory, odd ranks ordinary memory

struct Case {
  uint64_t count = 0;
  bool in_place = false;
  Memory memory = Memory::kOrdinary;

  bool shares(int rank) const { return memory == Memory::kShared || (memory == Memory::kMixed && rank % 2 == 0); }
};

inline int32_t element(int rank, uint64_t index, uint64_t salt) {
  return static_cast<int32_t>((index * 2654435761u + static_cast<uint64_t>(rank) * 40503u + salt) % 1000) - 500;
}

// The buffers of one rank for one call, with room that must stay untouched behind them.
class Buffers {
 public:
  Buffers(Rank& rank, uint64_t count, bool shared) : count_(count) {
    uint64_t bytes = (count + kGuard) * sizeof(int32_t) + 64;
    if (shared) {
      shared_in_ = rank.allocate(bytes);
      shared_out_ = rank.allocate(bytes);
      in_window = rank.share(shared_in_);
      out_window = rank.share(shared_out_);
      in = reinterpret_cast<int32_t*>(shared_in_.data());
      out = reinterpret_cast<int32_t*>(shared_out_.data());
    } else {
      plain_in_.resize(count + kGuard + 1);
      plain_out_.resize(count + kGuard + 1);
      in = plain_in_.data() + 1;  // aligned for the type, and no better
      out = plain_out_.data() + 1;
    }
  }
  void fill(int rank, uint64_t salt, bool in_place) {
    for (uint64_t i = 0; i < count_; ++i) (in_place ? out : in)[i] = element(rank, i, salt);
    for (uint64_t i = 0; i < kGuard; ++i) out[count_ + i] = kUntouched;
  }
  bool guard_intact() const {
    return std::all_of(out + count_, out + count_ + kGuard, [](int32_t v) { return v == kUntouched; });
  }

  int32_t* in;
  int32_t* out;
  Window in_window, out_window;

 private:
  static constexpr uint64_t kGuard = 16;
  static constexpr int32_t kUntouched = 0x5a5a5a5a;
  uint64_t count_;
  Rank::Shared shared_in_, shared_out_;
  std::vector<int32_t> plain_in_, plain_out_;
};

// "" when `out` holds the right result.
inline std::string compare(const int32_t* out, int nranks, uint64_t count, uint64_t salt) {
  for (uint64_t i = 0; i < count; ++i) {
    int64_t want = 0;
    for (int rank = 0; rank < nranks; ++rank) want += element(rank, i, salt);
    if (out[i] != want) return fmt::format("element {} is {} and should be {}", i, out[i], want);
  }
  return "";
}

inline Topology topology_of(int nranks) {
  Inventory inventory;
  inventory.identity.boot_id = "test";
  inventory.cpu.logical_cpus = 2;
  inventory.cpu.allowed_cpus = {0, 1};
  return single_host(inventory, nranks);
}

inline Plan plan_for(const std::string& name, int nranks, uint64_t slice_bytes) {
  const Algorithm* algorithm = find_algorithm(name);
  TUTTI_CHECK(algorithm != nullptr);
  Tuning tuning{.slice_bytes = slice_bytes, .max_slice_bytes = slice_bytes};
  return Plan(algorithm->shape(topology_of(nranks), {.count = 100'000}, tuning), algorithm->generate);
}

// One for each channel.
inline std::vector<Program> programs_of(const Plan& plan, int rank) {
  std::vector<Program> programs;
  for (int channel = 0; channel < plan.shape().channels; ++channel) programs.push_back(lower(plan.part(rank, channel)));
  return programs;
}

// The job's call of that number.
inline Call call_on(const Buffers& buffers, const PlanShape& shape, const Case& which, int number) {
  Call call;
  call.shape = &shape;
  call.datatype = TUTTI_INT32;
  call.input = reinterpret_cast<std::byte*>(which.in_place ? buffers.out : buffers.in);
  call.output = reinterpret_cast<std::byte*>(buffers.out);
  call.size_bytes = which.count * sizeof(int32_t);
  call.partition = Partition(which.count, sizeof(int32_t), shape.channels, shape.chunks, shape.slice_bytes);
  call.signature = 1000 + number;
  call.input_window = which.in_place ? buffers.out_window : buffers.in_window;
  call.output_window = buffers.out_window;
  call.options = {.pull_min_bytes = 256, .streaming_min_bytes = 4096};
  return call;
}

}  // namespace tutti::test
