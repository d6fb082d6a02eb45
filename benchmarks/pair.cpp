#include "pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "communicator.h"
#include "element.h"
#include "json_file.h"
#include "measure.h"
#include "pattern.h"
#include "report.h"

namespace tutti::bench {
namespace {

constexpr int kDataTag = 1;
constexpr int kAnswerTag = 2;

// Those of a window that have been started. When one cannot be, the communicator has failed, and the others end soon.
struct Requests {
  ~Requests() { tutti_wait_all(all.size(), all.data()); }
  std::vector<tutti_request_t*> all;
};

PairRun run_of(const PairOptions& options) {
  PairRun run;
  run.options = options;
  run.options.common.average = Average::kRank0;
  return run;
}

class PairBenchmark {
 public:
  explicit PairBenchmark(const PairOptions& options)
      : run_(run_of(options)), comm_(common()), send_(common().memory, buffer_bytes(), &comm_),
        recv_(common().memory, buffer_bytes(), &comm_) {}

  bool run() {
    std::unique_ptr<JsonFile> json;
    if (comm_.rank() == 0 && !common().json_file.empty()) json = std::make_unique<JsonFile>(common().json_file);
    if (comm_.size() == 1) {
      throw std::runtime_error("ranks 0 and 1 measure, but there is one rank only; start two, for instance with "
                               "--ranks 2");
    }
    run_.ranks = comm_.introduce(*device_);
    run_.transport = comm_.transport_of_first_pair();
    print(header_text(run_));
    for (tutti_datatype_t datatype : common().datatypes) run_sizes(datatype);
    print(footer_text(run_));
    if (json) json->write(json_text(run_));
    comm_.finish();
    return run_.out_of_bounds == 0;
  }

 private:
  const Options& common() const { return run_.options.common; }
  bool has_answers() const { return run_.options.measure == PairMeasure::kLatency; }
  bool sends() const { return comm_.rank() == 0 || (comm_.rank() == 1 && has_answers()); }
  bool receives() const { return comm_.rank() == 1 || (comm_.rank() == 0 && has_answers()); }
  int partner() const { return 1 - comm_.rank(); }
  // Ranks that only wait have none.
  size_t buffer_bytes() const { return comm_.rank() < 2 ? common().max_bytes * kLargestPairMessages : 0; }

  void run_sizes(tutti_datatype_t datatype) {
    Pattern pattern(datatype, std::nullopt, comm_.size());
    std::optional<uint64_t> last_count;
    for (uint64_t size = common().min_bytes; size <= common().max_bytes; size = common().size_after(size)) {
      uint64_t count = size / tutti_datatype_size(datatype);
      if (std::exchange(last_count, count) == count) continue;  // small steps are the same row again
      run_.rows.push_back(run_size(pattern, count));
      print(row_text(run_.rows.back(), run_));
    }
  }

  PairRow run_size(const Pattern& pattern, uint64_t count) {
    PairRow row;
    row.datatype = pattern.type().datatype;
    row.count = count;
    row.size_bytes = count * static_cast<uint64_t>(pattern.type().size_bytes);
    describe(row);
    if (sends()) pattern.fill(send_.data(), count, comm_.rank(), seed_);
    row.placement.timing = measure(comm_, *device_, [&] { exchange(run_.options.window, 0); }, common());
    row.placement.timing.divide(has_answers() ? 2 : run_.options.window);
    if (double time_us = row.placement.timing.mean_us; time_us > 0) {
      row.placement.algbw_gbps = row.placement.busbw_gbps = static_cast<double>(row.size_bytes) / time_us / 1e3;
      row.messages_per_s = 1e6 / time_us;
    }
    for (int check = 0; check < common().checks; ++check) {
      row.placement.wrong = row.placement.wrong.value_or(0) + run_checked(pattern, row);
    }
    return row;
  }

  void describe(const PairRow& row) {
    data_ = call(row.datatype, row.count, kDataTag);
    data_.send_buffer = send_.data();
    data_.recv_buffer = recv_.data();
    answer_ = call(TUTTI_INT32, 1, kAnswerTag);
    answer_.send_buffer = answer_.recv_buffer = &answer_value_;
  }

  tutti_call_t call(tutti_datatype_t datatype, uint64_t count, int tag) const {
    tutti_call_t call = {};
    call.struct_size = sizeof call;
    call.datatype = datatype;
    call.count = count;
    call.peer = partner();
    call.tag = tag;
    return call;
  }

