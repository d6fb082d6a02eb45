#include "core/group.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

// Calls up to this size are copied into one that they share: a copy there and back costs less than a call of their own.
constexpr uint64_t kMostFusedBytes = 64 * 1024;
constexpr uint64_t kMostBatchBytes = 4 * 1024 * 1024;

uint64_t vector_bytes(const tutti_request& request) {
  return request.arguments.count * size_of(request.arguments.datatype);
}

// A vector that is reduced or copied element by element, so that several can be joined into one.
bool can_be_fused(const tutti_request& request) {
  Collective collective = request.arguments.collective;
  bool is_vector = collective == TUTTI_ALL_REDUCE || collective == TUTTI_REDUCE || collective == TUTTI_BROADCAST;
  return is_vector && !is_own(request.arguments.op) && vector_bytes(request) <= kMostFusedBytes;
}

bool same_kind(const CallArguments& a, const CallArguments& b) {
  return a.collective == b.collective && a.datatype == b.datatype && a.op == b.op && a.root == b.root;
}

// One call to start: a member as it is, or one that stands for several.
struct Unit {
  tutti_comm* comm = nullptr;
  std::vector<tutti_request*> members;
  uint64_t bytes = 0;           // of all members
  uint64_t offset = 0;          // of theirs in the staging memory
  std::byte* staging = nullptr;
  tutti_request fused;

  bool is_fused() const { return members.size() > 1; }
  tutti_request& request() { return is_fused() ? fused : *members.front(); }

  void pack();
  void unpack() const;
};

void Unit::pack() {
  const tutti_request& first = *members.front();
  fused.arguments = first.arguments;
  fused.arguments.count = bytes / size_of(first.arguments.datatype);
  bool has_input = false, has_output = false;
  std::byte* at = staging;
  for (const tutti_request* member : members) {
    has_input = has_input || member->geometry.input_bytes > 0;
    has_output = has_output || member->geometry.output_bytes > 0;
    if (member->geometry.input_bytes > 0) std::memcpy(at, member->arguments.input, vector_bytes(*member));
    at += vector_bytes(*member);
  }
  fused.arguments.input = has_input ? staging : nullptr;
  fused.arguments.output = has_output ? staging : nullptr;
}

void Unit::unpack() const {
  const std::byte* at = staging;
  for (const tutti_request* member : members) {
    if (member->geometry.output_bytes > 0) std::memcpy(member->arguments.output, at, vector_bytes(*member));
    at += vector_bytes(*member);
  }
}

using Units = std::vector<std::unique_ptr<Unit>>;

// Where the member goes: the last unit of its communicator and kind that has room, which all ranks find alike.
Unit* unit_for(const Units& units, const tutti_comm* comm, const tutti_request& request) {
  if (!can_be_fused(request)) return nullptr;
  auto fits = [&](const std::unique_ptr<Unit>& unit) {
    const tutti_request& first = *unit->members.front();
    return unit->comm == comm && can_be_fused(first) && same_kind(first.arguments, request.arguments) &&
           unit->bytes + vector_bytes(request) <= kMostBatchBytes;
  };
  auto found = std::find_if(units.rbegin(), units.rend(), fits);
  return found == units.rend() ? nullptr : found->get();
}

// Gives every fused unit its part of its communicator's staging memory.
Status place(Units& units) {
  for (auto& unit : units) {
    if (!unit->is_fused()) continue;
    uint64_t total = 0;
    for (auto& other : units) {
      if (other->comm != unit->comm || !other->is_fused()) continue;
      other->offset = total;
      total += (other->bytes + 63) / 64 * 64;
    }
    unit->staging = TUTTI_TRY(unit->comm->communicator->staging(total)) + unit->offset;
  }
  return {};
}

Status start(Unit& unit) {
  Communicator& communicator = *unit.comm->communicator;
  if (unit.is_fused()) {
    unit.pack();
    TUTTI_TRY(communicator.start(unit.fused));
  } else {
    TUTTI_TRY(communicator.start_prepared(unit.request()));
  }
  communicator.progress_alone();
  return {};
}

}  // namespace

Group& Group::of_thread() {
  static thread_local Group group;
  return group;
}

Status Group::add(tutti_comm& comm, const CallArguments& arguments) {
  auto request = std::make_unique<tutti_request>();
  request->arguments = arguments;
  Status admitted = comm.communicator->prepare(*request);
  if (!admitted.ok() && refused_.ok()) refused_ = admitted;
  if (admitted.ok()) members_.push_back({&comm, std::move(request)});
  return admitted;
}

Status Group::end() {
  if (depth_ == 0) return error(Code::kInvalidUsage, "tutti_group_end: no group was begun");
  if (--depth_ > 0) return {};
  std::vector<Member> members = std::exchange(members_, {});
  Status first = std::exchange(refused_, {});
  if (!first.ok()) return first;
  Units units;
  for (Member& member : members) {
    Unit* unit = unit_for(units, member.comm, *member.request);
    if (unit == nullptr) {
      units.push_back(std::make_unique<Unit>());
      unit = units.back().get();
      unit->comm = member.comm;
    }
    unit->members.push_back(member.request.get());
    unit->bytes += vector_bytes(*member.request);
  }
  TUTTI_TRY(place(units));
  size_t started = 0;
  while (started < units.size() && first.ok()) {
    first = start(*units[started]);
    if (first.ok()) ++started;
  }
  for (size_t i = 0; i < started; ++i) {
    Unit& unit = *units[i];
    unit.comm->communicator->wait(unit.request());
    const Status& result = unit.request().result;
    if (result.ok() && unit.is_fused()) unit.unpack();
    if (!result.ok()) unit.comm->keep(result);
    if (first.ok()) first = result;
  }
  return first;
}

}  // namespace tutti
