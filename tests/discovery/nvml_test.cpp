#include "discovery/nvml.h"

#include <catch2/catch.hpp>

#include "discovery/discover.h"
#include "discovery/machine.h"
#include "discovery/text_file.h"
#include "topology/gpu_path.h"

using namespace tutti;

namespace {

Machine machine_with(const std::vector<ManagedGpu>& managed) {
  Machine machine =
      parse_machine(read_text_file(std::string(TUTTI_MACHINES) + "/dual-socket.json").value()).value();
  for (const std::string address : {"0000:19:00.0", "0000:9a:00.0", "0000:ba:00.0", "0000:da:00.0"}) {
    machine.files["/proc/driver/nvidia/gpus/" + address + "/information"] =
        "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-" + address.substr(5, 2) + "\n";
  }
  machine.gpus = managed;
  return machine;
}

}  // namespace

TEST_CASE("the management library tells of NVLinks, which a recorded machine has too") {
  std::vector<ManagedGpu> managed = ask_nvml(TUTTI_FAKE_NVML);
  REQUIRE(managed.size() == 4);
  CHECK(managed[0] == ManagedGpu{"0000:19:00.0",
                                 90,
                                 150'000'000'000,
                                 {{"0000:05:00.0", true}, {"0000:05:00.0", true}, {"0000:06:00.0", true}}});
  CHECK(managed[3].nvlinks == std::vector<ManagedLink>{{"0000:ba:00.0", false}});
  CHECK(ask_nvml(TUTTI_FAKE_NVML) == managed);

  Machine machine = machine_with(managed);
  auto parsed = parse_machine(to_json(machine));
  INFO(parsed.status().message());
  REQUIRE(parsed.ok());
  CHECK(*parsed == machine);
  Inventory inventory = discover(*parsed).value();
  REQUIRE(inventory.gpus.size() == 4);
  Figure link{23'529'411'764, Origin::kSpec};
  CHECK(inventory.gpus[0].nvlinks ==
        std::vector<NvLink>{{"0000:05:00.0", true, 2, link}, {"0000:06:00.0", true, 1, link}});
  CHECK(inventory.gpus[2].compute_capability == 90);
  CHECK(inventory.gpus[2].memory_bytes == 150'000'000'000);

  GpuPath by_switches = path_between(inventory, 0, 1);
  CHECK(by_switches.kind == LinkKind::kNvswitch);
  CHECK(by_switches.bytes_per_s.value == 3 * link.value);
  CHECK(path_between(inventory, 2, 3).kind == LinkKind::kNvlink);
  CHECK(path_between(inventory, 0, 3).kind != LinkKind::kNvswitch);
}

TEST_CASE("without the management library, or with an old one, GPUs have what PCIe tells") {
  CHECK(ask_nvml("libno-such-library.so.1").empty());
  CHECK(ask_nvml(TUTTI_FAKE_OLD_NVML).empty());
  Inventory inventory = discover(machine_with({})).value();
  REQUIRE(inventory.gpus.size() == 4);
  CHECK(inventory.gpus[0].nvlinks.empty());
  CHECK(inventory.gpus[0].compute_capability == 0);
}
