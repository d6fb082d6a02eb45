// The hosts of tests/topology/nccl, which were written for these tests.
#pragma once

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "topology/nccl_xml.h"

namespace tutti::samples {

inline constexpr const char* kNcclHosts[] = {"eight-gpus-nvswitch", "eight-gpus-pcie", "four-gpus-nvlink"};

inline std::string nccl_text(const std::string& file) {
  std::ifstream stream(std::string(TUTTI_NCCL_HOSTS) + "/" + file);
  INFO(file);
  REQUIRE(stream.good());
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline Inventory nccl_host(const std::string& name) {
  auto host = parse_nccl_xml(nccl_text(name + ".xml"));
  INFO(host.status().message());
  REQUIRE(host.ok());
  host->hostname = name;
  return *host;
}

}  // namespace tutti::samples
