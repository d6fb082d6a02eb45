#include <catch2/catch.hpp>
#include <string>

#include "tests/topology/samples.h"
#include "topology/inventory.h"

using namespace tutti;

namespace {

std::string refusal(const std::string& text) {
  auto parsed = parse_inventory(text);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

// A document of one field, on line 4.
std::string document(const std::string& field) {
  return "{\n  \"format\": \"tutti.inventory\",\n  \"version\": 1,\n  " + field + "\n}\n";
}

}  // namespace

TEST_CASE("an inventory read back from its JSON is the same value and the same text") {
  Inventory inventory = samples::host("alpha");
  std::string text = to_json(inventory);
  auto parsed = parse_inventory(text);
  REQUIRE(parsed.ok());
  CHECK(*parsed == inventory);
  CHECK(to_json(*parsed) == text);
}

TEST_CASE("every field of an inventory survives the JSON") {
  // Written out in full: a field that the schema forgets would compare equal to its default.
  std::string text = to_json(samples::host("alpha"));
  for (const char* piece : {"\"boot-of-alpha\"", "\"net_namespace\": 11", "\"user_namespace\": 14",
                            "\"allowed_cpus\": \"0-3\"", "\"cpus_sharing\": 8", "\"pci_address\": \"0000:01:00.0\"",
                            "\"127.0.0.1\"", "\"GPU-1\"", "\"memlock_bytes\": \"unlimited\"", "\"origin\": \"probe\"",
                            "\"tcp_bytes_per_s\"", "\"speed_mbps\": 100000", "\"mtu\": 9000", "\"ptrace_scope\": 0"}) {
    CAPTURE(piece);
    CHECK(text.find(piece) != std::string::npos);
  }
}

TEST_CASE("text that is no UTF-8 still gives JSON that can be read") {
  Inventory inventory = samples::host("al\xff pha");
  CHECK(parse_inventory(to_json(inventory)).ok());
}

TEST_CASE("fields that are left out keep their defaults") {
  auto parsed = parse_inventory(document("\"hostname\": \"x\""));
  REQUIRE(parsed.ok());
  Inventory expected;
  expected.hostname = "x";
  CHECK(*parsed == expected);
}

TEST_CASE("a figure without an origin is the user's") {
  auto parsed = parse_inventory(document("\"costs\": {\"wake_ns\": {\"value\": 5e3}}"));
  REQUIRE(parsed.ok());
  CHECK(parsed->costs.wake_ns == Figure{5000, Origin::kUser});
}

TEST_CASE("a syntax error has line and reason") {
  CHECK_THAT(refusal("{\n\"format\": \"tutti.inventory\",\n]"), Catch::StartsWith("line 3: syntax error"));
  CHECK_THAT(refusal(""), Catch::StartsWith("line 1: "));
  CHECK_THAT(refusal("{\n\n\"a\": 1e999}"), Catch::StartsWith("line "));
}

TEST_CASE("a wrong type or range has line, field and reason") {
  CHECK(refusal(document("\"hostname\": 7")) == "line 4: hostname must be a text, but is 7");
  CHECK(refusal(document("\"cpu\": {\"cores\": \"many\"}")) ==
        "line 4: cpu.cores must be a whole number from 0 to 65536, but is \"many\"");
  CHECK(refusal(document("\"cpu\": {\"cores\": -1}")) ==
        "line 4: cpu.cores must be a whole number from 0 to 65536, but is -1");
  CHECK(refusal(document("\"cpu\": {\"cores\": 1.5}")) ==
        "line 4: cpu.cores must be a whole number from 0 to 65536, but is 1.5");
  CHECK(refusal(document("\"cpu\": []")) == "line 4: cpu must be an object, but is a list");
  CHECK(refusal(document("\"nics\": [{},\n{\"up\": 1}]")) == "line 5: nics[1].up must be true or false, but is 1");
  CHECK(refusal(document("\"nics\": {}")) == "line 4: nics must be a list, but is an object");
  CHECK_THAT(refusal(document("\"nics\": [{\"numa_node\": -2}]")),
             Catch::StartsWith("line 4: nics[0].numa_node must be a whole"));
  CHECK_THAT(refusal(document("\"cpu\": {\"allowed_cpus\": \"3-1\"}")),
             Catch::StartsWith("line 4: cpu.allowed_cpus must be a list"));
  CHECK_THAT(refusal(document("\"costs\": {\"wake_ns\": {\"value\": 0}}")),
             Catch::StartsWith("line 4: costs.wake_ns.value"));
  CHECK_THAT(refusal(document("\"costs\": {\"wake_ns\": {\"value\": 1, \"origin\": \"me\"}}")),
             Catch::StartsWith("line 4: costs.wake_ns.origin must be one of"));
  CHECK_THAT(refusal(document("\"limits\": {\"memlock_bytes\": \"none\"}")),
             Catch::StartsWith("line 4: limits.memlock_bytes must"));
  CHECK(refusal(document("\"caches\": [{}]")) ==
        "line 4: caches[0].level must be there: a cache is known by its level, from 1 to 9");
}

TEST_CASE("a misspelt field is refused with the nearest name") {
  CHECK(refusal(document("\"cpu\": {\"core\": 4}")) ==
        "line 4: cpu.core is no field of this format (did you mean \"cores\"?)");
}

TEST_CASE("a field that is there twice is refused") {
  CHECK(refusal(document("\"kernel\": \"6\",\n\"kernel\": \"7\"")) == "line 5: kernel is there twice");
}

TEST_CASE("another format or version is refused") {
  CHECK_THAT(refusal("[]"), Catch::StartsWith("line 1: the document must be an object"));
  CHECK(refusal("{}") == "line 1: the document must have \"format\": \"tutti.inventory\"");
  CHECK(refusal("{\n\"format\": \"tutti.topology\"}") == "line 2: format must have \"format\": \"tutti.inventory\"");
  CHECK(refusal("{\"format\": \"tutti.inventory\",\n\"version\": 2}") == "line 2: version must have \"version\": 1");
}
