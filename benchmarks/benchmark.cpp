#include "benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "collective.h"
#include "communicator.h"
#include "element.h"
#include "json_file.h"
#include "layout.h"
#include "measure.h"
#include "pattern.h"
#include "report.h"
#include "trial.h"

namespace tutti::bench {
namespace {

// Copies of less say nothing about memory.
constexpr uint64_t kLeastMemcpyBytes = uint64_t{1} << 20;

// By how much a rank is late on purpose.
constexpr std::chrono::milliseconds kLate{1};
constexpr int kCheckedCalls = 3;

// This rank's, which is one of a GPU's from then on.
std::unique_ptr<Device> device_of(Communicator& comm, const Options& options) {
  if (!options.has_gpus()) return make_host();
  const std::string& wish = options.devices[static_cast<size_t>(comm.rank()) % options.devices.size()];
  int local_rank = comm.local_rank();  // all ranks ask
  return wish == "cpu" ? make_host() : make_gpu(cuda_driver(), wish, local_rank);
}

// A communicator finds the GPU that its rank uses when it is made: after device_of(). Null: no rank uses one.
std::unique_ptr<Communicator> communicator_on_gpus(Communicator& comm, const Options& options) {
  return options.has_gpus() ? std::make_unique<Communicator>(comm, options) : nullptr;
}

class Benchmark {
 public:
  Benchmark(const Options& options, const Seat* seat)
      : options_(options), collective_(info(options.collective)), comm_(options, seat),
        device_(device_of(comm_, options)), on_gpus_(communicator_on_gpus(comm_, options)),
        send_(options.memory, options.max_bytes, &measured(), gpu()),
        recv_(options.memory, options.max_bytes, &measured(), gpu()) {
    run_.options = options;
  }

  bool run() {
    std::unique_ptr<JsonFile> json;
    if (comm_.rank() == 0 && !options_.json_file.empty()) json = std::make_unique<JsonFile>(options_.json_file);
    check_root();
    check_algorithm();
    run_.ranks = comm_.introduce(*device_);
    print(header_text(run_));
    if (run_.has_one_gpu() && collective_.has_data()) {
      run_.summary.gpu_copy_gbps =
          measure_copy_alone(comm_, *device_, &run_.summary.gpu_copy_bytes) / 1e9;
    }
    if (collective_.has_data()) {
      for (const Subject& subject : subjects()) run_sizes(subject);
    } else {
      run_without_data();
    }
    summarize();
    print(footer_text(run_));
    if (json) json->write(json_text(run_));
    if (on_gpus_) on_gpus_->finish();
    comm_.finish();
    return run_.summary.out_of_bounds == 0;
  }

 private:
  // What the calls are made on.
  Communicator& measured() { return on_gpus_ ? *on_gpus_ : comm_; }
  Device* gpu() const { return device_->stream() == nullptr ? nullptr : device_.get(); }

  void check_root() const {
    if (!collective_.has_root() || options_.root.value_or(0) < comm_.size()) return;
    throw std::runtime_error(fmt::format("--root {}: the ranks are 0 to {}", *options_.root, comm_.size() - 1));
  }

  // The library takes a wish for an algorithm as one for the collectives that have it.
  void check_algorithm() {
    if (options_.algorithm.empty() || comm_.size() == 1) return;
    std::vector<uint64_t> counts(static_cast<size_t>(comm_.size()));
    tutti_call_t call = call_of({});
    call.stream = nullptr;  // also of calls that one launch does in most cases
    call.send_counts = call.recv_counts = counts.data();
    if (options_.algorithm == measured().plan_info(call).algorithm) return;
    throw std::runtime_error(fmt::format("{0} has no algorithm {1}; `tutti plan {0} --explain` names those it has",
                                         collective_.name, options_.algorithm));
  }

