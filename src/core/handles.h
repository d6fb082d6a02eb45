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

  // Keeps the sentence for tutti_last_error(comm) and returns the code.
  tutti_status_t keep(const tutti::Status& status) const {
    if (!status.ok()) last_error = status.message();
    return static_cast<tutti_status_t>(status.code());
  }
};
