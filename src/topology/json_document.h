// Writes a described struct as a document with the head that read_document() asks for.
#pragma once

#include <string>
#include <string_view>

#include "topology/json_writer.h"

namespace tutti {

// Text that is no UTF-8 is written with replacement characters.
template <typename T>
std::string write_document(const T& value, std::string_view format, int version) {
  using Json = JsonWriter::Json;
  JsonWriter writer;
  writer.text("format", std::string(format));
  writer.number("version", version, 0, 0);
  describe(writer, value);
  return std::move(writer).take().dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace tutti
