// GpuTold: what is told of calls that a rank's GPU is to do with those of others: to ranks that ask for this one's
// last call, and to the program's profiler. Nobody on the host sees such a call end, so whoever comes by tells of it:
// the rank's next call, or a thread that looks as long as there is something to tell. Never uses the driver.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/deadline.h"
#include "base/status.h"
#include "core/call_record.h"
#include "core/request.h"

namespace tutti {

class Communicator;

class GpuTold {
 public:
  explicit GpuTold(Communicator& communicator) : communicator_(communicator) {}
  GpuTold(const GpuTold&) = delete;
  GpuTold& operator=(const GpuTold&) = delete;

  // The rank is about to make call `number`, which it has offered to do on its GPU. One thread at a time.
  void made(const tutti_request& request, uint64_t number) { records_.publish(record_of(request, number)); }
  // And there is a profiler, which is told. True: it awaits no end of an earlier call. One thread at a time.
  bool begin(const tutti_request& request, uint64_t number, const char* algorithm);

  // Of the calls that were told:
  struct Progress {
    uint32_t done = 0;        // the gates of those up to here are open
    Code code = Code::kOk;    // what they have ended with
    bool has_failed = false;  // the communicator: so all others end with that, too
  };
  // Any thread: tells of those that have ended.
  void tell_ended(const Progress& progress);
  // Tells that all others have ended so.
  void end_all(Code code);
  bool has_more() const { return has_more_.load(std::memory_order_acquire); }
  // How long who tells of ends may sleep; less than 0: as long as there is no other call.
  std::chrono::nanoseconds look_within();

  // Any thread; the rank's last calls of these.
  CallRecord last() const { return records_.read(); }
  std::optional<CallRecord> of_number(uint64_t number) const { return records_.of_number(number); }

 private:
  static CallRecord record_of(const tutti_request& request, uint64_t number);
  // With mutex_:
  void end_first(Code code);

  struct Told {
    uint32_t number = 0;
    void* begun = nullptr;
  };

  Communicator& communicator_;
  PublishedRecords records_;
  std::atomic<bool> has_more_{false};  // told_ is not empty
  std::mutex mutex_;                   // guards what follows
  std::deque<Told> told_;              // by number
  Clock::time_point last_event_;       // when a call was told, or its end
};

}  // namespace tutti
