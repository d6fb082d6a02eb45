// What `tutti doctor` finds, on a recorded machine that is given an RDMA device and then one fault at a time.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "discovery/diagnose.h"
#include "discovery/machine.h"
#include "discovery/text_file.h"

using namespace tutti;

namespace {

using Level = Finding::Level;

const std::string kDevice = "/sys/class/infiniband/mlx5_0";
const std::string kPort = kDevice + "/ports/1";
const std::string kNic = "0000:17:00.0";

// Two sockets and a RoCE adapter on which all is as it should be.
Machine healthy() {
  auto text = read_text_file(std::string(TUTTI_MACHINES) + "/dual-socket.json");
  REQUIRE(text.ok());
  auto parsed = parse_machine(*text);
  REQUIRE(parsed.ok());
  Machine machine = *parsed;
  machine.process.memlock_bytes = UINT64_MAX;
  machine.process.kernel = "6.1.0";
  machine.libraries = {"libibverbs.so.1", "libibverbs.so.1:ibv_reg_dmabuf_mr"};
  machine.filesystems["/dev/infiniband"] = 1 << 20;
  machine.links[kDevice] = "../../devices/pci0000:16/0000:16:01.0/0000:17:00.0/infiniband/mlx5_0";
  TextMap& files = machine.files;
  files["/sys/class/infiniband_verbs/uverbs0/ibdev"] = "mlx5_0\n";
  files[kPort + "/state"] = "4: ACTIVE\n";
  files[kPort + "/link_layer"] = "Ethernet\n";
  files[kPort + "/gids/0"] = "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n";
  files[kPort + "/gids/1"] = "0000:0000:0000:0000:0000:ffff:0a4d:0001\n";
  files[kPort + "/gids/2"] = "0000:0000:0000:0000:0000:0000:0000:0000\n";
  for (const char* index : {"0", "1"}) {
    files[kPort + "/gid_attrs/types/" + index] = "RoCE v2\n";
    files[kPort + "/gid_attrs/ndevs/" + index] = "ens2f0\n";
  }
  files["/sys/class/net/ens2f0/mtu"] = "9000\n";
  return machine;
}

std::vector<Finding> findings_of(const Machine& machine) {
  auto diagnosis = diagnose(machine);
  REQUIRE(diagnosis.ok());
  return diagnosis->findings;
}

// The only finding.
void check_finds(const Machine& machine, Level level, const std::string& topic, const std::string& fact,
                 const std::string& remedy) {
  auto findings = findings_of(machine);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].level == level);
  CHECK(findings[0].topic == topic);
  CHECK(findings[0].fact.find(fact) != std::string::npos);
  CHECK(findings[0].remedy.find(remedy) != std::string::npos);
}

void add_gpu(Machine& machine) {
  machine.files["/proc/driver/nvidia/version"] =
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n";
  machine.files["/proc/driver/nvidia/gpus/0000:18:00.0/information"] = "Model: \t NVIDIA H200\nGPU UUID: \t GPU-1\n";
}

// The configuration of a bridge whose extended capabilities are one unknown and then access control.
std::string config_with_acs(uint16_t control) {
  std::string config(4096, '\0');
  auto set = [&](size_t at, uint32_t word) {
    for (size_t i = 0; i < 4; ++i) config[at + i] = static_cast<char>(word >> (8 * i));
  };
  set(0x100, 0x0001u | 1u << 16 | 0x148u << 20);
  set(0x148, 0x000du | 1u << 16);
  set(0x14c, static_cast<uint32_t>(control) << 16);
  return config;
}

}  // namespace

TEST_CASE("a healthy host has no findings, and one line says so") {
  auto diagnosis = diagnose(healthy());
  REQUIRE(diagnosis.ok());
  CHECK(diagnosis->findings.empty());
  CHECK(diagnosis->problems() == 0);
  CHECK(to_tree(*diagnosis) == diagnosis->hostname + ": nothing stands in the way\n");
}

