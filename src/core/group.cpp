#include "core/group.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "core/joined_calls.h"

namespace tutti {
namespace {

// One call to start: a member as it is, or one that stands for several.
struct Unit {
  tutti_comm* comm = nullptr;
  std::vector<StreamCalls::Part> parts;
  uint64_t bytes = 0;           // of all parts
  uint64_t offset = 0;          // of theirs in the staging memory
  std::byte* staging = nullptr;
  Status failure;               // why it cannot start
  tutti_request joined;

  bool is_joined() const { return parts.size() > 1; }
  tutti_request& request() { return is_joined() ? joined : *parts.front().request; }

  void pack();
  void unpack() const;
};

void Unit::pack() {
  std::vector<tutti_request*> members;
  for (const StreamCalls::Part& part : parts) members.push_back(part.request.get());
  join(joined, members, staging);
  std::byte* at = staging;
  for (const tutti_request* member : members) {
    if (member->geometry.input_bytes > 0) std::memcpy(at, member->arguments.input, vector_bytes(*member));
    at += vector_bytes(*member);
  }
}

void Unit::unpack() const {
  const std::byte* at = staging;
  for (const StreamCalls::Part& part : parts) {
    const tutti_request& member = *part.request;
    if (member.geometry.output_bytes > 0) std::memcpy(member.arguments.output, at, vector_bytes(member));
    at += vector_bytes(member);
  }
}

using Units = std::vector<std::unique_ptr<Unit>>;
using StagingByComm = std::map<tutti_comm*, StagingPool::Memory>;

// Where a call goes: the last unit of its communicator and kind that has room, which all ranks find alike.
Unit* unit_for(const Units& units, const tutti_comm* comm, const tutti_request& request) {
  if (!can_be_joined(request)) return nullptr;
  auto fits = [&](const std::unique_ptr<Unit>& unit) {
    return unit->comm == comm && may_share(*unit->parts.front().request, request) &&
           unit->bytes + vector_bytes(request) <= kMostJoinedBytes;
  };
  auto found = std::find_if(units.rbegin(), units.rend(), fits);
  return found == units.rend() ? nullptr : found->get();
}

// Gives every joined unit its part of staging memory, which the result holds. Where memory is short the other ranks of
// that communicator are told, since they will wait, and its units fail.
StagingByComm place(Units& units) {
  StagingByComm memory;
  std::map<tutti_comm*, uint64_t> totals;
  for (auto& unit : units) {
    if (!unit->is_joined()) continue;
    uint64_t& total = totals[unit->comm];
    unit->offset = total;
    total += (unit->bytes + 63) / 64 * 64;
  }
  for (auto& [comm, total] : totals) {
    auto staging = comm->communicator->staging(total);
    if (!staging.ok()) comm->communicator->break_down(staging.status());
    for (auto& unit : units) {
      if (unit->comm != comm || !unit->is_joined()) continue;
      if (staging.ok()) unit->staging = staging->data() + unit->offset;
      if (!staging.ok()) unit->failure = staging.status();
    }
    if (staging.ok()) memory.emplace(comm, std::move(*staging));
  }
  return memory;
}

Status start(Unit& unit) {
  if (!unit.failure.ok()) return unit.failure;
  Communicator& communicator = *unit.comm->communicator;
  Status started = guarded([&] {
    if (!unit.is_joined()) return communicator.start_prepared(unit.request());
    unit.pack();
    return communicator.start(unit.joined);
  });
  // What only this rank suffers would leave the others waiting for it.
  if (started.code() == Code::kSystem || started.code() == Code::kInternal) communicator.break_down(started);
  return started;
}

// The units of communicators of which one call is on a stream leave `units`: there the others come in between.
Units take_those_on_streams(Units& units) {
  std::set<const tutti_comm*> on_streams;
  for (const auto& unit : units) {
    for (const StreamCalls::Part& part : unit->parts) {
      if (part.stream) on_streams.insert(unit->comm);
    }
  }
  auto first = std::stable_partition(units.begin(), units.end(),
                                     [&](const auto& unit) { return !on_streams.contains(unit->comm); });
  Units taken(std::make_move_iterator(first), std::make_move_iterator(units.end()));
  units.erase(first, units.end());
  return taken;
}

Result<StreamCalls::HostParts> put_on_streams(Units& units) {
  if (units.empty()) return StreamCalls::HostParts();
  std::vector<StreamCalls::Call> calls;
  for (auto& unit : units) calls.push_back({unit->comm->communicator.get(), std::move(unit->parts)});
  return units.front()->comm->communicator->run_on_streams(std::move(calls));
}

// Whether who waits for one of the units leaves calls alone that others wait for.
bool are_of_several(const Units& units) {
  return std::any_of(units.begin(), units.end(), [&](const auto& unit) { return unit->comm != units.front()->comm; });
}

}  // namespace

Group& Group::of_thread() {
  static thread_local Group group;
  return group;
}

bool Group::holds(const tutti_comm& comm) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) { return member.comm == &comm; });
}

