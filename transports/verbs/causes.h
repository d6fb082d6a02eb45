// What a failed completion means, in words.
#pragma once

#include <infiniband/verbs.h>

#include <string_view>

namespace tutti {

// "the peer's port does not answer: ..."
std::string_view cause_of(ibv_wc_status status);
// Whether the work request was only swept out because another one had failed before.
inline bool is_consequence(ibv_wc_status status) { return status == IBV_WC_WR_FLUSH_ERR; }

}  // namespace tutti
