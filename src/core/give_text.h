// Text that the C caller frees with tutti_text_free().
#pragma once

#include <string_view>

#include "base/status.h"
#include "tutti/tutti_topology.h"

namespace tutti {

// Sets *text to a copy of `value`. Errors: `text` is null; out of memory.
Status give_text(std::string_view value, char** text);

// Errors: a value that is no format.
Status check_format(tutti_format_t format);

// The value as a tree or as JSON.
template <typename T>
Status give_text(const T& value, tutti_format_t format, char** text) {
  TUTTI_TRY(check_format(format));
  return give_text(format == TUTTI_FORMAT_JSON ? to_json(value) : to_tree(value), text);
}

}  // namespace tutti