Status Group::add(tutti_comm& comm, const CallArguments& arguments, std::optional<tutti_stream_t> on_stream) {
  Status admitted = guarded([&]() -> Status {
    auto request = std::make_unique<tutti_request>();
    request->arguments = arguments;
    // Without a stream it may still get into a batch on streams.
    TUTTI_TRY(on_stream ? comm.communicator->admit_for_stream(*request) : comm.communicator->admit(*request));
    members_.push_back({&comm, std::move(request), on_stream});
    return {};
  });
  if (!admitted.ok()) refuse(comm, admitted);
  return admitted;
}

// The other ranks may have made the call before it failed: they go on with the group's other communicators.
void Group::refuse(tutti_comm& comm, const Status& why) {
  bool has_failed = comm.communicator->code() != Code::kOk;
  Status& kept = has_failed ? failed_ : refused_;
  if (kept.ok()) kept = why;
}

Status Group::end() {
  if (depth_ == 0) return error(Code::kInvalidUsage, "tutti_group_end: no group was begun");
  if (--depth_ > 0) return {};
  std::vector<Member> members = std::exchange(members_, {});
  Status first = std::exchange(failed_, {});
  if (Status refused = std::exchange(refused_, {}); !refused.ok()) return refused;
  bool after_fork = std::any_of(members.begin(), members.end(), [](const Member& m) { return m.comm->is_parents(); });
  if (after_fork) return refuse_after_fork("tutti_group_end");
  Units units;
  for (Member& member : members) {
    Unit* unit = unit_for(units, member.comm, *member.request);
    if (unit == nullptr) {
      units.push_back(std::make_unique<Unit>());
      unit = units.back().get();
      unit->comm = member.comm;
    }
    unit->bytes += vector_bytes(*member.request);
    unit->parts.push_back({std::move(member.request), member.on_stream});
  }
  Units on_streams = take_those_on_streams(units);
  auto keep_for_streams = [&](const Status& status) {
    for (const auto& unit : on_streams) unit->comm->keep(status);
    if (first.ok()) first = status;
  };
  auto host_parts = put_on_streams(on_streams);
  if (!host_parts.ok()) keep_for_streams(host_parts.status());
  StagingByComm staging = place(units);
  bool needs_engine = are_of_several(units);
  // A communicator that has failed keeps none of the others from what their ranks wait for.
  std::vector<bool> started;
  started.reserve(units.size());
  for (auto& unit : units) {
    Status status = start(*unit);
    started.push_back(status.ok());
    if (status.ok() && needs_engine) unit->comm->communicator->progress_alone();
    if (!status.ok()) unit->comm->keep(status);
    if (first.ok()) first = std::move(status);
  }
  for (size_t i = 0; i < units.size(); ++i) {
    if (!started[i]) continue;
    Unit& unit = *units[i];
    unit.comm->communicator->wait(unit.request());
    const Status& result = unit.request().result;
    if (result.ok() && unit.is_joined()) unit.unpack();
    if (!result.ok()) {
      unit.comm->keep(result);
      if (unit.is_joined()) staging.at(unit.comm).abandon();
    }
    if (first.ok()) first = result;
  }
  if (host_parts.ok()) keep_for_streams(host_parts->wait());
  return first;
}

}  // namespace tutti