TEST_CASE("no RDMA device is a note; an adapter whose driver is missing is a problem") {
  Machine machine = healthy();
  std::erase_if(machine.files, [](auto& file) { return file.first.starts_with("/sys/class/infiniband"); });
  std::erase_if(machine.files, [](auto& file) { return file.first.starts_with("/sys/bus/pci/devices/"); });
  check_finds(machine, Level::kNote, "devices", "there is no RDMA device", "rdma link add rxe0 type rxe");
  machine.files["/sys/bus/pci/devices/0000:17:00.0/class"] = "0x020000\n";
  machine.files["/sys/bus/pci/devices/0000:17:00.0/vendor"] = "0x15b3\n";
  check_finds(machine, Level::kProblem, "kernel modules", "0000:17:00.0", "modprobe mlx5_ib");
  const std::pair<const char*, const char*> modules[] = {
      {"mlx4_core", "mlx4_ib"}, {"bnxt_en", "bnxt_re"}, {"ice", "irdma"}, {"qede", "qedr"}, {"ionic", "ionic_rdma"}};
  for (const auto& [driver, module] : modules) {
    machine.links["/sys/bus/pci/devices/0000:17:00.0/driver"] = std::string("../../../bus/pci/drivers/") + driver;
    check_finds(machine, Level::kProblem, "kernel modules", "has RDMA", std::string("modprobe ") + module);
  }
  machine.links["/sys/bus/pci/devices/0000:17:00.0/driver"] = "../../../bus/pci/drivers/i40e";
  check_finds(machine, Level::kNote, "kernel modules", "may have RDMA", "modprobe irdma");
  machine.links["/sys/bus/pci/devices/0000:17:00.0/driver"] = "../../../bus/pci/drivers/e1000e";
  check_finds(machine, Level::kNote, "devices", "there is no RDMA device", "rdma link add rxe0 type rxe");
}

TEST_CASE("what programs need beside the device is looked for") {
  Machine machine = healthy();
  machine.libraries.clear();
  check_finds(machine, Level::kProblem, "library", "libibverbs.so.1", "rdma-core");
  machine = healthy();
  machine.files.erase("/sys/class/infiniband_verbs/uverbs0/ibdev");
  check_finds(machine, Level::kProblem, "kernel modules", "access to RDMA", "modprobe ib_uverbs");
  machine = healthy();
  machine.filesystems.erase("/dev/infiniband");
  check_finds(machine, Level::kProblem, "device files", "/dev/infiniband", "--device=/dev/infiniband");
}

TEST_CASE("a device file that may not be opened is a problem of its device") {
  Machine machine = healthy();
  machine.forbidden = {"/dev/infiniband/uverbs0"};
  check_finds(machine, Level::kProblem, "device files",
              "may not open /dev/infiniband/uverbs0, by which mlx5_0 is reached", "chmod 666 /dev/infiniband/uverbs0");
  machine.files["/sys/class/infiniband_verbs/uverbs1/ibdev"] = "mlx5_1\n";
  machine.forbidden = {"/dev/infiniband/uverbs1"};
  check_finds(machine, Level::kProblem, "device files", "mlx5_1", "--device=/dev/infiniband/uverbs1");
}

TEST_CASE("a recorded machine keeps which device files may not be opened") {
  Machine machine = healthy();
  CHECK(to_json(machine).find("forbidden") == std::string::npos);
  machine.forbidden = {"/dev/infiniband/uverbs0"};
  auto parsed = parse_machine(to_json(machine));
  REQUIRE(parsed.ok());
  CHECK(*parsed == machine);
}

TEST_CASE("a low limit of locked memory is a problem, but not for whom it does not bind") {
  Machine machine = healthy();
  machine.process.memlock_bytes = 8 << 20;
  check_finds(machine, Level::kProblem, "locked memory", "may lock 8192 KiB", "ulimit -l unlimited");
  machine.files["/proc/self/status"] = "Name:\ttutti\nCapEff:\t0000000000004000\nCapBnd:\t0\n";
  CHECK(findings_of(machine).empty());
  machine.files["/proc/self/status"] = "Name:\ttutti\nCapEff:\t0000000000000400\n";
  CHECK(findings_of(machine).size() == 1);
}

TEST_CASE("a port that is down says so, and what brings it up") {
  Machine machine = healthy();
  machine.files[kPort + "/state"] = "1: DOWN\n";
  check_finds(machine, Level::kProblem, "ports", "mlx5_0 port 1 is not up (DOWN)", "ip link set ens2f0 up");
  machine = healthy();
  machine.files[kPort + "/link_layer"] = "InfiniBand\n";
  machine.files[kPort + "/state"] = "2: INIT\n";
  check_finds(machine, Level::kProblem, "ports", "INIT", "subnet manager");
}

TEST_CASE("an Ethernet port needs an address that routers pass on") {
  Machine machine = healthy();
  machine.files.erase(kPort + "/gids/1");
  check_finds(machine, Level::kNote, "addresses", "link-local", "ens2f0 an IP address");
  machine.files[kPort + "/gid_attrs/types/0"] = "IB/RoCE v1\n";
  check_finds(machine, Level::kNote, "addresses", "RoCE v1", "ens2f0 an IP address");
  machine.files.erase(kPort + "/gids/0");
  check_finds(machine, Level::kProblem, "addresses", "has no GID", "ip addr add");
}

