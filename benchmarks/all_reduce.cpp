#include "all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "communicator.h"
#include "element.h"
#include "measure.h"
#include "pattern.h"
#include "report.h"

namespace tutti::bench {
namespace {

// Copies of less say nothing about memory.
constexpr uint64_t kLeastMemcpyBytes = uint64_t{1} << 20;

// Opened before anything runs: a wrong path is to be said at once.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w"), std::fclose) {
    if (!file_) fail();
  }

  void write(const std::string& text) {
    bool written = std::fputs(text.c_str(), file_.get()) >= 0 && std::fflush(file_.get()) == 0;
    if (!written) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw std::runtime_error(
        fmt::format("cannot write {}: {}; name another file with --json, where there is room and this user may write",
                    path_, std::strerror(errno)));
  }

  std::string path_;
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

class AllReduce {
 public:
  explicit AllReduce(const Options& options)
      : options_(options), comm_(options.transport, options.algorithm), send_(options.memory, options.max_bytes),
        recv_(options.memory, options.max_bytes) {
    run_.options = options;
  }

  bool run() {
    std::unique_ptr<JsonFile> json;
    if (comm_.rank() == 0 && !options_.json_file.empty()) json = std::make_unique<JsonFile>(options_.json_file);
    run_.ranks = comm_.introduce();
    print(header_text(run_));
    for (tutti_datatype_t datatype : options_.datatypes) {
      for (tutti_op_t op : options_.ops) run_sizes(datatype, op);
    }
    summarize();
    print(footer_text(run_));
    if (json) json->write(json_text(run_));
    comm_.finish();
    return run_.summary.out_of_bounds == 0;
  }

 private:
  void run_sizes(tutti_datatype_t datatype, tutti_op_t op) {
    Pattern pattern(datatype, op, comm_.size());
    std::optional<uint64_t> last_count;
    for (uint64_t size = options_.min_bytes; size <= options_.max_bytes; size = following(size)) {
      uint64_t count = size / info(datatype).size_bytes;
      if (std::exchange(last_count, count) == count) continue;  // small steps are the same row again
      run_.rows.push_back(run_size(count, datatype, op, pattern));
      print(row_text(run_.rows.back()));
    }
  }

  uint64_t following(uint64_t size) const {
    if (options_.step_factor <= 1) return size + options_.step_bytes;
    return std::max(size + 1, static_cast<uint64_t>(static_cast<double>(size) * options_.step_factor));
  }

  Row run_size(uint64_t count, tutti_datatype_t datatype, tutti_op_t op, const Pattern& pattern) {
    tutti_plan_info_t plan = comm_.plan_info(count, datatype, op);
    Row row;
    row.size_bytes = count * info(datatype).size_bytes;
    row.count = count;
    row.datatype = datatype;
    row.op = op;
    row.algorithm = plan.algorithm;
    row.transport = plan.transport;
    row.channels = plan.channels;
    row.predicted_ns = plan.predicted_ns;
    if (options_.out_of_place) {
      row.out_of_place = run_placement({send_.data(), recv_.data(), count, datatype, op}, pattern);
    }
    if (options_.in_place) row.in_place = run_placement({recv_.data(), recv_.data(), count, datatype, op}, pattern);
    return row;
  }

  Placement run_placement(const Call& call, const Pattern& pattern) {
    uint64_t size = call.count * info(call.datatype).size_bytes;
    pattern.fill(const_cast<void*>(call.send), call.count, comm_.rank(), ++seed_);
    Placement placement;
    placement.timing = measure(comm_, call, options_);
    if (double time_us = placement.timing.mean_us; time_us > 0) {
      placement.algbw_gbps = static_cast<double>(size) / time_us / 1e3;
      placement.busbw_gbps = placement.algbw_gbps * 2 * (comm_.size() - 1) / comm_.size();
    }
    for (int check = 0; check < options_.checks; ++check) {
      placement.wrong = placement.wrong.value_or(0) + count_wrong(call, size, pattern);
    }
    return placement;
  }

  // One call on fresh inputs, compared element by element on every rank. Bytes changed around the
  // buffers are counted apart.
  uint64_t count_wrong(const Call& call, uint64_t size, const Pattern& pattern) {
    uint64_t seed = ++seed_;
    bool in_place = call.send == call.recv;
    send_.guard(size);
    recv_.guard(size);
    if (!in_place) std::memset(call.recv, 0xEE, size);
    pattern.fill(const_cast<void*>(call.send), call.count, comm_.rank(), seed);
    comm_.all_reduce(call.send, call.recv, call.count, call.datatype, call.op);
    uint64_t wrong = pattern.wrong_results(call.recv, call.count, seed);
    if (!in_place) wrong += pattern.wrong_inputs(call.send, call.count, comm_.rank(), seed);
    uint64_t outside = send_.overwritten(size) + recv_.overwritten(size);
    // A broken all-reduce could also break these sums: what this rank saw itself counts in any case.
    auto all_wrong = static_cast<uint64_t>(comm_.agree(static_cast<int64_t>(wrong), TUTTI_SUM));
    auto all_outside = static_cast<uint64_t>(comm_.agree(static_cast<int64_t>(outside), TUTTI_SUM));
    run_.summary.out_of_bounds += std::max(wrong, all_wrong) + std::max(outside, all_outside);
    return std::max(wrong, all_wrong);
  }

  void summarize() {
    int placements = 0;
    for (const Row& row : run_.rows) {
      for (const auto* placement : {&row.out_of_place, &row.in_place}) {
        if (!*placement) continue;
        run_.summary.average_busbw_gbps += (*placement)->busbw_gbps;
        ++placements;
      }
    }
    if (placements) run_.summary.average_busbw_gbps /= placements;
    if (options_.max_bytes < kLeastMemcpyBytes) return;
    run_.summary.memcpy_bytes = options_.max_bytes;
    run_.summary.memcpy_gbps = measure_memcpy(comm_, send_.data(), recv_.data(), options_.max_bytes) / 1e9;
  }

  void print(const std::string& text) const {
    if (comm_.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const Options& options_;
  Communicator comm_;
  Buffer send_;
  Buffer recv_;
  Run run_;
  uint64_t seed_ = 0;
};

}  // namespace

bool run_all_reduce(const Options& options) { return AllReduce(options).run(); }

}  // namespace tutti::bench
