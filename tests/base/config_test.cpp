#include "base/config.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

using namespace tutti;
using Catch::Matchers::Contains;

namespace {

struct Range {
  std::string name;
  int64_t least;
  int64_t most;
  std::string least_word = "";
};
// Stated here a second time on purpose: the table in config.cpp must not change by accident.
const std::vector<Range> kRanges = {
    {"rank", -1, (1 << 20) - 1, "none"},
    {"size", -1, 1 << 20, "none"},
    {"id_fd", -1, 1 << 20, "none"},
    {"host_fd", -1, 1 << 20, "none"},
    {"channels", 0, 64, "automatic"},
    {"slice_bytes", 0, 1 << 28, "automatic"},
    {"slot_bytes", 0, 1 << 28, "automatic"},
    {"slots", 2, 64},
    {"workers", 0, 64, "automatic"},
    {"deterministic", 0, 1},
    {"nccl_host_memory", 0, 1},
    {"spin_us", -1, 1'000'000, "automatic"},
    {"yield_us", -1, 1'000'000, "automatic"},
    {"bootstrap_timeout_ms", 1, 2'592'000'000},
    {"timeout_ms", 1, 2'592'000'000},
    {"ib_gid_index", -1, 255, "automatic"},
    {"ib_mtu", 0, 4096, "automatic"},
    {"ib_service_level", 0, 15},
    {"ib_traffic_class", 0, 255},
    {"ib_pkey_index", 0, 65535},
    {"ib_timeout", 1, 31},
    {"ib_retries", 0, 7},
    {"ib_regions", 2, 1'000'000},
    {"ib_region_bytes", 0, INT64_MAX, "automatic"},
    {"ib_dmabuf", 0, 2},
};
const std::vector<std::string> kFreeTexts = {"address",   "secret_file", "interface",   "fabric",
                                             "algorithm", "plan_file",   "calibration", "tuning",
                                             "cuda_module", "ib_device",   "thread_cpus"};

std::string error_of(const Status& status) {
  REQUIRE_FALSE(status.ok());
  CHECK(status.code() == Code::kInvalidArgument);
  return std::string(status.message());
}

}  // namespace

TEST_CASE("every number is accepted on its bounds and refused beyond them") {
  for (const auto& range : kRanges) {
    INFO(range.name);
    Config config;
    for (int64_t inside : {range.least, range.most}) {
      REQUIRE(config.set(range.name, std::to_string(inside)).ok());
      CHECK(value_of(config, range.name) ==
            (inside == range.least && !range.least_word.empty() ? range.least_word : std::to_string(inside)));
    }
    const Config before = config;
    for (const auto& outside : {std::to_string(range.least - 1), std::to_string(uint64_t(range.most) + 1)}) {
      auto sentence = error_of(config.set(range.name, outside));
      CHECK_THAT(sentence, Contains(variable_name(range.name)) && Contains(std::to_string(range.least)) &&
                               Contains(std::to_string(range.most)) && Contains("'" + outside + "'"));
    }
    CHECK(config == before);
  }
}

TEST_CASE("a number that stands for none or automatic is shown and taken as this word, and no other number is") {
  for (const auto& range : kRanges) {
    INFO(range.name);
    Config config;
    REQUIRE(config.set(range.name, std::to_string(range.most)).ok());
    for (const char* word : {"none", "automatic"}) {
      CHECK(config.set(range.name, word).ok() == (range.least_word == word));
    }
    CHECK((value_of(config, range.name) == range.least_word) == !range.least_word.empty());
    CHECK((accepted_values(range.name).find(range.least_word + " (") == 0) == !range.least_word.empty());
  }
}

TEST_CASE("what is no whole number is refused") {
  for (const char* text : {"", " 5", "5 ", "5.0", "0x10", "five", "1e3", "5KB", "5T", "K", "-", "+5",
                           "99999999999999999999", "9223372036854775807G", "-1K"}) {
    INFO("'" << text << "'");
    Config config;
    CHECK_FALSE(config.set("slot_bytes", text).ok());
    CHECK(config == Config());
  }
}

TEST_CASE("sizes take binary suffixes in either case") {
  Config config;
  for (auto [text, value] :
       {std::pair{"64K", 65536}, {"64k", 65536}, {"2M", 2 << 20}, {"2m", 2 << 20}, {"8192", 8192}}) {
    REQUIRE(config.set("slot_bytes", text).ok());
    CHECK(config.slot_bytes == value);
  }
  CHECK_FALSE(config.set("slot_bytes", "1G").ok());  // parses, but is beyond the bound
}

TEST_CASE("a staging slot is of the usual size or of one that holds something") {
  Config config;
  for (const char* text : {"1", "4095"}) CHECK_FALSE(config.set("slot_bytes", text).ok());
  CHECK(accepted_values("slot_bytes") == "automatic (0) or a whole number from 4096 to 268435456");
  CHECK(config.staging_slot_bytes() == 262144);
  REQUIRE(config.set("transport", "tcp").ok());
  CHECK(config.staging_slot_bytes() == 524288);
  REQUIRE(config.set("slot_bytes", "4097").ok());
  CHECK(config.staging_slot_bytes() == 4160);
}

TEST_CASE("a free text is taken as it is") {
  for (const auto& name : kFreeTexts) {
    Config config;
    REQUIRE(config.set(name, "some/text with = and spaces").ok());
    CHECK(value_of(config, name) == "some/text with = and spaces");
    REQUIRE(config.set(name, "").ok());
    CHECK(config == Config());
  }
}

TEST_CASE("libraries are free texts with names of their own by default") {
  Config config;
  CHECK(value_of(config, "cuda_driver") == "libcuda.so.1");
  CHECK(value_of(config, "ib_library") == "libibverbs.so.1");
  REQUIRE(config.set("cuda_driver", "/opt/cuda/libcuda.so").ok());
  REQUIRE(config.set("ib_library", "/opt/rdma/libibverbs.so").ok());
  CHECK(config.cuda_driver == "/opt/cuda/libcuda.so");
  CHECK(config.ib_library == "/opt/rdma/libibverbs.so");
}

TEST_CASE("a choice takes its words only, and the empty text where that is the default") {
  Config config;
  for (const char* word : {"shm", "tcp", "verbs", "loopback", ""}) CHECK(config.set("transport", word).ok());
  for (const char* word : {"error", "info", "debug", "warn"}) CHECK(config.set("log", word).ok());
  CHECK(config == Config());
  CHECK_THAT(error_of(config.set("transport", "SHM")), Contains("shm, tcp, verbs or loopback") && Contains("'SHM'"));
  CHECK_THAT(error_of(config.set("log", "")), Contains("error, warn, info or debug"));
  CHECK(config == Config());
}

TEST_CASE("an unknown name is refused with the nearest one") {
  Config config;
  CHECK_THAT(error_of(config.set("time_out_ms", "1")),
             Contains("'time_out_ms'") && Contains("did you mean 'timeout_ms'"));
  CHECK_THAT(error_of(config.set("Rank", "1")), Contains("did you mean 'rank'"));
  CHECK_THAT(error_of(config.set("completely_different", "1")), Contains("`tutti options`"));
  CHECK_THAT(error_of(config.set("", "1")), Contains("`tutti options`"));
}

TEST_CASE("every option has one name, a meaning, and a value that it accepts itself") {
  std::set<std::string_view> names;
  for (const auto& option : options()) {
    INFO(option.name);
    CHECK(names.insert(option.name).second);
    CHECK_FALSE(option.meaning.empty());
    CHECK_FALSE(accepted_values(option.name).empty());
    Config config;
    CHECK(config.set(option.name, value_of(Config(), option.name)).ok());
    CHECK(config == Config());
  }
  CHECK(names.size() == kRanges.size() + kFreeTexts.size() + 4);  // transport, log, and two libraries
}

TEST_CASE("the nearest word is found by edit distance, and none when all are far") {
  const std::vector<std::string_view> words = {"ring", "tree", "direct_two_shot"};
  CHECK(nearest("ring", words) == "ring");
  CHECK(nearest("rnig", words) == "ring");
  CHECK(nearest("three", words) == "tree");
  CHECK(nearest("direct_twoshot", words) == "direct_two_shot");
  CHECK(nearest("hierarchical", words).empty());
  CHECK(nearest("x", {}).empty());
}
