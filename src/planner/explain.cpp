#include "planner/explain.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/text.h"
#include "planner/gpu_tuning.h"
#include "planner/wire_load.h"
#include "topology/levels.h"
#include "topology/network.h"
#include "topology/tree.h"
#include "topology/units.h"

namespace tutti {
namespace {

// A communicator of one rank copies, and asks for no Plan.
constexpr std::string_view kAlone = "one rank has nobody to exchange with; --ranks N plans for more";

uint64_t bytes_per_s(uint64_t bytes, uint64_t ns) {
  unsigned __int128 rate = static_cast<unsigned __int128>(bytes) * 1'000'000'000 / std::max<uint64_t>(1, ns);
  return static_cast<uint64_t>(std::min<unsigned __int128>(rate, UINT64_MAX));
}

// Of several fabrics at least one of which does not tell what leads out of it.
bool assumes_ways_out_of_fabrics(const Topology& topology) {
  auto fabric = [](const TopologyHost& host) -> const std::string& { return host.inventory.fabric; };
  auto is_another = [&](const TopologyHost& host) { return fabric(host) != fabric(topology.hosts.front()); };
  auto is_assumed = [&](const TopologyHost& host) {
    return fabric_bytes_per_s(topology, fabric(host)).origin == Origin::kDefault;
  };
  return std::any_of(topology.hosts.begin(), topology.hosts.end(), is_another) &&
         std::any_of(topology.hosts.begin(), topology.hosts.end(), is_assumed);
}

// What predictions for ranks on GPUs count on; none for others.
std::vector<std::string> assumptions_of(const Topology& topology, Collective collective) {
  std::vector<std::string> assumptions;
  if (!topology.has_gpu_ranks()) return assumptions;
  if (are_calls_of_gpus(topology, collective)) {
    assumptions.emplace_back(
        "kernels reach the memory of all these GPUs; if not, what is on them goes through the host");
    return assumptions;
  }
  if (assumes_ways_out_of_fabrics(topology)) {
    assumptions.emplace_back(
        "half of what the hosts of a fabric can send leaves it, where fabric_bytes_per_s is missing");
  }
  bool by_gpu = false, by_rdma = false;
  for (const LinkClass& each : link_classes(topology)) {
    by_rdma = by_rdma || each.link.kind == LinkKind::kRdma;
    by_gpu = by_gpu || (is_between_gpus(each.link.kind) && each.link.kind != LinkKind::kRdma);
  }
  if (by_gpu) {
    assumptions.emplace_back(
        "kernels reach the memory of all GPUs of a host; this version stages what is on devices through the host");
  }
  if (by_rdma) {
    assumptions.emplace_back("network devices reach the memory of GPUs; this version stages it through the host");
  }
  return assumptions;
}

// What is asked for, as far as the collective has it.
std::string request_text(const Request& request) {
  std::string text(name_of(request.collective));
  if (request.collective == TUTTI_BARRIER) return text;
  text += fmt::format(" of {} ({} {})", bytes_text(request.size_bytes()), request.count, name_of(request.datatype));
  if (reduces(request.collective)) text += fmt::format(", {}", name_of(request.op));
  if (has_root(request.collective)) text += fmt::format(", root {}", request.root);
  return text;
}

std::string predicted_text(const Request& request, uint64_t predicted_ns, uint64_t class_bytes) {
  std::string text = time_text(predicted_ns);
  if (request.collective == TUTTI_BARRIER) return text;
  text += fmt::format(", algbw {}", rate_text(bytes_per_s(class_bytes, predicted_ns)));
  if (class_bytes != request.size_bytes()) text += fmt::format(" for its size class, {}", bytes_text(class_bytes));
  return text;
}

std::string candidates_text(const Choice& choice, uint64_t class_bytes) {
  std::string text = fmt::format("\nCandidates, with the time predicted for {}:\n", bytes_text(class_bytes));
  for (const Candidate& candidate : choice.candidates) {
    text += fmt::format("  {:<20}{:>10}   {}\n", candidate.algorithm,
                        candidate.admitted ? time_text(candidate.predicted_ns) : "rejected", candidate.summary);
    text += fmt::format("  {:<20}{:>10}   {}{}\n", "", "", candidate.admitted ? "" : "cannot run: ", candidate.reason);
  }
  return text;
}

}  // namespace

std::string shape_text(const PlanShape& shape) {
  auto permitted = [](Permission permission, std::string_view yes, std::string_view no) {
    std::string_view unless = permission == Permission::kUnlessInPlace ? " unless in place" : "";
    return fmt::format("{}{}", permission == Permission::kNever ? no : yes, unless);
  };
  return fmt::format(
      "{}, {}, slices of at most {}; {}, {}{}{}{}", count_text(shape.channels, "channel"),
      count_text(shape.chunks, "chunk"), bytes_text(shape.slice_bytes),
      permitted(shape.by_reference, "buffers may be read in place", "buffers are copied when sent"),
      permitted(shape.deliver_directly, "results may be stored directly", "results are copied on arrival"),
      shape.by_chunk ? "; messages may stand for whole chunks" : "",
      shape.order.empty() ? "" : "; neighbours are near each other",
      shape.rendezvous ? "; receivers first say where" : "");
}

std::string steps_text(const Plan& plan) {
  std::string text;
  for (int rank = 0; rank < plan.shape().nranks; ++rank) {
    for (int channel = 0; channel < plan.shape().channels; ++channel) {
      for (const Section& section : plan.part(rank, channel).sections) {
        text += fmt::format("\nRank {}, channel {}:\n", rank, channel);
        for (size_t i = 0; i < section.steps.size(); ++i)
          text += fmt::format("{:>5}  {}\n", i, to_text(section.steps[i]));
      }
    }
  }
  return text;
}

std::string to_text(const Topology& topology, const Request& request, const Choice& choice,
                    const ExplainOptions& options) {
  const PlanShape& shape = choice.plan.shape();
  std::string text =
      fmt::format("{}, {} on {}\n", request_text(request), count_text(topology.ranks.size(), "rank"),
                  count_text(topology.hosts.size(), "host"));
  if (topology.nranks() == 1) return text + fmt::format("  choice     copy: {}\n", kAlone);
  text += fmt::format("  choice     {}: {}\n", shape.algorithm,
                      find_algorithm(request.collective, shape.algorithm)->summary);
  uint64_t class_bytes = size_class_bytes(request.size_bytes());
  text += fmt::format("  predicted  {}\n", predicted_text(request, choice.predicted_ns, class_bytes));
  text += fmt::format("  shape      {}\n", shape_text(shape));
  if (int lanes = std::min(shape.channels, topology.rdma_lanes()); lanes > 1) {
    text += fmt::format("  devices    {}, each for the channels of its turn\n", count_text(lanes, "RDMA port"));
  }
  if (!shape.groups.empty()) text += fmt::format("  groups     {}\n", levels_text(topology, shape.groups));
  text += fmt::format("  why        {}\n", choice.reason);
  if (topology.has_gpu_ranks()) {
    for (const LinkClass& each : link_classes(topology)) text += fmt::format("  link       {}\n", link_text(each));
  }
  for (const std::string& each : assumptions_of(topology, request.collective)) {
    text += fmt::format("  assumed    {}\n", each);
  }
  if (options.candidates) text += candidates_text(choice, class_bytes);
  if (options.steps) text += steps_text(choice.plan);
  return text;
}

std::string to_json(const Topology& topology, const Request& request, const Choice& choice,
                    const ExplainOptions& options) {
  using Json = nlohmann::ordered_json;
  bool alone = topology.nranks() == 1;
  Json candidates = Json::array();
  for (const Candidate& candidate : alone ? std::vector<Candidate>() : choice.candidates) {
    Json entry = {{"algorithm", candidate.algorithm}, {"admitted", candidate.admitted}};
    if (candidate.admitted) entry["predicted_ns"] = candidate.predicted_ns;
    entry["reason"] = candidate.reason;
    candidates.push_back(std::move(entry));
  }
  Json json = {{"format", "tutti.choice"},
               {"version", 1},
               {"request",
                {{"collective", name_of(request.collective)},
                 {"datatype", name_of(request.datatype)},
                 {"op", reduces(request.collective) ? Json(name_of(request.op)) : Json()},
                 {"root", has_root(request.collective) ? Json(request.root) : Json()},
                 {"count", request.count},
                 {"size_bytes", request.size_bytes()}}},
               {"size_class_bytes", size_class_bytes(request.size_bytes())},
               {"nranks", topology.nranks()},
               {"hosts", topology.hosts.size()},
               {"algorithm", alone ? "copy" : choice.plan.shape().algorithm},
               {"predicted_ns", alone ? 0 : choice.predicted_ns},
               {"reason", alone ? std::string(kAlone) : choice.reason},
               {"candidates", std::move(candidates)},
               {"plan", alone ? Json() : Json::parse(to_json(choice.plan, options.steps))}};
  auto assumptions = assumptions_of(topology, request.collective);
  if (!assumptions.empty()) json["assumptions"] = assumptions;
  return json.dump(2) + "\n";
}

}  // namespace tutti
