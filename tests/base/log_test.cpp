#include "base/log.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/capture.h"

using namespace tutti;

namespace {

// Leaves the process's logger as it was.
struct DefaultLog {
  ~DefaultLog() {
    set_log_level("warn");
    set_log_rank(-1);
  }
};

std::string said_at(std::string_view level) {
  DefaultLog restore;
  StderrCapture capture;
  set_log_level(level);
  log_error("e{}", 1);
  log_warn("w{}", 2);
  log_info("i{}", 3);
  log_debug("d{}", 4);
  return capture.text();
}

}  // namespace

TEST_CASE("a level says itself and what is graver") {
  CHECK(said_at("error") == "[tutti] error: e1\n");
  CHECK(said_at("warn") == "[tutti] error: e1\n[tutti] warning: w2\n");
  CHECK(said_at("info") == "[tutti] error: e1\n[tutti] warning: w2\n[tutti] info: i3\n");
  CHECK(said_at("debug") == "[tutti] error: e1\n[tutti] warning: w2\n[tutti] info: i3\n[tutti] debug: d4\n");
}

TEST_CASE("lines carry the rank once it is known") {
  DefaultLog restore;
  StderrCapture capture;
  set_log_rank(3);
  log_warn("late");
  CHECK(capture.text() == "[tutti 3] warning: late\n");
}

TEST_CASE("braces in a text are not taken for a format") {
  StderrCapture capture;
  log_line(LogLevel::kError, "path {} of {user}");
  CHECK(capture.text() == "[tutti] error: path {} of {user}\n");
}

TEST_CASE("the same text is said once, also by several threads") {
  StderrCapture capture;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([] { log_warn_once("only once {}", 1); });
  }
  log_warn_once("only once {}", 2);
  auto text = capture.text();
  CHECK(text == "[tutti] warning: only once 1\n[tutti] warning: only once 2\n");
}
