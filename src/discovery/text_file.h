// Whole text files.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

// At most 64 MiB. Errors name the file.
Result<std::string> read_text_file(const std::string& path);

// Atomically: readers see the old contents or the new. Errors name the file.
Status write_text_file(const std::string& path, std::string_view text);

}  // namespace tutti
