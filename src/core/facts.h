// Facts: what a rank tells all others when a communicator is made, and how the answers are compared.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "plan/plan.h"
#include "topology/topology.h"
#include "transports/transport.h"

namespace tutti {

// How to reach this rank over one transport.
struct TransportFacts {
  std::string name;
  Blob address;
  int lanes = 1;  // Transport::lanes()
  friend bool operator==(const TransportFacts&, const TransportFacts&) = default;
};

struct Facts {
  RankFacts rank;
  std::vector<TransportFacts> transports;
  std::string gpu;  // the one that this rank uses, by its UUID; "": none
  // Options that must be equal on all ranks: "slots=4 slot_bytes=262144 ...".
  std::vector<std::pair<std::string, std::string>> agreed;
};

// The options that must agree, with their values here; of a plan file its Plan, so that copies of one file are alike.
// `plan`: the one that option "plan_file" names, none when it is empty.
std::vector<std::pair<std::string, std::string>> options_to_agree(const Config& config,
                                                                  const std::optional<Plan>& plan);

std::vector<std::byte> encode(const Facts& facts);

// Everyone's facts in rank order. Errors: malformed bytes of a rank; ranks whose options differ (names two ranks, the
// option and both values).
Result<std::vector<Facts>> decode_all(std::span<const std::vector<std::byte>> bytes);

}  // namespace tutti
