// What becomes of a caller's arguments: a plan, a record, and a call for the executor.
#include <algorithm>

#include "core/communicator.h"
#include "core/thresholds.h"

namespace tutti {
namespace {

// Without peers a call copies the one block.
void copy_block(const CallArguments& arguments, const Geometry& geometry, const OwnOp& own_op) {
  if (geometry.input_bytes == 0) return;
  uint64_t element = size_of(arguments.datatype);
  if (arguments.op == kPreMulSum) {
    return scale(arguments.datatype, arguments.output, arguments.input, geometry.input_bytes / element,
                 own_op.factor.data());
  }
  if (geometry.in_place) return;
  uint64_t from = geometry.input.counts != nullptr ? arguments.send_displacements[0] * element : 0;
  uint64_t to = geometry.output.counts != nullptr ? arguments.recv_displacements[0] * element : 0;
  copy(arguments.output + to, arguments.input + from, geometry.input_bytes - from, Store::kCached);
}

}  // namespace

// Puts in place of the number of an operation of the program what kind it is.
Status Communicator::resolve_op(CallArguments& arguments, OwnOp& own_op) const {
  if (!reduces(arguments.collective) || is_valid(arguments.op)) return {};
  own_op = TUTTI_TRY(own_ops_.find(arguments.op, arguments.datatype));
  arguments.op = own_op.kind;
  return {};
}

Status Communicator::begin(tutti_request& request) {
  const CallArguments& arguments = request.arguments;
  slow_since_.reset();
  connecting_ = false;
  if (nranks_ == 1) {
    if (has_profiler()) tell_profiler(request, ++calls_, "copy");
    copy_block(arguments, request.geometry, request.own_op);
    return {};
  }
  bool is_bound = is_bound_ && request.is_repeated && windows_->stay() && wishes_seen_ == wishes_of_peers();
  if (!is_bound) {
    is_bound_ = false;
    prepared_ = TUTTI_TRY(plan_with_turn(arguments, request.geometry));
    record_ = NumberedRecord({.collective = arguments.collective,
                              .datatype = arguments.datatype,
                              .op = is_own(arguments.op) ? request.own_op.number : arguments.op,
                              .root = arguments.root,
                              .count = request.geometry.said_count,
                              .plan_digest = prepared_->plan_digest,
                              .counts_digest = request.counts_digest,
                              .members = request.members});
  }
  announce_call(request.number != 0 ? request.number : calls_ + 1);
  if (has_profiler()) [[unlikely]] tell_profiler(request, record_.number(), prepared_->algorithm.c_str());
  if (is_bound) {
    windows_->copy_edges_in();
    run_.start_again();
    follow_trials();
    return {};
  }
  if (prepared_->connected) return launch();
  connecting_ = true;
  return {};
}

// To ranks that ask, and in messages.
void Communicator::announce_call(uint64_t number) {
  calls_ = number;
  record_.set_number(number);
  records_.publish(record_);
  call_.signature = record_.signature();
}

bool Communicator::is_again(const CallArguments& arguments) {
  bool is_bound = is_bound_ && collective_.may_be_repeated && run_.repeats() && !may_change_ways();
  if (!is_bound || collective_.request.arguments != arguments || arguments.completed != nullptr) return false;
  bool is_usable = !failure_.happened() && !finalized_ && !has_forgotten_.load(std::memory_order_acquire);
  return is_usable && !should_serve_direct() && windows_->stay();
}

// What begin() and drive() come to where nothing has changed and what has to come is here, or about to be.
Status Communicator::run_again() {
  tutti_request& request = collective_.request;
  active_ = &request;
  slow_since_.reset();
  ++steps_;
  announce_call(calls_ + 1);
  windows_->copy_edges_in();
  run_.start_again();
  follow_trials();
  if (run_.finish(wait_policy_.spin_ns > 0)) {
    windows_->copy_edges_out();
    active_ = nullptr;
    return {};
  }
  request.done.store(false, std::memory_order_relaxed);
  drive(request);
  return std::move(request.result);
}

// Hands the active call to the executor.
Status Communicator::launch() {
  bind();
  TUTTI_TRY(find_windows());
  open_landing();
  wishes_seen_ = wishes_of_peers();
  run_.start(prepared_->programs, call_, links_->peers());
  is_bound_ = may_stay_bound();
  shows_pulls_ = may_change_ways() && !prepared_->senders.empty();
  follow_trials();
  return {};
}

// Whether trials or peers' wishes decide what becomes of some payload of the bound call.
bool Communicator::may_change_ways() const { return may_be_pulled_ && !windows_->found_all(); }

// The active call begins. The one after it is bound anew if it has another way to go.
void Communicator::follow_trials() {
  if (pulls_ == nullptr) return;
  is_bound_ = is_bound_ && (pulls_->stays() || !may_change_ways());
  if (shows_pulls_) launched_ = Clock::now();
  else pulls_->showed_nothing();
}

// The active call has ended.
void Communicator::end_trial() {
  if (!shows_pulls_) return;
  pulls_->took(Clock::now() - launched_, call_.size_bytes);
  for (int32_t rank : prepared_->senders) {
    Peer& sender = *links_->peers()[rank];
    if (sender.mapped()) sender.wish(prepared_->wish, pulls_->prefers_pulls());
  }
}

// What peers wish of a bound call, as one number by which it is seen that they have changed it.
uint64_t Communicator::wishes_of_peers() const {
  if (call_.wish == kNoWish) return 0;
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // so that sums of a few powers differ
  uint64_t wishes = 0;
  for (int32_t rank : prepared_->peers) {
    wishes = wishes * kOdd + (links_->peers()[rank]->is_wished(call_.wish) ? 1 : 0);
  }
  return wishes;
}

void Communicator::bind() {
  const CallArguments& arguments = active_->arguments;
  const Geometry& geometry = active_->geometry;
  const PlanShape& shape = prepared_->plan.shape();
  call_.shape = &shape;
  // With more chunks each rank reduces one of them.
  bool reduces_alone = shape.collective == TUTTI_REDUCE && shape.root == rank_ && shape.chunks == 1;
  call_.peers_rest = reduces_alone && prepared_->peers.size() == static_cast<size_t>(nranks_) - 1;
  call_.datatype = arguments.datatype;
  call_.op = arguments.op;
  call_.own_op = is_own(arguments.op) ? &active_->own_op : nullptr;
  call_.input = arguments.input;
  call_.output = arguments.output;
  if (geometry.onto_input) {
    result_ = BufferPool::of_process().take(geometry.output_bytes);
    call_.output = result_.data();
  }
  call_.in_place = geometry.in_place;
  call_.input_device = active_->input_device ? &active_->input_device->region() : nullptr;
  call_.output_device = active_->output_device ? &active_->output_device->region() : nullptr;
  call_.flow = active_->flow;
  call_.partition = partition_of(arguments, geometry, shape, rank_);
  call_.size_bytes = std::max(geometry.input_bytes, geometry.output_bytes);
  // Peers work out where a block lies in this rank's output; displacements only this rank knows.
  call_.announces_output = holds(shape.deliver_directly, geometry.in_place) && geometry.output.counts == nullptr;
  choose_ways(geometry.plan_count * size_of(arguments.datatype));
}

// Whether receivers pull private memory. The kernel cannot store past the caches, which decides among near processors;
// among far ones that hardly matters, and a trial shows it, unless calibration has found that slots are quicker. What
// all ranks know decides which calls are tried, so that they count the same ones.
void Communicator::choose_ways(uint64_t planned_bytes) {
  call_.options = data_path_;
  call_.common_slots = links_->common_slots();
  Collective collective = active_->arguments.collective;
  int root = prepared_->plan.shape().root;
  call_.streams = streams_results(topology_, rank_, collective, root, active_->geometry, planned_bytes);
  call_.options.spread = data_path_.spread.of_call(call_.size_bytes, reduces(collective), call_.streams);
  bool is_tried = data_path_.collectives_try_pulls && planned_bytes >= kLeastTried;
  pulls_ = is_tried ? &trials_.of(prepared_->wish, planned_bytes) : nullptr;
  may_be_pulled_ = is_tried && reaches_private_memory();
  call_.wish = may_be_pulled_ && !pulls_->in_trial() ? prepared_->wish : kNoWish;
  bool may_pull = is_tried && (call_.wish != kNoWish || pulls_->pulls());
  if (!may_pull) call_.options.pull_min_bytes = UINT64_MAX;
}

// Whether a peer of the active call can read this rank's private memory, or this rank its.
bool Communicator::reaches_private_memory() const {
  return std::any_of(prepared_->peers.begin(), prepared_->peers.end(), [&](int32_t rank) {
    return links_->peers()[rank] && links_->peers()[rank]->link().traits().pullable;
  });
}

// What arrives over sockets may go straight where the caller wants it.
void Communicator::open_landing() {
  call_.landing = {};
  constexpr uint64_t kLeast = 64 * 1024;  // less is copied in the time that it takes to bind each call anew
  uint64_t output_bytes = active_->geometry.output_bytes;
  bool pays = call_.announces_output && output_bytes >= kLeast && links_->has_peers_that_land();
  if (!pays || call_.output_window || call_.is_on_devices()) return;
  call_.landing = links_->land_in({call_.output, output_bytes});
  landing_ = call_.landing;
}

void Communicator::hand_over_result() {
  if (Window landing = std::exchange(landing_, {})) links_->land_no_more(landing);
  end_trial();
  const Geometry& geometry = active_->geometry;
  windows_->copy_edges_out();
  if (!geometry.onto_input) return;
  copy(active_->arguments.output, result_.data(), geometry.output_bytes, Store::kCached);
  result_ = {};
}

// Where the caller's buffers lie in memory that peers can map, or put into. The call then uses them there.
Status Communicator::find_windows() {
  if (call_.is_on_devices()) return find_device_window();
  // Less is copied in the time that finding windows takes, but a call that is made again finds them once, where that
  // pays at all (core/thresholds.cpp).
  constexpr uint64_t kLeast = 32 * 1024;
  uint64_t least = active_->is_repeated ? data_path_.windows_min_bytes : kLeast;
  if (call_.size_bytes < least || !links_->has_peers_in_memory()) {
    windows_->forgo(call_);
    return {};
  }
  TUTTI_TRY(windows_->find(call_, active_->arguments, active_->geometry, rank_, nranks_));
  windows_->copy_edges_in();
  return {};
}

// Peers that do not reach it find nothing.
Status Communicator::find_device_window() {
  windows_->forgo(call_);
  for (int32_t rank : prepared_->peers) links_->look_at_carrier(rank);
  if (call_.output_device == nullptr) return {};
  DeviceRegions::Use& use = *active_->output_device;
  for (int32_t rank : prepared_->peers) {
    if (!links_->peers()[rank]->reaches_device_memory()) continue;
    call_.output_window = TUTTI_TRY(links_->share_device_memory(rank, use.memory(), call_.output, use.told()));
  }
  return {};
}

// Whether the active call, made again, is bound as it is now. What has not been looked for is looked for then.
bool Communicator::may_stay_bound() const {
  bool may_be_repeated = active_ == &collective_.request && collective_.may_be_repeated;
  bool has_looked =
      windows_->has_looked() || call_.size_bytes < data_path_.windows_min_bytes || !links_->has_peers_in_memory();
  bool are_kept = !windows_->found_any() || maps_all_peers();
  return may_be_repeated && has_looked && are_kept && !call_.landing && !active_->geometry.onto_input;
}

bool Communicator::maps_all_peers() const {
  return std::all_of(prepared_->peers.begin(), prepared_->peers.end(),
                     [&](int32_t rank) { return links_->peers()[rank] && links_->peers()[rank]->mapped(); });
}

Result<Prepared*> Communicator::plan_for(CallArguments arguments) {
  std::vector<uint64_t> counts;
  OwnOp own_op;
  TUTTI_TRY(resolve_op(arguments, own_op));
  TUTTI_TRY(keep_counts(arguments, rank_, nranks_, counts));
  Geometry geometry = TUTTI_TRY(geometry_of(arguments, rank_, nranks_));
  Turn turn = take_turn();
  return plan_with_turn(arguments, geometry);
}

std::optional<PlanShape> Communicator::shape_now(const tutti_request& admitted) {
  Turn turn = drive_turn();
  if (!turn) return {};
  auto planned = plan_with_turn(admitted.arguments, admitted.geometry);
  return planned.ok() ? std::optional((*planned)->plan.shape()) : std::nullopt;
}

Result<Prepared*> Communicator::plan_with_turn(const CallArguments& arguments, const Geometry& geometry) {
  return plans_->get({.collective = arguments.collective,
                      .datatype = arguments.datatype,
                      .op = arguments.op,
                      .root = arguments.root,
                      .count = geometry.plan_count});
}

tutti_comm_memory_t Communicator::memory() {
  Turn turn = take_turn();
  tutti_comm_memory_t memory = links_->memory();
  memory.private_bytes += run_.scratch_bytes() + result_.size() + direct_->inbox().kept_bytes();
  memory.pooled_bytes = BufferPool::of_process().idle_bytes() + context_->staging.idle_bytes();
  return memory;
}

}  // namespace tutti
