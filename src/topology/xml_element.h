// An XML document as plain values with line numbers, within limits that no topology comes near.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti {

struct XmlElement {
  std::string name;
  int line = 0;
  std::map<std::string, std::string, std::less<>> attributes;
  std::vector<XmlElement> children;  // in their order; text between elements is left out

  // Null when it is absent.
  const std::string* attribute(std::string_view key) const {
    auto found = attributes.find(key);
    return found == attributes.end() ? nullptr : &found->second;
  }
};

// The document's element. Errors, with their line: what is not well-formed; a document type definition, which alone
// can define entities; more than 32 levels, 8192 elements or 16 MiB.
Result<XmlElement> parse_xml(std::string_view text);

}  // namespace tutti
