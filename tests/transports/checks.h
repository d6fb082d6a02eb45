// Assertions about statuses. Main thread only, as everything of Catch2.
#pragma once

#include <catch2/catch.hpp>

#include <vector>

#include "base/status.h"

namespace tutti::test {

inline void check_ok(const Status& status) {
  INFO(status.message());
  CHECK(status.ok());
}

inline void check_all_ok(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) check_ok(status);
}

inline bool mentions(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string_view::npos;
}

}  // namespace tutti::test
