// A communicator whose failures are exceptions: what the benchmark's ranks do together besides what they measure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective.h"
#include "device.h"
#include "options.h"
#include "tutti/tutti.h"
#include "tutti/tutti_topology.h"

namespace tutti::bench {

struct RankInfo {
  int64_t pid = 0;
  std::string host;
  std::string device;  // "cpu", "cuda:0 NVIDIA H200"
  std::string gpu;     // which, "" for none
};

// Of a rank that is a thread of this process, among others.
struct Seat {
  tutti_unique_id_t id{};
  int rank = 0;
  int ranks = 1;
};

// A job of ranks that are threads of this process. Throws std::runtime_error.
tutti_unique_id_t make_job();

// The option of that name.
std::string cuda_driver();

class Communicator {
 public:
  // Joins the launcher's ranks, or those of the seat's job. What `options` leaves open is the environment's.
  explicit Communicator(const Options& options, const Seat* seat = nullptr);
  // The ranks of `other` once more, with other options. All of them call it.
  Communicator(Communicator& other, const Options& options);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  // Without finish() before, aborts: the other ranks are not to wait for one that failed.
  ~Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }

  void run(const tutti_call_t& call) { check(bench::run(call, comm_)); }
  // Without waiting; wait_all() takes the requests.
  tutti_request_t* start(const tutti_call_t& call);
  void wait_all(std::span<tutti_request_t*> requests) { check(tutti_wait_all(requests.size(), requests.data())); }
  // What is run in between starts at the end, together.
  void begin_group() { check(tutti_group_begin()); }
  void end_group() { check(tutti_group_end()); }
  // Gives the handle.
  void* register_memory(void* data, size_t size_bytes) {
    void* handle = nullptr;
    check(tutti_comm_register(comm_, data, size_bytes, &handle));
    return handle;
  }
  void deregister(void* handle) noexcept { tutti_comm_deregister(comm_, handle); }
  tutti_plan_info_t plan_info(const tutti_call_t& call);
  // For later communicators like this one; "" is where they find it by themselves. Gives the file's path.
  std::string store_tuning(std::span<const tutti_tuned_t> lines, const std::string& path);
  // What carries the messages between ranks 0 and 1: "shm", "tcp". All ranks call it, and there are two at least.
  std::string transport_of_first_pair();

  // The same on all ranks afterwards.
  int64_t agree(int64_t value, tutti_op_t op);
  double agree(double value, tutti_op_t op);
  // Returns when all ranks have called it; not by tutti_barrier(), which may be what is measured.
  void meet() { agree(int64_t{0}, TUTTI_SUM); }
  // Who the ranks are, by rank; this one says where its buffers are.
  std::vector<RankInfo> introduce(const Device& device);
  // How many ranks of this host come before this one.
  int local_rank();

  void finish();

 private:
  void all_reduce(const void* send, void* recv, uint64_t count, tutti_datatype_t datatype, tutti_op_t op) {
    check(tutti_all_reduce(send, recv, count, datatype, op, comm_, nullptr));
  }
  void check(tutti_status_t status) const {
    if (status != TUTTI_SUCCESS) [[unlikely]] fail(status);
  }
  [[noreturn]] void fail(tutti_status_t status) const;

  tutti_comm_t* comm_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  bool finished_ = false;
};

}  // namespace tutti::bench
