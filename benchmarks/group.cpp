#include "group.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "buffer.h"
#include "communicator.h"

namespace tutti::bench {
namespace {

std::vector<uint64_t> sizes_of(const GroupOptions& options) {
  std::vector<uint64_t> sizes;
  double growth = static_cast<double>(options.max_bytes) / static_cast<double>(options.min_bytes);
  for (int i = 0; i < options.tensors; ++i) {
    // In no order, as layers come: a step that has no factor in common with most lists' lengths.
    double place = static_cast<double>(i * 67 % options.tensors) / std::max(1, options.tensors - 1);
    sizes.push_back(static_cast<uint64_t>(static_cast<double>(options.min_bytes) * std::pow(growth, place)) / 4 * 4);
  }
  return sizes;
}

class Tensors {
 public:
  Tensors(Communicator& comm, const GroupOptions& options)
      : sizes_(sizes_of(options)), buffer_(options.common.memory, total(), &comm) {}

  uint64_t total() const {
    uint64_t bytes = 0;
    for (uint64_t size : sizes_) bytes += size;
    return bytes;
  }

  void fill(float value) { std::fill_n(values(), total() / sizeof(float), value); }
  uint64_t wrong(float expected) const {
    auto count = static_cast<std::ptrdiff_t>(total() / sizeof(float));
    return static_cast<uint64_t>(count - std::count(values(), values() + count, expected));
  }

  void reduce(Communicator& comm) {
    float* at = values();
    for (uint64_t size : sizes_) {
      tutti_call_t call{};
      call.struct_size = sizeof call;
      call.collective = TUTTI_ALL_REDUCE;
      call.datatype = TUTTI_FLOAT32;
      call.op = TUTTI_SUM;
      call.send_buffer = call.recv_buffer = at;
      call.count = size / sizeof(float);
      comm.run(call);
      at += call.count;
    }
  }

 private:
  float* values() const { return static_cast<float*>(buffer_.data()); }

  std::vector<uint64_t> sizes_;
  Buffer buffer_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Microseconds of the slowest rank.
double time_once(Communicator& comm, Tensors& tensors, bool grouped) {
  comm.meet();
  auto begin = std::chrono::steady_clock::now();
  if (grouped) comm.begin_group();
  tensors.reduce(comm);
  if (grouped) comm.end_group();
  double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  return comm.agree(us, TUTTI_MAX);
}

}  // namespace

bool run_group_benchmark(const GroupOptions& options) {
  Communicator comm(options.common);
  Tensors tensors(comm, options);
  constexpr int kWarmup = 3;
  std::vector<double> times[2];
  uint64_t wrong = 0;
  auto sum = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
  for (int round = -kWarmup; round < options.rounds; ++round) {
    for (bool grouped : {false, true}) {
      tensors.fill(static_cast<float>(comm.rank() + 1));
      double us = time_once(comm, tensors, grouped);
      wrong += tensors.wrong(sum);
      if (round >= 0) times[grouped ? 1 : 0].push_back(us);
    }
  }
  auto all_wrong = static_cast<uint64_t>(comm.agree(static_cast<int64_t>(wrong), TUTTI_SUM));
  double alone = median(times[0]), together = median(times[1]);
  if (comm.rank() == 0) {
    fmt::print("# {} float32 tensors of {} to {} bytes, {} bytes together, summed in place on {} ranks; median of {}\n",
               options.tensors, options.min_bytes, options.max_bytes, tensors.total(), comm.size(), options.rounds);
    fmt::print("one by one  {:10.1f} us\nin a group  {:10.1f} us\nratio       {:10.2f}\n#wrong      {:10}\n", alone,
               together, alone / together, all_wrong);
  }
  comm.finish();
  return all_wrong == 0;
}

}  // namespace tutti::bench