TEST_CASE("small packets are a note, ports of different MTU a problem") {
  Machine machine = healthy();
  machine.files["/sys/class/net/ens2f0/mtu"] = "1500\n";
  check_finds(machine, Level::kNote, "MTU", "have 1024 bytes, since its MTU is 1500", "mtu 9000");
  machine.files["/sys/class/net/ens2f0/mtu"] = "4192\n";
  CHECK(findings_of(machine).empty());
  machine.files["/sys/class/net/ens2f0/mtu"] = "9000\n";
  for (const auto& [path, content] : TextMap(machine.files)) {
    if (!path.starts_with(kPort)) continue;
    std::string other = "/sys/class/infiniband/mlx5_1/ports/1" + path.substr(kPort.size());
    machine.files[other] = content == "ens2f0\n" ? "ens2f1\n" : content;
  }
  machine.files["/sys/class/net/ens2f1/mtu"] = "4200\n";
  CHECK(findings_of(machine).empty());
  machine.files["/sys/class/net/ens2f1/mtu"] = "2200\n";
  auto findings = findings_of(machine);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].level == Level::kProblem);
  CHECK(findings[0].fact.find("ens2f0 has MTU 9000 and ens2f1 has 2200") != std::string::npos);
  CHECK(findings[1].fact.find("2048 bytes") != std::string::npos);
}

TEST_CASE("an IOMMU that translates is a note") {
  Machine machine = healthy();
  machine.files["/sys/bus/pci/devices/" + kNic + "/iommu_group/type"] = "DMA-FQ\n";
  check_finds(machine, Level::kNote, "IOMMU", "every address that mlx5_0 uses", "iommu=pt");
  machine.files["/sys/bus/pci/devices/" + kNic + "/iommu_group/type"] = "identity\n";
  CHECK(findings_of(machine).empty());
}

TEST_CASE("with GPUs, a bridge that redirects is a note") {
  Machine machine = healthy();
  std::string config = "/sys/bus/pci/devices/0000:16:01.0/config";
  machine.files[config] = config_with_acs(0x1d);
  CHECK(findings_of(machine).empty());
  add_gpu(machine);
  auto findings = findings_of(machine);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].topic == "ACS");
  CHECK(findings[0].fact.find("0000:16:01.0") != std::string::npos);
  CHECK(findings[0].remedy.find("setpci -s 0000:16:01.0 ECAP_ACS+6.w=0") != std::string::npos);
  for (const std::string& other : {config_with_acs(0x11), std::string(64, '\xff'), std::string()}) {
    machine.files[config] = other;
    CHECK(findings_of(machine).empty());
  }
}

TEST_CASE("what keeps devices from memory of GPUs is a note that says what to do") {
  Machine machine = healthy();
  add_gpu(machine);
  std::string& driver = machine.files["/proc/driver/nvidia/version"];
  const std::string open = driver;
  auto check_note = [&](const std::string& fact, const std::string& remedy) {
    check_finds(machine, Level::kNote, "GPU memory", fact, remedy);
  };
  driver = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n";
  check_note("are not the open ones", "nvidia-open");
  driver = open;
  machine.process.kernel = "5.11.22-generic";
  check_note("(5.11.22-generic) is older than 5.12", "5.12 or newer");
  for (const char* newer : {"5.12", "6.1.0", "10.0.1", "unknown"}) {
    machine.process.kernel = newer;
    CHECK(findings_of(machine).empty());
  }
  machine.libraries = {"libibverbs.so.1"};
  check_note("no ibv_reg_dmabuf_mr", "rdma-core 34");
  machine = healthy();
  add_gpu(machine);
  machine.links[kDevice] = "../../devices/virtual/infiniband/mlx5_0";
  check_note("software devices", "an adapter is needed");
  // Without GPUs nothing of it matters.
  Machine without = healthy();
  without.libraries = {"libibverbs.so.1"};
  without.process.kernel = "4.18.0";
  CHECK(findings_of(without).empty());
}

TEST_CASE("problems come first, in text and in JSON") {
  Machine machine = healthy();
  machine.files["/sys/class/net/ens2f0/mtu"] = "1500\n";
  machine.files[kPort + "/gids/0"] = machine.files[kPort + "/gids/1"] = "";
  auto diagnosis = diagnose(machine);
  REQUIRE(diagnosis.ok());
  CHECK(diagnosis->problems() == 1);
  std::string text = to_tree(*diagnosis);
  CHECK(text.find("1 problem, 1 note\nproblem  addresses: ") != std::string::npos);
  CHECK(text.find("\nnote     MTU: ") != std::string::npos);
  auto json = nlohmann::json::parse(to_json(*diagnosis));
  CHECK(json["problems"] == 1);
  CHECK(json["findings"][0]["level"] == "problem");
  CHECK(json["findings"][1]["topic"] == "MTU");
}
