// What the opaque handles of the C API point to.
#pragma once

#include <memory>
#include <string>

#include "base/config.h"
#include "core/communicator.h"
#include "core/report.h"

struct tutti_config {
  tutti::Config options;
};

struct tutti_comm {
  std::unique_ptr<tutti::Communicator> communicator;
  mutable std::string last_error;
  tutti_request* newest = nullptr;  // of the requests that were not taken yet

  tutti_comm() = default;
  tutti_comm(const tutti_comm&) = delete;
  // The requests that were not taken outlive it: they are complete then, and know it no more.
  ~tutti_comm();

  // A started request, until tutti_wait() or tutti_test() takes it.
  void add(tutti_request& request);
  void remove(tutti_request& request);

  // Keeps the sentence for tutti_last_error(comm) and returns the code.
  tutti_status_t keep(const tutti::Status& status) const {
    if (!status.ok()) last_error = status.message();
    return static_cast<tutti_status_t>(status.code());
  }
};
