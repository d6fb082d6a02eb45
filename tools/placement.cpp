// Options that `tutti topo` and `tutti plan` have in common.
#include "tool.h"

namespace tutti::tool {

void add_placement(CLI::App& command, int& hosts, std::string& device) {
  command.add_option("--hosts", hosts, "So many hosts like this one or that of FILE, each with its part of the ranks")
      ->check(CLI::Range(1, 65536))
      ->option_text("N=1");
  command
      .add_option("--device", device,
                  "Where ranks sit that no file describes: cuda (one on each GPU, as is usual for NCCL's files) or cpu")
      ->check(CLI::IsMember({"cuda", "cpu"}))
      ->option_text("DEVICE");
}

tutti_rank_place_t place_of(const std::string& device) {
  if (device.empty()) return TUTTI_RANKS_USUAL;
  return device == "cuda" ? TUTTI_RANKS_ON_GPUS : TUTTI_RANKS_ON_HOST;
}

}  // namespace tutti::tool
