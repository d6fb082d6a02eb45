#include "transports/common/link_state.h"

namespace tutti {

Status LinkState::check() {
  if (ok()) return {};
  if (!failure_.happened() && aborted()) return fail(Code::kAborted, {});
  return failure_.status();
}

Status LinkState::fail(Code code, std::string_view what) {
  // What else goes wrong after abort() is its consequence.
  failure_.set(aborted() ? refuse(Code::kAborted, "aborted by this rank") : refuse(code, what));
  return failure_.status();
}

Status LinkState::refuse(Code code, std::string_view what) const {
  return error(code, "link to rank {} ({}): {}", place_.peer, place_.link, what).at(place_);
}

}  // namespace tutti
