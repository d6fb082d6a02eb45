// Pages of the program that were moved onto a memfd in place, so that other processes can map them.
#pragma once

#include <cstddef>
#include <span>

#include "base/fd.h"
#include "base/status.h"

namespace tutti {

// The whole pages inside a range of ordinary memory lie on a memfd, at the addresses they had; a forked child does not
// have them. `mapping` is all of the memfd once more, at other addresses: it begins at the page in which the range
// begins and ends at the one in which it ends, so that the range lies there without a gap. Of the first and the last
// page, where they are not whole, the memfd has a copy of its own, which nobody keeps equal.
struct MovedPages {
  Fd fd;
  Mapping mapping;
  std::span<std::byte> pages;  // at the program's addresses
  size_t offset = 0;           // of the same pages in the memfd
};

// Moves the pages of `range`, which hold what they held. No other thread may write there meanwhile; they may be read,
// and the process may fork. Without a whole page in the range nothing is moved, and the result is empty.
// Errors, nothing is changed: part of it is no private, writable memory without a file; memory is short.
Result<MovedPages> move_onto_memfd(std::span<std::byte> range);

// Errors: other memory lies at the program's addresses by now, or none.
Status check_is_there(const MovedPages& moved);

// Makes them private memory again, which holds what they hold. As before, no other thread may write there meanwhile.
// Errors, nothing is changed: other memory lies there by now (kInvalidUsage); memory is short.
Status move_back(const MovedPages& moved);

}  // namespace tutti
