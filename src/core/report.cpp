#include "core/report.h"

#include <string>

namespace tutti {
namespace {

thread_local std::string last_sentence;

}  // namespace

tutti_status_t report(Status status) {
  if (!status.ok()) last_sentence = status.message();
  return static_cast<tutti_status_t>(status.code());
}

const char* reported() { return last_sentence.c_str(); }

}  // namespace tutti
