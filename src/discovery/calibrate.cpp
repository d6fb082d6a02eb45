#include "discovery/calibrate.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>
#include <thread>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "discovery/calibration_json.h"
#include "discovery/text_file.h"
#include "topology/digest.h"

namespace tutti {
namespace {

constexpr std::string_view kOff = "off";

// nullopt: there is no such file. Errors: the file cannot be used; the sentence names it.
Result<std::optional<Costs>> stored_costs(const std::string& file, const Inventory& host) {
  if (::access(file.c_str(), F_OK) != 0 && errno == ENOENT) return std::optional<Costs>();
  Result<std::string> text = read_text_file(file);
  if (!text.ok()) return std::move(text).status();
  Result<Calibration> calibration = parse_calibration(*text);
  if (!calibration.ok()) return std::move(calibration).status().within(file);
  if (calibration->machine != calibrated_machine(host)) {
    const CalibratedMachine& machine = calibration->machine;
    return error(Code::kInvalidUsage,
                 "{}: measured on another machine ({}, {}, {} logical CPUs) or by another build ({})", file,
                 machine.hostname, machine.model, machine.logical_cpus, machine.build);
  }
  return std::optional(calibration->costs);
}

// Exclusive among all processes that calibrate into `file`; waits for at most `deadline`. `*waited`: another one had
// it.
Result<Fd> lock_file(const std::string& file, Deadline deadline, bool* waited) {
  std::string path = file + ".lock";
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return system_error(errno, fmt::format("cannot open {}", path));
  *waited = false;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return system_error(errno, fmt::format("cannot lock {}", path));
    if (deadline.passed()) {
      return error(Code::kTimeout, "another process has been calibrating into {} for too long; is it stopped?", file);
    }
    *waited = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fd;
}

// A broken file of the cache is replaced by the next measurement; one that the user named is the user's.
Status refusal(const Status& cause) {
  return error(cause.code(), "cannot use the calibration file {}; `tutti topo --calibrate` measures anew",
               cause.message());
}

enum class Need : uint8_t { kAny, kNew };  // figures, or figures that are newer than the call

struct Measured {
  Costs costs;
  bool here = false;  // not by another process meanwhile
};

// One process at a time. Others wait for it, but not until ranks that join without measuring give them up.
Result<Measured> measure_into(const std::string& file, const Config& config, const Inventory& host, Need need) {
  const int64_t patience_ms = std::min<int64_t>(30'000, config.bootstrap_timeout_ms / 2);
  TUTTI_TRY(make_folder_of(file));
  bool waited = false;
  Fd lock = TUTTI_TRY(lock_file(file, Deadline::after_ms(patience_ms), &waited));
  if (waited || need == Need::kAny) {
    auto stored = stored_costs(file, host);
    if (stored.ok() && *stored) return Measured{**stored, false};
  }
  Inventory whole = host;
  if (auto cpus = usable_cpus(); !cpus.empty()) whole.cpu.allowed_cpus = std::move(cpus);
  Costs costs = measure_costs(whole);
  TUTTI_TRY(write_text_file(file, to_json(Calibration{calibrated_machine(host), costs})));
  return Measured{costs, true};
}

}  // namespace

Result<std::string> calibration_file(const Config& config, const Inventory& host) {
  if (config.calibration == kOff) return std::string();
  if (!config.calibration.empty()) return config.calibration;
  std::string folder = cache_folder();
  if (folder.empty()) {
    return error(Code::kInvalidUsage,
                 "no place for the calibration file: neither XDG_CACHE_HOME nor HOME is set; set "
                 "TUTTI_CALIBRATION to a file");
  }
  // Homes are shared between machines, and containers on different machines share names.
  CalibratedMachine machine = calibrated_machine(host);
  uint64_t kind = digest_of(
      fmt::format("{}/{}/{}/{}", machine.architecture, machine.model, machine.logical_cpus, machine.build));
  return fmt::format("{}/{}-{:08x}.json", folder, machine.hostname, kind & 0xffffffff);
}

Result<Costs> load_costs(const Config& config, const Inventory& host) {
  Result<std::string> file = calibration_file(config, host);
  if (!file.ok() || file->empty()) return Costs();
  Result<std::optional<Costs>> stored = stored_costs(*file, host);
  if (stored.ok()) return stored->value_or(Costs());
  if (!config.calibration.empty()) return refusal(stored.status());
  log_warn_once("default costs are used: {}", refusal(stored.status()).message());
  return Costs();
}

Result<Costs> calibrate(const Config& config, const Inventory& host) {
  std::string file = TUTTI_TRY(calibration_file(config, host));
  if (file.empty()) {
    return error(Code::kInvalidUsage, "calibration is switched off; unset TUTTI_CALIBRATION or set it to a file");
  }
  return TUTTI_TRY(measure_into(file, config, host, Need::kNew)).costs;
}

Result<Calibrated> calibrate_if_missing(const Config& config, const Inventory& host) {
  Result<std::string> file = calibration_file(config, host);
  if (file.ok() && file->empty()) return Calibrated();
  auto not_measured = [](const Status& why) {
    bool file_fails = why.code() == Code::kSystem;
    std::string_view remedy = file_fails ? "; set TUTTI_CALIBRATION to a file, or to \"off\"" : "";
    return Calibrated{Costs(), fmt::format("default costs are used, since measuring this host's failed: {}{}",
                                           why.message(), remedy)};
  };
  if (!file.ok()) return not_measured(file.status());
  Result<std::optional<Costs>> stored = stored_costs(*file, host);
  if (stored.ok() && *stored) return Calibrated{**stored, ""};
  if (!stored.ok() && !config.calibration.empty()) return refusal(stored.status());
  auto start = Clock::now();
  Result<Measured> measured = measure_into(*file, config, host, Need::kAny);
  if (!measured.ok()) return not_measured(measured.status());
  if (!measured->here) return Calibrated{measured->costs, ""};
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::string why = stored.ok() ? "" : fmt::format(" anew, since it could not use {}", stored.status().message());
  return Calibrated{measured->costs, fmt::format("measured this host's costs in {:.1f} s{}; they are kept in {}",
                                                 seconds, why, *file)};
}

}  // namespace tutti
