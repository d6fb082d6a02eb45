// PMIx by way of libpmix.so.2, opened at run time: a process that no PMIx launcher started needs no such library.
#pragma once

#include <functional>
#include <string>

#include "base/deadline.h"
#include "base/status.h"

namespace tutti::bootstrap {

// Built with PMIx's headers, and the library is on this machine.
bool pmix_available();

struct PmixJob {
  int rank = 0;
  int nranks = 0;
};

// Asks for rank and size, lets rank 0 make its value with `make` (only there, and only if there are several ranks), and
// returns rank 0's value on every rank. Blocks until all ranks do the same or `deadline`.
Result<std::string> exchange_by_pmix(const std::function<Result<std::string>(const PmixJob&)>& make, PmixJob& job,
                                     Deadline deadline);

}  // namespace tutti::bootstrap