  std::vector<Subject> subjects() const {
    std::vector<std::optional<tutti_op_t>> ops(1);
    std::vector<std::optional<int>> roots(1);
    if (collective_.reduces) ops.assign(options_.ops.begin(), options_.ops.end());
    if (collective_.has_root()) roots.front() = options_.root.value_or(0);
    bool each_root = collective_.has_root() && !options_.root;
    for (int rank = 1; each_root && rank < comm_.size(); ++rank) roots.push_back(rank);
    std::vector<Subject> subjects;
    for (tutti_datatype_t datatype : options_.datatypes) {
      for (auto op : ops) {
        if (op && !info(*op).takes(info(datatype))) continue;
        for (auto root : roots) subjects.push_back({datatype, op, root});
      }
    }
    return subjects;
  }

  void run_sizes(const Subject& subject) {
    Pattern pattern(*subject.datatype, subject.op, comm_.size());
    std::optional<uint64_t> last_count;
    for (uint64_t size = options_.min_bytes; size <= options_.max_bytes; size = options_.size_after(size)) {
      uint64_t count = count_of(collective_, size, *subject.datatype, comm_.size());
      if (std::exchange(last_count, count) == count) continue;  // small steps are the same row again
      add(run_size(subject, count, pattern));
    }
  }

  Row run_size(const Subject& subject, uint64_t count, const Pattern& pattern) {
    Layout layout(collective_, count, comm_.rank(), comm_.size(), subject.root.value_or(0));
    Trial out_of_place(layout, pattern, comm_.rank(), send_, recv_, false);
    Trial in_place(layout, pattern, comm_.rank(), send_, recv_, true);
    tutti_call_t call = call_of(subject);
    out_of_place.describe(call);
    Row row = planned_row(call);
    row.subject = subject;
    row.size_bytes = layout.total * tutti_datatype_size(*subject.datatype);
    row.count = count;
    if (options_.out_of_place) row.out_of_place = run_placement(call, out_of_place, row.size_bytes);
    in_place.describe(call);
    if (options_.in_place) row.in_place = run_placement(call, in_place, row.size_bytes);
    note_share_of_copy(row);
    row.transport = measured().plan_info(call).transport;  // now that it has turned out which one works
    return row;
  }

  void run_without_data() {
    tutti_call_t call = call_of({});
    Row row = planned_row(call);
    row.out_of_place.emplace().timing = time(call);
    for (int check = 0; check < options_.checks; ++check) note_wrong(row.out_of_place->wrong, count_early(call));
    row.transport = measured().plan_info(call).transport;
    add(std::move(row));
  }

  tutti_call_t call_of(const Subject& subject) const {
    tutti_call_t call = {};
    call.struct_size = sizeof call;
    call.collective = collective_.collective;
    call.op = subject.op.value_or(TUTTI_SUM);
    call.root = subject.root.value_or(0);
    call.stream = device_->stream();
    return call;
  }

  // A row of what will run.
  Row planned_row(const tutti_call_t& call) {
    tutti_plan_info_t plan = measured().plan_info(call);
    Row row;
    row.algorithm = plan.algorithm;
    row.transport = plan.transport;
    row.channels = plan.channels;
    row.predicted_ns = plan.predicted_ns;
    return row;
  }

  Placement run_placement(const tutti_call_t& call, Trial& trial, uint64_t size_bytes) {
    trial.fill(++seed_);
    Placement placement;
    placement.timing = time(call);
    if (double time_us = placement.timing.mean_us; time_us > 0) {
      placement.algbw_gbps = static_cast<double>(size_bytes) / time_us / 1e3;
      placement.busbw_gbps = placement.algbw_gbps * collective_.bus_factor.of(comm_.size());
    }
    for (int check = 0; check < options_.checks; ++check) {
      uint64_t wrong = 0, overwritten = 0;
      // In a row, as those that were timed: a call that comes again takes a shorter way.
      for (int each = 0; each < kCheckedCalls; ++each) {
        trial.guard(++seed_);
        run_to_end(call);
        wrong = std::max(wrong, trial.wrong());
        overwritten = std::max(overwritten, trial.overwritten());
      }
      note_wrong(placement.wrong, wrong);
      note_outside(overwritten);
    }
    return placement;
  }

