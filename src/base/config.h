// All options of tutti, in one place. Each is a TUTTI_* variable and a name for tutti_config_set(). The table in
// config.cpp is what `tutti options` and docs/options.md show. This is the only file that reads the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

struct Config {
  // Who this process is and where the others are. Set by `tutti run`, or by hand to start ranks without a launcher.
  int64_t rank = -1;
  int64_t size = -1;
  int64_t id_fd = -1;               // inherited fd that holds the 128-byte unique id
  int64_t host_fd = -1;             // inherited fd that holds an Inventory of this host
  std::string address;              // "host:port" where rank 0 listens
  std::string secret_file;          // file with at least 32 secret bytes, readable by its owner only

  // Choices.
  std::string transport;            // "", "shm", "tcp", "verbs", "loopback"
  std::string interface;            // "", or a network interface name or address
  std::string fabric;               // "", or the name of the part of the network that this host is in
  std::string algorithm;            // "", or an algorithm's name
  int64_t channels = 0;             // 0: the planner decides
  int64_t slice_bytes = 0;          // 0: the planner decides
  int64_t slot_bytes = 0;           // staging slot of one stream; 0: as staging_slot_bytes() says
  int64_t slots = 4;                // staging slots of one stream
  int64_t workers = 0;              // threads that run a large call's channels on each rank; 0: automatic
  int64_t deterministic = 0;        // 1: reductions in one order of ranks
  std::string plan_file;            // run this Plan instead of choosing one

  // Waiting: spin, then yield, then sleep. -1: from calibration.
  int64_t spin_us = -1;
  int64_t yield_us = -1;

  // Where threads of the library's that make progress run: "0-3,8"; "": not restricted.
  std::string thread_cpus;

  // Deadlines.
  int64_t bootstrap_timeout_ms = 60'000;
  int64_t timeout_ms = 600'000;     // of one call

  // CUDA: the driver's library and tutti's module for it, by name or path.
  std::string cuda_driver = "libcuda.so.1";
  std::string cuda_module;          // "": libtutti_cuda.so beside libtutti.so

  // RDMA: which device, how its packets travel, and how long to try.
  std::string ib_device;            // "": the best; else devices, each with a port if wanted: "mlx5_0,mlx5_1:2"
  int64_t ib_gid_index = -1;        // -1: the first of the best type
  int64_t ib_mtu = 0;               // 0: what both ports run at
  int64_t ib_service_level = 0;
  int64_t ib_traffic_class = 0;
  int64_t ib_pkey_index = 0;        // place in the port's table
  int64_t ib_timeout = 16;          // an unanswered packet is sent again after 4.096 us * 2^this
  int64_t ib_retries = 7;           // and so often
  int64_t ib_regions = 1024;        // of the program's, that are registered at a time
  int64_t ib_region_bytes = 0;      // all of them together; 0: half of what may be locked
  int64_t ib_dmabuf = 1;            // NICs reach memory of GPUs by themselves, where they can; 2: for collectives alone
  std::string ib_library = "libibverbs.so.1";
  // The NCCL-compatible library: 1 takes host memory too, which NCCL does not.
  int64_t nccl_host_memory = 0;

  // What tutti says on standard error: "error", "warn", "info", "debug".
  std::string log = "warn";
  // Where calibration is stored: "", "off" (default figures, no measurement), or a file. "" is $XDG_CACHE_HOME/tutti/.
  std::string calibration;
  // Which algorithms `tutti bench --tune` found fastest: "" (what is stored for such ranks), "off", or a file.
  std::string tuning;

  // A multiple of 64. Where all goes over sockets, slots take slices as large as are quickest within a host; on several
  // hosts they are larger than slices are, and what is not used is no memory.
  uint64_t staging_slot_bytes() const {
    constexpr int64_t kUsual = 256 * 1024, kOfSockets = 512 * 1024;
    int64_t wanted = slot_bytes > 0 ? slot_bytes : transport == "tcp" ? kOfSockets : kUsual;
    return (static_cast<uint64_t>(wanted) + 63) / 64 * 64;
  }

  friend bool operator==(const Config&, const Config&) = default;

  // Defaults overlaid with the environment. An unknown TUTTI_* variable is a warning with the nearest name; a value
  // that does not parse is an error that names the variable.
  static Result<Config> from_environment();
  // One option by name ("timeout_ms"). Errors: unknown name (suggests the nearest), value does not
  // parse or is out of range.
  Status set(std::string_view name, std::string_view value);
  // Its text. Errors: unknown name.
  Result<std::string> get(std::string_view name) const;
};

struct OptionInfo {
  std::string_view name;            // "timeout_ms"
  std::string_view unit;            // "ms", "bytes", "us", "" ...
  std::string_view meaning;
};
std::span<const OptionInfo> options();
// The value of one option as text; the name must exist.
std::string value_of(const Config& config, std::string_view name);
// "a whole number from 1 to 64", "shm, tcp, verbs or loopback"; the name must exist.
std::string accepted_values(std::string_view name);
// "TUTTI_TIMEOUT_MS" for "timeout_ms".
std::string variable_name(std::string_view option);

// A variable of the environment (a launcher's, HOME), nullopt when unset.
std::optional<std::string> environment(std::string_view name);

// The candidate nearest to `word` in edit distance, "" when none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tutti
