// One exchange of messages: with MPI first, then with tutti, with collectives in between, and what is different.
#pragma once

#include <tutti/tutti.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exchange.h"
#include "local_call.h"
#include "random.h"
#include "report.h"
#include "transfer.h"

namespace differential {

class ExchangeRun {
 public:
  // As CaseRun.
  ExchangeRun(uint64_t seed, uint64_t number, const Jobs& jobs);
  int run();
  size_t calls() const { return collectives_.size() * static_cast<size_t>(exchange_.times); }
  // How many run() sends, on all ranks.
  size_t messages() const { return exchange_.messages.size() * static_cast<size_t>(exchange_.times); }
  std::string line(const std::string& what) const { return report_.line(what); }

 private:
  // How this rank makes its calls, and waits for those that it has started. Ranks need not do alike.
  enum class Way { kStarted, kGroup, kBlockingSends, kBlockingReceives, kSendReceives };
  enum class Wait { kEach, kAll, kAny, kTest };

  void set_up();
  void tear_down();
  void run_once();
  Way drawn_way();
  // Steps in the order in which this rank makes them.
  std::vector<size_t> drawn_order();
  void compare();

  // In exchange_run_ways.cpp: makes all steps and finishes each when it is complete.
  void make();
  void make_send_receives();
  void make_one(size_t step);
  bool is_started(size_t step) const;
  void wait();
  void wait_for_any();
  void test_until_done();
  void delay();
  void finish(size_t step);

  // A step is a transfer, the receives first, or one of the collectives, which follow.
  bool is_transfer(size_t step) const { return step < transfers_.size(); }
  LocalCall& collective(size_t step) { return *collectives_[step - transfers_.size()]; }
  const Job& job_of(size_t step) const;
  tutti_comm_t* comm_of(size_t step) const { return job_of(step).comm; }
  void require_success(tutti_status_t status, size_t step);
  void report(size_t step, const std::string& difference);
  std::string described(size_t step) const;
  static const char* name_of(Way way);
  static const char* name_of(Wait wait);

  const Jobs& jobs_;
  Report report_;
  Exchange exchange_;
  Random own_;
  bool prepares_ = false;  // this rank: what it starts is then a prepared call
  int time_ = 0;
  Way way_ = Way::kStarted;  // of this time
  Wait wait_ = Wait::kEach;
  std::vector<Transfer> transfers_;
  size_t receives_ = 0;  // how many of them are
  std::vector<std::unique_ptr<LocalCall>> collectives_;
  std::vector<tutti_request_t*> requests_;  // by step
};

}  // namespace differential
