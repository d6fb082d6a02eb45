// A calibration file: without costs that were measured, and communicators measure none, no pulls are tried. For tests.
#pragma once

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "discovery/calibration_json.h"
#include "discovery/discover.h"
#include "discovery/text_file.h"

namespace tutti::test {

// By these costs slots are quicker at all sizes where a slot's two copies overlap. Where they come one after the other
// they are no quicker than pulls at the usual rate, so that collectives try these; at a lower one they are.
struct MeasuredCosts {
  const std::string file = fmt::format("{}/tutti-costs-{}.json", std::filesystem::temp_directory_path().string(),
                                       ::getpid());

  explicit MeasuredCosts(uint64_t pull_bytes_per_s = 6'000'000'000) {
    Costs costs;
    costs.slot_store_bytes_per_s = costs.slot_load_bytes_per_s = {8'000'000'000, Origin::kProbe};
    costs.pull_bytes_per_s = {pull_bytes_per_s, Origin::kProbe};
    auto host = discover_live();
    REQUIRE(host.ok());
    REQUIRE(write_text_file(file, to_json(Calibration{calibrated_machine(*host), costs})).ok());
  }
  ~MeasuredCosts() { std::filesystem::remove(file); }
  MeasuredCosts(const MeasuredCosts&) = delete;
  MeasuredCosts& operator=(const MeasuredCosts&) = delete;
};

}  // namespace tutti::test
