#include "bootstrap/overlay.h"

namespace tutti::bootstrap {
namespace {

constexpr int64_t kAnswersMs = 500;

}  // namespace

Deadline RollCall::begin() {
  tell();
  begun_ = Deadline::after_ms(kAnswersMs);
  return *begun_;
}

void RollCall::answer() {
  if (!told_ && overlay_.is_anyone_here()) tell();
}

void RollCall::tell() {
  if (!std::exchange(told_, true)) overlay_.flood_here();
}

}  // namespace tutti::bootstrap