  // What is timed, and what is checked: messages of a window begin `stride_bytes` behind each other.
  void exchange(int messages, uint64_t stride_bytes) {
    if (comm_.rank() > 1) return;
    if (has_answers()) {
      ping_pong();
    } else {
      flow(messages, stride_bytes);
    }
  }

  void ping_pong() {
    for (bool is_ping : {true, false}) {
      data_.collective = is_ping == (comm_.rank() == 0) ? TUTTI_SEND : TUTTI_RECV;
      comm_.run(data_);
    }
  }

  void flow(int messages, uint64_t stride_bytes) {
    bool is_sender = comm_.rank() == 0;
    data_.collective = is_sender ? TUTTI_SEND : TUTTI_RECV;
    answer_.collective = is_sender ? TUTTI_RECV : TUTTI_SEND;
    requests_.all.clear();
    tutti_call_t next = data_;
    for (int i = 0; i < messages; ++i) {
      requests_.all.push_back(comm_.start(next));
      next.send_buffer = static_cast<const std::byte*>(next.send_buffer) + stride_bytes;
      next.recv_buffer = static_cast<std::byte*>(next.recv_buffer) + stride_bytes;
    }
    comm_.wait_all(requests_.all);
    comm_.run(answer_);
  }

  // One fresh exchange in which every message has other data and a place of its own: of a window as many at once as the
  // buffers hold. Returns how many elements were wrong.
  uint64_t run_checked(const Pattern& pattern, const PairRow& row) {
    int all = has_answers() ? 1 : run_.options.window, at_once = all;
    if (row.size_bytes > 0) {
      uint64_t places = common().max_bytes * kLargestPairMessages / row.size_bytes;
      at_once = static_cast<int>(std::min(static_cast<uint64_t>(all), places));
    }
    uint64_t wrong = 0, outside = 0;
    for (int done = 0; done < all; done += at_once) {
      int messages = std::min(at_once, all - done);
      uint64_t count = row.count * static_cast<uint64_t>(messages);
      ++seed_;
      guard(pattern, count);
      exchange(messages, row.size_bytes);
      wrong += wrong_elements(pattern, count);
      outside += send_.overwritten(used_bytes(pattern, count, sends()));
      outside += recv_.overwritten(used_bytes(pattern, count, receives()));
    }
    run_.out_of_bounds += over_all_ranks(outside);
    uint64_t all_wrong = over_all_ranks(wrong);
    run_.out_of_bounds += all_wrong;
    return all_wrong;
  }

  static uint64_t used_bytes(const Pattern& pattern, uint64_t count, bool is_used) {
    return is_used ? count * static_cast<uint64_t>(pattern.type().size_bytes) : 0;
  }

  void guard(const Pattern& pattern, uint64_t count) {
    send_.guard(used_bytes(pattern, count, sends()));
    recv_.guard(used_bytes(pattern, count, receives()));
    if (sends()) pattern.fill(send_.data(), count, comm_.rank(), seed_);
    if (receives()) std::memset(recv_.data(), 0xEE, used_bytes(pattern, count, true));
  }

  // What was sent was only read.
  uint64_t wrong_elements(const Pattern& pattern, uint64_t count) const {
    uint64_t wrong = 0;
    if (sends()) wrong += pattern.wrong_inputs(send_.data(), count, comm_.rank(), seed_);
    if (receives()) wrong += pattern.wrong_inputs(recv_.data(), count, partner(), seed_);
    return wrong;
  }

  // A broken all-reduce could also break the sum: what this rank saw itself counts in any case.
  uint64_t over_all_ranks(uint64_t found) {
    return std::max(found, static_cast<uint64_t>(comm_.agree(static_cast<int64_t>(found), TUTTI_SUM)));
  }

  void print(const std::string& text) const {
    if (comm_.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  PairRun run_;
  Communicator comm_;
  std::unique_ptr<Device> device_ = make_host();
  Buffer send_;
  Buffer recv_;
  Requests requests_;
  tutti_call_t data_ = {};
  tutti_call_t answer_ = {};
  int32_t answer_value_ = 0;
  uint64_t seed_ = 0;
};

}  // namespace

bool run_pair_benchmark(const PairOptions& options) { return PairBenchmark(options).run(); }

}  // namespace tutti::bench
