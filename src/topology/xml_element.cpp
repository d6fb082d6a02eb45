#include "topology/xml_element.h"

#include <expat.h>

#include <memory>

namespace tutti {
namespace {

constexpr size_t kMostBytes = 16 << 20;
constexpr size_t kMostElements = 8192;
constexpr size_t kMostLevels = 32;

struct FreeParser {
  void operator()(XML_ParserStruct* parser) const { XML_ParserFree(parser); }
};

// What expat tells, kept. A level's element is in its parent only once it is complete, so that no pointer to one is
// held while its siblings move.
class Builder {
 public:
  explicit Builder(XML_Parser parser) : parser_(parser) {
    XML_SetUserData(parser, this);
    XML_SetElementHandler(parser, start, end);
    XML_SetStartDoctypeDeclHandler(parser, doctype);
  }

  int line() const { return static_cast<int>(XML_GetCurrentLineNumber(parser_)); }
  const std::string& refusal() const { return refusal_; }
  XmlElement take() { return std::move(document_); }

 private:
  static Builder& self(void* user) { return *static_cast<Builder*>(user); }

  static void start(void* user, const XML_Char* name, const XML_Char** attributes) {
    Builder& builder = self(user);
    if (!builder.refusal_.empty()) return;
    if (builder.open_.size() == kMostLevels) {
      return builder.refuse(fmt::format("has more than {} levels of elements", kMostLevels));
    }
    if (++builder.elements_ > kMostElements) {
      return builder.refuse(fmt::format("has more than {} elements", kMostElements));
    }
    XmlElement element{name, builder.line(), {}, {}};
    for (; *attributes != nullptr; attributes += 2) element.attributes.emplace(attributes[0], attributes[1]);
    builder.open_.push_back(std::move(element));
  }

  static void end(void* user, const XML_Char*) {
    Builder& builder = self(user);
    if (!builder.refusal_.empty() || builder.open_.empty()) return;
    XmlElement element = std::move(builder.open_.back());
    builder.open_.pop_back();
    if (builder.open_.empty()) {
      builder.document_ = std::move(element);
    } else {
      builder.open_.back().children.push_back(std::move(element));
    }
  }

  static void doctype(void* user, const XML_Char*, const XML_Char*, const XML_Char*, int) {
    self(user).refuse("has a document type definition (<!DOCTYPE), which no topology needs; remove it");
  }

  void refuse(std::string reason) {
    refusal_ = std::move(reason);
    XML_StopParser(parser_, XML_FALSE);
  }

  const XML_Parser parser_;
  std::vector<XmlElement> open_;
  XmlElement document_;
  size_t elements_ = 0;
  std::string refusal_;
};

}  // namespace

Result<XmlElement> parse_xml(std::string_view text) {
  if (text.size() > kMostBytes) {
    return error(Code::kInvalidArgument, "line 1: the document has more than {} bytes", kMostBytes);
  }
  std::unique_ptr<XML_ParserStruct, FreeParser> parser(XML_ParserCreate(nullptr));
  if (parser == nullptr) return Status(Code::kSystem, "cannot read XML: out of memory");
  Builder builder(parser.get());
  bool is_whole = XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE) == XML_STATUS_OK;
  if (!builder.refusal().empty()) {
    return error(Code::kInvalidArgument, "line {}: the document {}", builder.line(), builder.refusal());
  }
  if (!is_whole) {
    return error(Code::kInvalidArgument, "line {}: the document is no XML: {}", builder.line(),
                 XML_ErrorString(XML_GetErrorCode(parser.get())));
  }
  return builder.take();
}

}  // namespace tutti
