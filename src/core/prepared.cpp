#include "core/prepared.h"

#include <algorithm>
#include <set>

#include "core/pull_trials.h"
#include "core/thresholds.h"
#include "discovery/text_file.h"
#include "executor/lower.h"
#include "plan/partial.h"
#include "plan/text.h"
#include "plan/validate.h"

namespace tutti {
namespace {

std::string names_of_admitted(const std::vector<Candidate>& candidates) {
  std::vector<std::string_view> names;
  for (const Candidate& candidate : candidates) {
    if (candidate.admitted) names.push_back(candidate.algorithm);
  }
  return fmt::format("{}", fmt::join(names, " "));
}

}  // namespace

PlanCache::PlanCache(const Topology& topology, int rank, Tuning tuning, const StreamLayout& layout)
    : topology_(topology), rank_(rank), layout_(layout), tuning_(std::move(tuning)) {
  tuning_.max_slice_bytes = layout.slot_bytes;
}

Status PlanCache::use(Plan plan) {
  const PlanShape& shape = plan.shape();
  if (shape.nranks != topology_.nranks()) {
    return error(Code::kInvalidUsage, "the plan is for {} ranks, but this communicator has {}", shape.nranks,
                 topology_.nranks());
  }
  if (shape.channels > layout_.channels) {
    return error(Code::kInvalidUsage, "the plan has {} channels; set TUTTI_CHANNELS={} on all ranks", shape.channels,
                 shape.channels);
  }
  if (shape.slice_bytes > layout_.slot_bytes) {
    return error(Code::kInvalidUsage, "the plan has slices of {} bytes; set TUTTI_SLOT_BYTES={} on all ranks",
                 shape.slice_bytes, shape.slice_bytes);
  }
  MappedSlots least = least_mapped_slots(topology_, layout_);
  if (least.most < layout_.slots && !prove(plan, certain_slots(least.most)).ok()) {
    return error(Code::kInvalidUsage,
                 "the plan needs more than {} slots, which is what ranks that take turns have on one of the hosts; "
                 "start fewer ranks for each of its processors", least.most);
  }
  // A proof takes seconds with hundreds of ranks, so it is made only where a payload may be large.
  uint64_t largest_growth = reduces(shape.collective) ? kMostPartialGrowth : 1;
  bool may_be_large = shape.slice_bytes > least.large_bytes / largest_growth;
  bool needs_more = may_be_large && certain_slots(least.most) > certain_slots(2) && !prove(plan, certain_slots(2)).ok();
  most_payload_bytes_ = needs_more ? least.large_bytes : UINT64_MAX;
  TUTTI_TRY(check_payloads(shape, 1));
  fixed_ = std::move(plan);
  return {};
}

Status PlanCache::check_payloads(const PlanShape& shape, uint64_t growth) const {
  if (shape.slice_bytes * growth <= most_payload_bytes_) return {};
  return error(Code::kInvalidUsage,
               "the plan needs more than 2 slots, which is what its payloads of {} bytes have on one of the hosts, "
               "whose ranks take turns; make its slice_bytes {} or less, or start fewer ranks for each processor",
               shape.slice_bytes * growth, most_payload_bytes_ / growth / 64 * 64);
}

Result<Prepared*> PlanCache::get(const Request& request) {
  uint64_t size_class = size_class_bytes(request.size_bytes());
  Key key{request.collective, request.datatype, request.op, request.root, size_class};
  if (last_ != nullptr && key == last_key_) return last_;
  auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    Request largest = request;
    largest.count = std::max<uint64_t>(size_class / size_of(request.datatype), 1);
    auto made = TUTTI_TRY(make(largest));
    made->wish = wish_of(request.collective, size_class);
    found = prepared_.emplace(key, std::move(made)).first;
  }
  last_key_ = key;
  last_ = found->second.get();
  return last_;
}

Result<std::unique_ptr<Prepared>> PlanCache::make(const Request& request) const {
  auto prepared = std::make_unique<Prepared>();
  if (fixed_ && fixed_->shape().collective == request.collective && fixed_->shape().root == request.root) {
    if (request.op == kOrderedFunction) {
      return error(Code::kInvalidUsage,
                   "{} by an operation that does not commute cannot run the plan of TUTTI_PLAN_FILE, whose order is "
                   "not known; leave the file out",
                   name_of(request.collective));
    }
    TUTTI_TRY(check_payloads(fixed_->shape(), partial_growth(request.collective, request.datatype, request.op)));
    prepared->plan = *fixed_;
    prepared->candidates = fixed_->shape().algorithm;
  } else {
    // A wish for an algorithm is one for the collectives that have it.
    Tuning tuning = tuning_;
    if (find_algorithm(request.collective, tuning.algorithm) == nullptr) tuning.algorithm.clear();
    Choice choice = TUTTI_TRY(choose(topology_, request, tuning));
    prepared->plan = std::move(choice.plan);
    prepared->predicted_ns = choice.predicted_ns;
    prepared->candidates = names_of_admitted(choice.candidates);
  }
  const PlanShape& shape = prepared->plan.shape();
  // A partial result may be larger than a slice.
  uint64_t value_bytes = shape.slice_bytes * partial_growth(request.collective, request.datatype, request.op);
  if (value_bytes > layout_.slot_bytes) {
    return error(Code::kInvalidUsage,
                 "the plan has slices of {} bytes, of which partial results in float32 take {}; set "
                 "TUTTI_SLOT_BYTES={} on all ranks",
                 shape.slice_bytes, value_bytes, value_bytes);
  }
  TUTTI_CHECK(shape.channels <= layout_.channels);
  prepared->algorithm = shape.algorithm;
  prepared->plan_digest = prepared->plan.digest();
  std::set<int32_t> peers, senders;
  for (int channel = 0; channel < shape.channels; ++channel) {
    const Program& program = prepared->programs.emplace_back(lower(prepared->plan, rank_, channel));
    peers.insert(program.peers.begin(), program.peers.end());
    for (const Op& op : program.ops) {
      if (op.kind == OpKind::kWait && op.chunk != kNoChunk) senders.insert(op.peer);
    }
  }
  prepared->peers.assign(peers.begin(), peers.end());
  prepared->senders.assign(senders.begin(), senders.end());
  return prepared;
}

Result<Plan> read_plan_file(const std::string& path, int slots) {
  auto plan = parse_plan(TUTTI_TRY(read_text_file(path)));
  Status status = plan.ok() ? prove(*plan, certain_slots(slots)) : plan.status();
  if (status.ok()) return plan;
  return error(status.code(), "{} is no valid plan: {}; correct the file, docs/plans.md has its format", path,
               status.message());
}

}  // namespace tutti