  Timing time(const tutti_call_t& call) {
    return measure(comm_, *device_, [&] { measured().run(call); }, options_);
  }

  void run_to_end(const tutti_call_t& call) {
    measured().run(call);
    device_->synchronize();
  }

  void note_share_of_copy(Row& row) const {
    if (run_.summary.gpu_copy_gbps == 0) return;
    for (auto* placement : {&row.out_of_place, &row.in_place}) {
      if (!*placement || (*placement)->timing.mean_us == 0) continue;
      double moved = collective_.least_traffic(comm_.size(), placement == &row.in_place);
      // A copy reads and writes what it copies.
      double limit_us = moved / 2 * static_cast<double>(row.size_bytes) / run_.summary.gpu_copy_gbps / 1e3;
      (*placement)->of_copy = limit_us / (*placement)->timing.mean_us;
    }
  }

  // Each rank in turn comes late to a barrier; how often this rank did not wait for it.
  uint64_t count_early(const tutti_call_t& call) {
    uint64_t early = 0;
    for (int late = 0; late < comm_.size(); ++late) {
      auto start = std::chrono::steady_clock::now();
      comm_.meet();  // all ranks have started their clocks
      if (comm_.rank() == late) std::this_thread::sleep_for(kLate);
      run_to_end(call);
      early += std::chrono::steady_clock::now() - start < kLate;
    }
    return early;
  }

  // What this rank found, joined over all of them. A broken all-reduce could also break the sum: what this rank saw
  // itself counts in any case.
  uint64_t over_all_ranks(uint64_t found) {
    uint64_t all = std::max(found, static_cast<uint64_t>(comm_.agree(static_cast<int64_t>(found), TUTTI_SUM)));
    run_.summary.out_of_bounds += all;
    return all;
  }

  void note_wrong(std::optional<uint64_t>& sum, uint64_t wrong) { sum = sum.value_or(0) + over_all_ranks(wrong); }
  void note_outside(uint64_t bytes) { over_all_ranks(bytes); }

  void add(Row row) {
    print(row_text(row, run_));
    run_.rows.push_back(std::move(row));
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
    if (run_.has_one_gpu()) return;
    run_.summary.memcpy_bytes = options_.max_bytes;
    run_.summary.memcpy_gbps =
        measure_copy(comm_, *device_, send_.address(), recv_.address(), options_.max_bytes) / 1e9;
  }

  void print(const std::string& text) const {
    if (comm_.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const Options& options_;
  const CollectiveInfo& collective_;
  Communicator comm_;  // of the host
  std::unique_ptr<Device> device_;
  std::unique_ptr<Communicator> on_gpus_;
  Buffer send_;
  Buffer recv_;
  Run run_;
  uint64_t seed_ = 0;
};

// The first failure is the cause of the others'.
class FirstFailure {
 public:
  void note(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    if (first_ == nullptr) first_ = std::move(failure);
  }
  void rethrow() const {
    if (first_ != nullptr) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

bool run_on_threads(const Options& options) {
  tutti_unique_id_t job = make_job();
  std::atomic<bool> is_right{true};
  FirstFailure failure;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < options.threads; ++rank) {
    ranks.emplace_back([&, rank] {
      Seat seat{job, rank, options.threads};
      try {
        if (!Benchmark(options, &seat).run()) is_right = false;
      } catch (...) {
        failure.note(std::current_exception());
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  failure.rethrow();
  return is_right;
}

}  // namespace

bool run_benchmark(const Options& options) {
  return options.threads > 0 ? run_on_threads(options) : Benchmark(options, nullptr).run();
}

}  // namespace tutti::bench
