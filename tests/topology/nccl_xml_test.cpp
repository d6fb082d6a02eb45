#include "topology/nccl_xml.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/topology/nccl_samples.h"
#include "topology/topology.h"

using namespace tutti;
using samples::nccl_host;
using samples::nccl_text;

namespace {

std::string refusal(std::string_view xml) {
  auto host = parse_nccl_xml(xml);
  return host.ok() ? "" : std::string(host.status().message());
}

// A host of one GPU, with more within <pci> and <gpu>.
std::string host_with(const std::string& in_pci, const std::string& in_gpu = "") {
  return "<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:01:00.0\">\n<gpu dev=\"0\" sm=\"90\">\n" +
         in_gpu + "</gpu>\n" + in_pci + "</pci>\n</cpu>\n</system>\n";
}

std::string levels(size_t count) {
  std::string xml;
  for (size_t i = 0; i < count; ++i) xml += "<a>";
  for (size_t i = 0; i < count; ++i) xml += "</a>";
  return xml;
}

Topology on_gpus(const std::string& name) {
  Inventory host = nccl_host(name);
  return placed(host, {.nranks = static_cast<int>(host.gpus.size()), .on_gpus = true});
}

}  // namespace

TEST_CASE("hosts that NCCL describes are the inventories and trees that were checked by hand") {
  std::string name = GENERATE(from_range(std::begin(samples::kNcclHosts), std::end(samples::kNcclHosts)));
  CAPTURE(name);
  CHECK(to_json(nccl_host(name)) == nccl_text(name + ".inventory.json"));
  CHECK(to_tree(on_gpus(name)) == nccl_text(name + ".tree"));
}

TEST_CASE("an inventory from NCCL's XML, and a topology of it, read back as they are") {
  std::string name = GENERATE(from_range(std::begin(samples::kNcclHosts), std::end(samples::kNcclHosts)));
  CHECK(parse_inventory(to_json(nccl_host(name))).value() == nccl_host(name));
  CHECK(parse_topology(to_json(on_gpus(name))).value() == on_gpus(name));
}

TEST_CASE("GPUs are in the order of their device numbers, wherever they are in the tree") {
  Inventory host = parse_nccl_xml(R"(<system version="1"><cpu numaid="1">
    <pci busid="0000:0A:00.0"><gpu dev="1" sm="90"/></pci><pci busid="0000:0B:00.0"><gpu dev="0" sm="80"/></pci>
    </cpu></system>)").value();
  REQUIRE(host.gpus.size() == 2);
  CHECK(host.gpus[0].pci_address == "0000:0b:00.0");
  CHECK(host.gpus[1].pci_address == "0000:0a:00.0");
  CHECK(host.gpus[1].numa_node == 1);
  CHECK(host.gpus[1].pci_path == std::vector<PciHop>{{"0000:0a:00.0"}});
}

TEST_CASE("what this version does not know is left out") {
  Inventory plain = parse_nccl_xml(host_with("")).value();
  CHECK(parse_nccl_xml(host_with("<gin><net name=\"x\"/></gin>", "<c2c bw=\"44712\" count=\"5\"/>")).value() == plain);
  CHECK(parse_nccl_xml("\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!-- dump -->\n" + host_with("")).value() == plain);
  // An NVLink to a processor is none to a GPU.
  CHECK(parse_nccl_xml(host_with("", "<nvlink target=\"0000:02:00.0\" count=\"1\" tclass=\"0x068001\"/>")).value() ==
        plain);
}

TEST_CASE("ports that do not tell their links have no figures") {
  std::string text = host_with("");
  text.replace(text.find("<pci busid"), 10, "<pci link_speed=\"Unknown\" link_width=\"255\" busid");
  Inventory host = parse_nccl_xml(text).value();
  CHECK(host.gpus[0].pci_path.front() == PciHop{.address = "0000:01:00.0"});
}

TEST_CASE("XML is told from JSON by its beginning") {
  CHECK(looks_like_xml(" \n\t<system/>"));
  CHECK(looks_like_xml("\xef\xbb\xbf<system/>"));
  CHECK_FALSE(looks_like_xml("{\"format\": 1}"));
  CHECK_FALSE(looks_like_xml(""));
}

