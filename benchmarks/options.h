// What one run of `tutti bench` is asked to do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "buffer.h"
#include "tutti/tutti.h"

namespace tutti::bench {

enum class Average { kRank0 = 0, kMean = 1, kMin = 2, kMax = 3 };  // nccl-tests' -a

struct Options {
  tutti_collective_t collective = TUTTI_ALL_REDUCE;
  uint64_t min_bytes = 8;
  uint64_t max_bytes = uint64_t{128} << 20;
  double step_factor = 4;         // used when > 1
  uint64_t step_bytes = 0;        // else this
  int iterations = 0;             // 0: from the time that one takes
  int warmup = 5;
  int checks = 1;                 // calls whose results are verified
  double seconds = 1;             // limit for the timed calls of one size and placement
  bool blocking = false;          // all ranks meet before every timed call
  Average average = Average::kMean;
  bool out_of_place = true;
  bool in_place = true;
  MemoryKind memory = MemoryKind::kMalloc;
  std::vector<tutti_datatype_t> datatypes = {TUTTI_FLOAT32};
  std::vector<tutti_op_t> ops = {TUTTI_SUM};  // of collectives that reduce
  std::optional<int> root = 0;    // of collectives with a root; none: each rank in turn
  bool deterministic = false;     // the library's option
  std::string transport;          // "": the library chooses
  std::string algorithm;
  std::string tuning;             // "": as the environment says
  std::vector<std::string> devices = {"cpu"};  // of the ranks in turn: "cpu", "cuda", "cuda:1"
  std::string json_file;
  int threads = 0;                // of this process, which are the ranks; 0: the launcher's ranks

  bool has_gpus() const {
    return std::any_of(devices.begin(), devices.end(), [](const std::string& device) { return device != "cpu"; });
  }

  // The size of the row after one of `size_bytes`.
  uint64_t size_after(uint64_t size_bytes) const {
    if (step_factor <= 1) return size_bytes + step_bytes;
    return std::max(size_bytes + 1, static_cast<uint64_t>(static_cast<double>(size_bytes) * step_factor));
  }
};

}  // namespace tutti::bench
