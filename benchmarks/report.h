// What a benchmark found, and its two forms: the table for people (nccl-tests' columns) and JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "communicator.h"
#include "measure.h"
#include "options.h"

namespace tutti::bench {

// One size in one placement (out of place or in place).
struct Placement {
  Timing timing;
  double algbw_gbps = 0;         // bytes of one rank's buffer per time, in 1e9 bytes per second
  double busbw_gbps = 0;         // algbw * 2(n - 1)/n: what the busiest link must carry
  std::optional<uint64_t> wrong;  // elements over all ranks; none: not checked
};

struct Row {
  uint64_t size_bytes = 0;
  uint64_t count = 0;
  tutti_datatype_t datatype = TUTTI_FLOAT32;
  tutti_op_t op = TUTTI_SUM;
  std::string algorithm;
  std::string transport;
  int channels = 0;
  uint64_t predicted_ns = 0;
  std::optional<Placement> out_of_place;
  std::optional<Placement> in_place;
};

struct Summary {
  uint64_t out_of_bounds = 0;    // wrong elements, and bytes changed outside the buffers
  double average_busbw_gbps = 0;
  double memcpy_gbps = 0;        // per rank, all ranks at once; 0: not measured
  uint64_t memcpy_bytes = 0;
};

struct Run {
  Options options;
  std::vector<RankInfo> ranks;
  std::vector<Row> rows;
  Summary summary;
};

std::string header_text(const Run& run);
std::string row_text(const Row& row);
std::string footer_text(const Run& run);
std::string json_text(const Run& run);

}  // namespace tutti::bench
