// Quantities as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

std::string bytes_text(uint64_t bytes);                         // "32 MiB"
std::string rate_text(uint64_t bytes_per_s);                    // "11.2 GB/s", powers of 1000
std::string time_text(uint64_t ns);                             // "80 ns", "12.4 us"
std::string count_text(uint64_t count, std::string_view noun);  // "1 core", "2 cores"

}  // namespace tutti
