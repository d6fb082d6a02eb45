// Finds the line of a place in JSON text, for error messages.
#pragma once

#include <cstddef>
#include <string_view>

namespace tutti {

// The 1-based line that byte `offset` is on.
int line_at(std::string_view text, size_t offset);

// The 1-based line of the value at `path` ("hosts[0].cpu.cores", "" for the whole), 0 when there is none. `text`
// parses.
int line_of(std::string_view text, std::string_view path);

}  // namespace tutti
