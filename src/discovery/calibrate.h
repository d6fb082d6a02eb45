// Calibration: what things cost on this host, measured once and kept in a file, so that joining a communicator never
// measures. The option "calibration" names the file; "" is one per host and processor in $XDG_CACHE_HOME/tutti; "off"
// keeps the default figures.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "topology/inventory.h"

namespace tutti {

// The figures stored for `host`, or the defaults when none are. A file that cannot be used (malformed, of another
// machine) is an error when the option names it; else it is warned of and the defaults stand. Does not block.
Result<Costs> load_costs(const Config& config, const Inventory& host);

// Measures and stores. Blocks: about a second, or, while another process calibrates this host, until that has
// finished (at most 30 s, or half of bootstrap_timeout_ms if that is less) to share its figures. What cannot be
// measured here keeps its default. Errors: the option is "off"; no place to store; kTimeout, the other
// process has not finished.
Result<Costs> calibrate(const Config& config, const Inventory& host);

struct Calibrated {
  Costs costs;
  std::string note;  // one sentence for the user: what was measured, or why it was not; "" when there was nothing to do
};

// The same if no figures are stored for `host`, and nothing when the option is "off". Where nothing can be measured or
// stored the default figures stand, and the note says why. Errors: the option names a file that cannot be used, which
// is not ours to replace.
Result<Calibrated> calibrate_if_missing(const Config& config, const Inventory& host);

// The file for `host`, "" when the option is "off". Errors: no option, no $XDG_CACHE_HOME and no $HOME.
Result<std::string> calibration_file(const Config& config, const Inventory& host);

// The costs alone, without any file. `host` must be this machine. Blocks about a second; uses the allowed CPUs
// and up to a sixteenth of the memory meanwhile.
Costs measure_costs(const Inventory& host);

// The CPUs that this process may give itself, which are more than its affinity mask when a launcher bound it to a core:
// a host's costs must not depend on which of its ranks measures them. Empty: unknown.
std::vector<int> usable_cpus();

}  // namespace tutti
