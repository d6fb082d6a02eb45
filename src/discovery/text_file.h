// Whole text files.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

// A larger file than 64 MiB is refused. Errors name the file and the remedy.
Result<std::string> read_text_file(const std::string& path);

// Where measurements are kept: $XDG_CACHE_HOME/tutti, or in ~/.cache; "" when neither XDG_CACHE_HOME nor HOME is set.
std::string cache_folder();

// Makes the folder of the file `path`, and those above it, unless they are there.
Status make_folder_of(const std::string& path);

// Atomically: readers see the old contents or the new. The file that a link names is replaced,
// not the link, if it exists; a device or a pipe is written to. Errors name the file and the remedy. Any thread.
Status write_text_file(const std::string& path, std::string_view text);

}  // namespace tutti
