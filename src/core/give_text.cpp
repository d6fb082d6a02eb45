#include "core/give_text.h"

#include <cstdlib>
#include <cstring>

namespace tutti {

Status give_text(std::string_view value, char** text) {
  if (text == nullptr) return Status(Code::kInvalidArgument, "text is NULL; give the address of a char*");
  auto* copy = static_cast<char*>(std::malloc(value.size() + 1));
  if (copy == nullptr) return Status(Code::kSystem, "out of memory");
  std::memcpy(copy, value.data(), value.size());
  copy[value.size()] = '\0';
  *text = copy;
  return {};
}

Status check_format(tutti_format_t format) {
  if (format == TUTTI_FORMAT_TREE || format == TUTTI_FORMAT_JSON) return {};
  return error(Code::kInvalidArgument, "{} is no format; use TUTTI_FORMAT_TREE or TUTTI_FORMAT_JSON",
               static_cast<int>(format));
}

}  // namespace tutti

void tutti_text_free(char* text) { std::free(text); }
