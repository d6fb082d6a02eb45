// What the opaque handles of the C API point to.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/config.h"
#include "core/communicator.h"
#include "core/forks.h"
#include "base/guard.h"
#include "core/report.h"

struct tutti_config {
  tutti::Config options;
  std::string text;  // of the option that was asked for last
};

struct tutti_comm {
  std::unique_ptr<tutti::Communicator> communicator;
  std::vector<uint64_t> registrations;  // keys of the memory registry, or numbers of those of device memory
  uint64_t device_registrations = 0;
  static constexpr uint64_t kOfDevices = uint64_t{1} << 63;  // is set in the latter
  const uint64_t forks = tutti::forks();  // of this process when it was made

  // Whether this process is a child of the one that made it: its threads and connections are the parent's.
  bool is_parents() const { return forks != tutti::forks(); }

  tutti_comm() = default;
  tutti_comm(const tutti_comm&) = delete;
  // The requests that were not taken outlive it: they are complete then, and know it no more.
  ~tutti_comm();

  // A started request, until tutti_wait() or tutti_test() takes it. Any thread.
  void add(tutti_request& request);
  void remove(tutti_request& request);

  // Keeps the sentence for tutti_last_error(comm) and returns the code. Any thread.
  tutti_status_t keep(const tutti::Status& status) const noexcept {
    if (!status.ok()) {
      tutti::or_end_without_memory([&] {
        std::lock_guard lock(mutex_);
        last_error_ = status.message();
      });
    }
    return static_cast<tutti_status_t>(status.code());
  }
  // The first error if the communicator has failed, else the last one. Any thread.
  std::string last_error() const {
    if (tutti::Status failed = communicator->status(); !failed.ok()) return std::string(failed.message());
    std::lock_guard lock(mutex_);
    return last_error_;
  }

 private:
  mutable std::mutex mutex_;  // guards what follows
  mutable std::string last_error_;
  tutti_request* newest_ = nullptr;  // of the requests that were not taken yet
};

struct tutti_prepared {
  tutti_comm* comm = nullptr;
  tutti_request request;   // of all its starts
  bool started = false;    // and not taken
};

namespace tutti {

// Guarded as null_argument() is.
inline Status refuse_after_fork(std::string_view function) noexcept {
  return guarded([&] {
    return error(Code::kInvalidUsage,
                 "{}: this process is a child of the one that made the communicator, which cannot be used here; make "
                 "one in the child, or start another program",
                 function);
  });
}

// What every entry point with a communicator does around its `body`, which gives a Status.
template <typename Body>
tutti_status_t with_communicator(tutti_comm_t* comm, std::string_view function, Body&& body) {
  if (comm == nullptr) return report(null_argument(function, "comm"));
  if (comm->is_parents()) return report(refuse_after_fork(function));
  return comm->keep(guarded(body));
}

}  // namespace tutti
