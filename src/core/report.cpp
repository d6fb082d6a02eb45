#include "core/report.h"

#include <string>
#include <utility>

#include "base/memory.h"

namespace tutti {
namespace {

thread_local std::string last_sentence;
thread_local std::string given_sentence;

}  // namespace

tutti_status_t report(const Status& status) noexcept {
  if (!status.ok()) or_end_without_memory([&] { last_sentence = status.message(); });
  return static_cast<tutti_status_t>(status.code());
}

const char* reported() { return last_sentence.c_str(); }

const char* give_sentence(std::string sentence) {
  given_sentence = std::move(sentence);
  return given_sentence.c_str();
}

}  // namespace tutti
