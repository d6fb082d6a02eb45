// RDMA devices as sysfs shows them, on a recorded machine that is given some.
#include <algorithm>
#include <catch2/catch.hpp>

#include "discovery/discover.h"
#include "discovery/machine.h"
#include "discovery/text_file.h"

using namespace tutti;

namespace {

Machine dual_socket() {
  auto text = read_text_file(std::string(TUTTI_MACHINES) + "/dual-socket.json");
  REQUIRE(text.ok());
  auto parsed = parse_machine(*text);
  REQUIRE(parsed.ok());
  return *parsed;
}

const Nic* find(const Inventory& inventory, std::string_view name) {
  auto found = std::find_if(inventory.nics.begin(), inventory.nics.end(), [&](auto& nic) { return nic.name == name; });
  return found == inventory.nics.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("an interface whose RDMA device there is says so, and no other one does") {
  Machine machine = dual_socket();
  machine.files["/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"] = "ens2f0\n";
  machine.files["/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/1"] = "ens2f0\n";
  Inventory inventory = discover(machine).value();
  REQUIRE(find(inventory, "ens2f0") != nullptr);
  CHECK(find(inventory, "ens2f0")->rdma);
  CHECK(!find(inventory, "eno1")->rdma);
  CHECK(inventory.nics.size() == discover(dual_socket()).value().nics.size());
}

TEST_CASE("a port of InfiniBand without an interface is one of its own, with its speed and place") {
  Machine machine = dual_socket();
  std::string device = "/sys/class/infiniband/mlx5_3";
  machine.files[device + "/ports/1/state"] = "4: ACTIVE\n";
  machine.files[device + "/ports/1/rate"] = "400 Gb/sec (4X NDR)\n";
  machine.files[device + "/ports/2/state"] = "1: DOWN\n";
  machine.files[device + "/ports/2/rate"] = "2.5 Gb/sec (1X SDR)\n";
  machine.links[device] = "../../devices/pci0000:16/0000:16:01.0/0000:17:00.0/infiniband/mlx5_3";
  machine.files["/sys/bus/pci/devices/0000:17:00.0/numa_node"] = "1\n";
  Inventory inventory = discover(machine).value();
  const Nic* port = find(inventory, "mlx5_3:1");
  REQUIRE(port != nullptr);
  CHECK(port->rdma);
  CHECK(port->up);
  CHECK(port->speed_mbps == 400'000);
  CHECK(port->pci_address == "0000:17:00.0");
  CHECK(port->numa_node == 1);
  REQUIRE(find(inventory, "mlx5_3:2") != nullptr);
  CHECK(!find(inventory, "mlx5_3:2")->up);
  CHECK(find(inventory, "mlx5_3:2")->speed_mbps == 2'500);
}
