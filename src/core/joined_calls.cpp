#include "core/joined_calls.h"

namespace tutti {
namespace {

// Up to this size: a copy there and back costs less than a call of its own.
constexpr uint64_t kMostBytes = 64 * 1024;

}  // namespace

uint64_t vector_bytes(const tutti_request& request) {
  return request.arguments.count * size_of(request.arguments.datatype);
}

bool can_be_joined(const tutti_request& request) {
  Collective collective = request.arguments.collective;
  bool is_vector = collective == TUTTI_ALL_REDUCE || collective == TUTTI_REDUCE || collective == TUTTI_BROADCAST;
  return is_vector && !is_own(request.arguments.op) && vector_bytes(request) <= kMostBytes;
}

bool may_share(const tutti_request& first, const tutti_request& second) {
  const CallArguments& a = first.arguments;
  const CallArguments& b = second.arguments;
  bool same_kind = a.collective == b.collective && a.datatype == b.datatype && a.op == b.op && a.root == b.root;
  return same_kind && can_be_joined(first) && can_be_joined(second);
}

void join(tutti_request& joined, std::span<tutti_request* const> members, std::byte* at) {
  joined.arguments = members.front()->arguments;
  joined.members = static_cast<uint32_t>(members.size());
  joined.counts_digest = 0;
  joined.arguments.count = 0;
  bool has_input = false, has_output = false;
  for (const tutti_request* member : members) {
    has_input = has_input || member->geometry.input_bytes > 0;
    has_output = has_output || member->geometry.output_bytes > 0;
    joined.arguments.count += member->arguments.count;
    // Ranks whose calls only add up alike must not take each other's elements for their own.
    joined.counts_digest = (joined.counts_digest ^ (member->arguments.count + 1)) * 0x9e3779b97f4a7c15;
    joined.counts_digest ^= joined.counts_digest >> 29;
  }
  joined.arguments.input = has_input ? at : nullptr;
  joined.arguments.output = has_output ? at : nullptr;
}

}  // namespace tutti
