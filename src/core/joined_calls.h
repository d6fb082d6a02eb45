// Small calls of a group that become one: each has its part of one buffer.
#pragma once

#include <span>

#include "core/request.h"

namespace tutti {

// Bytes of the vector that each rank has.
uint64_t vector_bytes(const tutti_request& request);

// Whether such a call may share one with others: a small vector that is reduced or copied element by element.
bool can_be_joined(const tutti_request& request);
// And whether these two may. All ranks find that alike.
bool may_share(const tutti_request& a, const tutti_request& b);

// Calls that share one have this many bytes at most.
constexpr uint64_t kMostJoinedBytes = 4 * 1024 * 1024;

// Makes `joined` the call that stands for `members`, whose vectors lie at `at`, one after the other. Not admitted yet.
void join(tutti_request& joined, std::span<tutti_request* const> members, std::byte* at);

}  // namespace tutti
