// What a benchmark found, and its two forms: the table for people (nccl-tests' columns) and JSON for programs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective.h"
#include "communicator.h"
#include "measure.h"
#include "options.h"
#include "pair.h"

namespace tutti::bench {

// One size in one placement (out of place or in place).
struct Placement {
  Timing timing;
  double algbw_gbps = 0;         // the row's size per time, in 1e9 bytes per second
  double busbw_gbps = 0;         // algbw times the collective's factor: what the busiest link must carry
  std::optional<double> of_copy;  // share of what copies within the GPU allow; none: not on one GPU
  std::optional<uint64_t> wrong;  // elements over all ranks, of a barrier ranks; none: not checked
};

// What rows of several sizes have in common; what the collective does not have is none.
struct Subject {
  std::optional<tutti_datatype_t> datatype;
  std::optional<tutti_op_t> op;
  std::optional<int> root;
};

struct Row {
  uint64_t size_bytes = 0;       // of the vector, or of all ranks' blocks
  uint64_t count = 0;            // elements of the vector, or of each block on average
  Subject subject;
  std::string algorithm;
  std::string transport;
  int channels = 0;
  uint64_t predicted_ns = 0;
  std::optional<Placement> out_of_place;
  std::optional<Placement> in_place;
};

struct Summary {
  uint64_t out_of_bounds = 0;    // all that was wrong, and bytes changed outside the buffers
  double average_busbw_gbps = 0;
  double memcpy_gbps = 0;        // per rank, all ranks at once; 0: not measured
  uint64_t memcpy_bytes = 0;
  size_t gpu_copy_bytes = 0;     // of each buffer of that:
  double gpu_copy_gbps = 0;      // within the GPU that all ranks use, by one of them; 0: not measured
};

struct Run {
  Options options;
  std::vector<RankInfo> ranks;
  std::vector<Row> rows;
  Summary summary;

  // Whether all ranks' buffers are on one GPU.
  bool has_one_gpu() const {
    return !ranks.front().gpu.empty() &&
           std::all_of(ranks.begin(), ranks.end(), [&](auto& rank) { return rank.gpu == ranks.front().gpu; });
  }
};

// Messages of one size between ranks 0 and 1.
struct PairRow {
  uint64_t size_bytes = 0;
  uint64_t count = 0;            // elements
  tutti_datatype_t datatype = TUTTI_FLOAT32;
  Placement placement;           // times of one message
  double messages_per_s = 0;
};

struct PairRun {
  PairOptions options;
  std::vector<RankInfo> ranks;
  std::string transport;
  std::vector<PairRow> rows;
  uint64_t out_of_bounds = 0;    // all that was wrong, and bytes changed outside the buffers
};

std::string header_text(const Run& run);
std::string row_text(const Row& row, const Run& run);
std::string footer_text(const Run& run);
std::string json_text(const Run& run);

std::string_view name_of(PairMeasure measure);
std::string header_text(const PairRun& run);
std::string row_text(const PairRow& row, const PairRun& run);
std::string footer_text(const PairRun& run);
std::string json_text(const PairRun& run);

}  // namespace tutti::bench
