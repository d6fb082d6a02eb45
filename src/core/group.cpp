#include "core/group.h"

#include <algorithm>
#include <cstring>
#include <map>
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
  Status failure;               // why it cannot start
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
  fused.members = static_cast<uint32_t>(members.size());
  bool has_input = false, has_output = false;
  std::byte* at = staging;
  for (const tutti_request* member : members) {
    has_input = has_input || member->geometry.input_bytes > 0;
    has_output = has_output || member->geometry.output_bytes > 0;
    if (member->geometry.input_bytes > 0) std::memcpy(at, member->arguments.input, vector_bytes(*member));
    at += vector_bytes(*member);
    // Ranks whose calls only add up alike must not take each other's elements for their own.
    fused.counts_digest = (fused.counts_digest ^ (member->arguments.count + 1)) * 0x9e3779b97f4a7c15;
    fused.counts_digest ^= fused.counts_digest >> 29;
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
using StagingByComm = std::map<tutti_comm*, StagingPool::Memory>;

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

// Gives every fused unit its part of staging memory, which the result holds. Where memory is short the other ranks of
// that communicator are told, since they will wait, and its units fail.
StagingByComm place(Units& units) {
  StagingByComm memory;
  std::map<tutti_comm*, uint64_t> totals;
  for (auto& unit : units) {
    if (!unit->is_fused()) continue;
    uint64_t& total = totals[unit->comm];
    unit->offset = total;
    total += (unit->bytes + 63) / 64 * 64;
  }
  for (auto& [comm, total] : totals) {
    auto staging = comm->communicator->staging(total);
    if (!staging.ok()) comm->communicator->break_down(staging.status());
    for (auto& unit : units) {
      if (unit->comm != comm || !unit->is_fused()) continue;
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
    if (!unit.is_fused()) return communicator.start_prepared(unit.request());
    unit.pack();
    return communicator.start(unit.fused);
  });
  // What only this rank suffers would leave the others waiting for it.
  if (started.code() == Code::kSystem || started.code() == Code::kInternal) communicator.break_down(started);
  return started;
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

Status Group::add(tutti_comm& comm, const CallArguments& arguments) {
  Status admitted = guarded([&]() -> Status {
    auto request = std::make_unique<tutti_request>();
    request->arguments = arguments;
    TUTTI_TRY(comm.communicator->admit(*request));
    members_.push_back({&comm, std::move(request)});
    return {};
  });
  if (admitted.ok()) return {};
  // The other ranks may have made the call before it failed: they go on with the group's other communicators.
  bool has_failed = !comm.communicator->status().ok();
  Status& kept = has_failed ? failed_ : refused_;
  if (kept.ok()) kept = admitted;
  return admitted;
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
    unit->members.push_back(member.request.get());
    unit->bytes += vector_bytes(*member.request);
  }
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
    if (result.ok() && unit.is_fused()) unit.unpack();
    if (!result.ok()) {
      unit.comm->keep(result);
      if (unit.is_fused()) staging.at(unit.comm).abandon();
    }
    if (first.ok()) first = result;
  }
  return first;
}

}  // namespace tutti