TEST_CASE("a fault is named with its line, element and reason") {
  auto expect = [](const std::string& xml, const std::string& reason) { CHECK(refusal(xml) == reason); };
  expect("<topology/>", "line 1: <topology> is no topology of NCCL, whose outermost element is <system>");
  expect("<system/>", "line 1: <system> must have version \"1\", but has none");
  expect("<system version=\"3\"/>", "line 1: <system> must have version \"1\", but has \"3\"");
  expect("<system version=\"1\"/>", "line 1: <system> has no <gpu>; have NCCL write it where it sees GPUs");
  expect("<system version=\"1\">\n<cpu/></system>", "line 2: <cpu> needs the attribute numaid");
  expect("<system version=\"1\">\n\n<gpu/></system>", "line 3: <gpu> must be in <pci>, but is in <system>");
  expect("<system version=\"1\"><cpu numaid=\"0\" affinity=\"zz\"/></system>",
         "line 1: <cpu> affinity must be a mask of CPUs below 65536 such as \"ffff,ffffffff\", but is \"zz\"");
  expect("<system version=\"1\"><cpu numaid=\"0\"/>\n<cpu numaid=\"0\"/></system>",
         "line 2: <cpu> has numaid 0, which another one has too");
  expect("<system version=\"1\"><cpu numaid=\"0\" host_hash=\"0x1\"/>\n<cpu numaid=\"1\" host_hash=\"0x2\"/></system>",
         "line 2: <cpu> is of another host than the one before (host_hash); tutti reads files of one host");
  expect(host_with("<pci/>"), "line 6: <pci> needs the attribute busid");
  expect(host_with("<pci busid=\"here\"/>"),
         "line 6: <pci> busid must be a PCI address such as \"0000:18:00.0\", but is \"here\"");
  expect(host_with("<pci busid=\"0000:02:00.0\" link_speed=\"fast\"/>"),
         "line 6: <pci> link_speed must be a speed of PCI Express such as \"32.0 GT/s PCIe\", but is \"fast\"");
  expect(host_with("<pci busid=\"0000:02:00.0\" link_width=\"-1\"/>"),
         "line 6: <pci> link_width must be a whole number from 0 to 255, but is \"-1\"");
  expect(host_with("<gpu dev=\"0\"/>"), "line 6: <gpu> needs the attribute sm");
  expect(host_with("", "<nvlink target=\"0000:02:00.0\" count=\"0\" tclass=\"0x068000\"/>"),
         "line 5: <nvlink> count must be a whole number from 1 to 72, but is \"0\"");
  expect(host_with("<nic><net/></nic>"), "line 6: <net> needs the attribute name");
  expect(host_with("<nic><net name=\"a\" speed=\"1e9\"/></nic>"),
         "line 6: <net> speed must be a whole number from 0 to 1000000000, but is \"1e9\"");
  expect(host_with("<nic><net name=\"a\" guid=\"b\"/></nic>"), "line 6: <net> guid must be a number, but is \"b\"");
  expect(host_with("<net name=\"a\"/>"), "line 6: <net> must be in <nic>, but is in <pci>");
}

TEST_CASE("hostile documents are refused before they cost anything") {
  // Each entity is ten of the one before: expanded, a billion laughs.
  std::string bomb = "<?xml version=\"1.0\"?>\n<!DOCTYPE lolz [\n<!ENTITY a0 \"lol\">\n";
  for (int i = 1; i < 10; ++i) {
    bomb += fmt::format("<!ENTITY a{} \"", i);
    for (int k = 0; k < 10; ++k) bomb += fmt::format("&a{};", i - 1);
    bomb += "\">\n";
  }
  bomb += "]>\n<system version=\"&a9;\"/>";
  CHECK(refusal(bomb) ==
        "line 2: the document has a document type definition (<!DOCTYPE), which no topology needs; remove it");
  CHECK_THAT(refusal("<!DOCTYPE system SYSTEM \"file:///etc/passwd\"><system/>"), Catch::Contains("<!DOCTYPE"));
  CHECK(refusal("<system version=\"&b;\"/>") == "line 1: the document is no XML: undefined entity");
  CHECK(refusal(levels(33)) == "line 1: the document has more than 32 levels of elements");
  CHECK_THAT(refusal(levels(32)), Catch::Contains("is no topology of NCCL"));
  CHECK_THAT(refusal(levels(1'000'000)), Catch::Contains("levels"));
  std::string many = "<system>";
  for (int i = 0; i < 8192; ++i) many += "<a/>";
  CHECK(refusal(many + "</system>") == "line 1: the document has more than 8192 elements");
  CHECK(refusal(std::string((16 << 20) + 1, ' ')) == "line 1: the document has more than 16777216 bytes");
  CHECK_THAT(refusal("<system version=\"1\">\n<cpu>\n</system>"),
             Catch::StartsWith("line 3: the document is no XML: mismatched tag"));
  CHECK_THAT(refusal(""), Catch::StartsWith("line 1: the document is no XML"));
  CHECK_THAT(refusal("<system version=\"1\"/><system/>"), Catch::Contains("is no XML: junk after document element"));
  CHECK_THAT(refusal(std::string("<system\0/>", 10)), Catch::Contains("is no XML"));
}

// Hidden: run it by name after a deliberate change, and check the difference by hand.
TEST_CASE("write what NCCL's hosts are", "[.accept]") {
  for (const char* name : samples::kNcclHosts) {
    std::string stem = std::string(TUTTI_NCCL_HOSTS) + "/" + name;
    std::ofstream(stem + ".inventory.json") << to_json(nccl_host(name));
    std::ofstream(stem + ".tree") << to_tree(on_gpus(name));
  }
}
