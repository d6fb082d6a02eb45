#include "core/facts.h"

#include <map>
#include <nlohmann/json.hpp>

namespace tutti {
namespace {

using Json = nlohmann::json;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Throws what nlohmann throws; the caller turns it into a Status.
Facts facts_from(const Json& json, std::string* inventory_text) {
  Facts facts;
  *inventory_text = json.at("inventory").get<std::string>();
  facts.rank.pid = json.at("pid").get<int64_t>();
  facts.gpu = json.at("gpu").get<std::string>();
  for (const Json& entry : json.at("transports")) {
    auto address = entry.at("address").get_binary();
    TransportFacts transport{entry.at("name").get<std::string>(), Blob(address.size())};
    std::transform(address.begin(), address.end(), transport.address.begin(), [](uint8_t b) { return std::byte{b}; });
    transport.lanes = entry.at("lanes").get<int>();
    if (transport.name == "verbs") facts.rank.rdma_lanes = std::clamp(transport.lanes, 1, kMostRdmaLanes);
    facts.transports.push_back(std::move(transport));
  }
  for (const Json& entry : json.at("agreed")) {
    facts.agreed.emplace_back(entry.at(0).get<std::string>(), entry.at(1).get<std::string>());
  }
  return facts;
}

Status check_agreement(const std::vector<Facts>& all) {
  const auto& first = all.front().agreed;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const auto& other = all[rank].agreed;
    if (other == first) continue;
    for (size_t i = 0; i < first.size() && i < other.size(); ++i) {
      if (first[i] == other[i]) continue;
      return error(Code::kInvalidUsage,
                   "ranks differ: {} is '{}' on rank 0 and '{}' on rank {}; {} on all ranks",
                   variable_name(first[i].first), first[i].second, other[i].second, rank,
                   first[i].first == "plan_file" ? "name files with the same plan" : "set it alike");
    }
    return error(Code::kInvalidUsage, "ranks differ: rank {} knows other options than rank 0; run one version of tutti",
                 rank);
  }
  return {};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> options_to_agree(const Config& config,
                                                                  const std::optional<Plan>& plan) {
  std::vector<std::pair<std::string, std::string>> agreed;
  for (std::string_view name :
       {"transport", "algorithm", "channels", "slice_bytes", "slot_bytes", "slots", "workers", "deterministic"}) {
    agreed.emplace_back(name, value_of(config, name));
  }
  agreed.emplace_back("plan_file", plan ? fmt::format("the plan {:016x}", plan->digest()) : "");
  return agreed;
}

std::vector<std::byte> encode(const Facts& facts) {
  Json json = {{"inventory", to_json(facts.rank.inventory)}, {"pid", facts.rank.pid}, {"gpu", facts.gpu},
               {"agreed", facts.agreed}};
  json["transports"] = Json::array();
  for (const TransportFacts& transport : facts.transports) {
    auto* bytes = reinterpret_cast<const uint8_t*>(transport.address.data());
    json["transports"].push_back({{"name", transport.name},
                                  {"address", Json::binary({bytes, bytes + transport.address.size()})},
                                  {"lanes", transport.lanes}});
  }
  auto cbor = Json::to_cbor(json);
  std::vector<std::byte> result(cbor.size());
  std::transform(cbor.begin(), cbor.end(), result.begin(), [](uint8_t b) { return std::byte{b}; });
  return result;
}

Result<std::vector<Facts>> decode_all(std::span<const std::vector<std::byte>> bytes) {
  std::vector<Facts> all;
  std::map<std::string, Inventory, std::less<>> parsed;  // ranks of one host mostly send the same text
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    std::string inventory;
    try {
      all.push_back(facts_from(Json::from_cbor(as_text(bytes[rank])), &inventory));
    } catch (const Json::exception& failure) {
      return error(Code::kRemote, "the facts of rank {} are malformed ({}); do all ranks run one version of tutti?",
                   rank, failure.what());
    }
    auto found = parsed.find(inventory);
    if (found == parsed.end()) found = parsed.emplace(inventory, TUTTI_TRY(parse_inventory(inventory))).first;
    all.back().rank.inventory = found->second;
  }
  TUTTI_TRY(check_agreement(all));
  return all;
}

}  // namespace tutti
