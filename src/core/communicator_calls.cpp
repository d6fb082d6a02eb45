// What becomes of a caller's arguments: a plan, a record, and a call for the executor.
#include <algorithm>

#include "core/communicator.h"

namespace tutti {
namespace {

constexpr uint64_t kLeastPulled = 32 * 1024;  // of one message, where pulls are tried

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

// The first block with elements, but for block `but`.
Touched first_block(const Blocks& blocks, uint64_t element_bytes, int nranks, int but = -1) {
  for (int i = 0; i < nranks; ++i) {
    if (i == but || blocks.counts[i] == 0) continue;
    uint64_t begin = blocks.displacements[i] * element_bytes;
    return {.begin = begin, .end = begin + blocks.counts[i] * element_bytes};
  }
  return {.end = 0};
}

// What a call reads of this rank's input: gaps between blocks are the caller's, whose threads may write there.
Touched read_part(const CallArguments& arguments, const Geometry& geometry, int rank, int nranks) {
  if (geometry.input.counts != nullptr) return first_block(geometry.input, size_of(arguments.datatype), nranks);
  return {.near = geometry.input_bytes / nranks * rank};
}

// What it stores into this rank's output. Where others may read that output, all it does is read.
Touched stored_part(const CallArguments& arguments, const Geometry& geometry, int rank, int nranks) {
  bool is_scatter = without_counts(arguments.collective) == TUTTI_SCATTER;
  bool keeps_all = arguments.collective == TUTTI_BROADCAST || (is_scatter && geometry.in_place);
  if (rank == arguments.root && keeps_all) return {};
  if (geometry.output.counts != nullptr) {
    Touched stored = first_block(geometry.output, size_of(arguments.datatype), nranks, geometry.in_place ? rank : -1);
    stored.use = Use::kWrite;
    return stored;
  }
  // In place, this rank's own block stays as it is: one far from it, and from the buffer's edges.
  bool keeps_own = geometry.in_place && arguments.collective != TUTTI_ALL_REDUCE;
  int block = keeps_own ? (rank + nranks / 2) % nranks : rank;
  return {.use = Use::kWrite, .near = geometry.output_bytes / nranks * block};
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
    if (has_profiler_) tell_begin(request, ++calls_, "copy");
    copy_block(arguments, request.geometry, request.own_op);
    return {};
  }
  bool is_bound = is_bound_ && request.is_repeated && !may_have_windows();
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
  announce_call();
  if (has_profiler_) [[unlikely]] tell_begin(request, record_.number(), prepared_->algorithm.c_str());
  if (is_bound) {
    run_.start_again();
    follow_trials();
    return {};
  }
  if (prepared_->connected) return launch();
  connecting_ = true;
  return {};
}

// To ranks that ask, and in messages.
void Communicator::announce_call() {
  record_.set_number(++calls_);
  records_.publish(record_);
  call_.signature = record_.signature();
}

// Nothing was shared when the call was bound. What has been registered since is looked for in begin().
bool Communicator::is_again(const CallArguments& arguments) {
  bool is_bound = is_bound_ && collective_.may_be_repeated && run_.repeats() && !tries_pulls_;
  if (!is_bound || collective_.request.arguments != arguments || arguments.completed != nullptr) return false;
  bool is_usable = !failure_.happened() && !finalized_ && !has_forgotten_.load(std::memory_order_acquire);
  return is_usable && !should_serve_direct() && !may_have_windows();
}

// What begin() and drive() come to where nothing has changed and what has to come is here, or about to be.
Status Communicator::run_again() {
  tutti_request& request = collective_.request;
  active_ = &request;
  slow_since_.reset();
  ++idle_steps_;
  announce_call();
  run_.start_again();
  if (run_.finish(wait_policy_.spin_ns > 0)) {
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
  run_.start(prepared_->programs, call_, links_->peers());
  bool may_be_repeated = active_ == &collective_.request && collective_.may_be_repeated && !may_have_windows();
  bool has_windows = call_.input_window || call_.output_window || call_.landing;
  is_bound_ = may_be_repeated && !has_windows && !active_->geometry.onto_input;
  follow_trials();
  return {};
}

// The active call begins. The one after it is bound anew if it has another way to go.
void Communicator::follow_trials() {
  if (!tries_pulls_) return;
  launched_ = Clock::now();
  is_bound_ = is_bound_ && prepared_->pulls.stays();
}

void Communicator::bind() {
  const CallArguments& arguments = active_->arguments;
  const Geometry& geometry = active_->geometry;
  const PlanShape& shape = prepared_->plan.shape();
  call_.shape = &shape;
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
  call_.flow = active_->flow;
  call_.partition = partition_of(arguments, geometry, shape, rank_);
  call_.size_bytes = std::max(geometry.input_bytes, geometry.output_bytes);
  // Peers work out where a block lies in this rank's output; displacements only this rank knows.
  call_.announces_output = holds(shape.deliver_directly, geometry.in_place) && geometry.output.counts == nullptr;
  choose_ways(geometry.plan_count * size_of(arguments.datatype));
}

// Whether receivers pull private memory. The kernel cannot store past the caches, which decides among near processors;
// among far ones that hardly matters, and a trial shows it.
void Communicator::choose_ways(uint64_t planned_bytes) {
  call_.options = data_path_;
  // By what all ranks know, so that those who can pull at all count the same calls. Less is not worth a look at the
  // clock; and where only some ranks send, those may be done with what slots hold before the others have anything.
  uint64_t least_tried = has_root(active_->arguments.collective) ? 4 << 20 : 64 << 10;
  tries_pulls_ = data_path_.may_try_pulls && planned_bytes >= least_tried && may_be_pulled();
  uint64_t& pull_min_bytes = call_.options.pull_min_bytes;
  if (tries_pulls_) {
    pull_min_bytes = prepared_->pulls.pulls() ? kLeastPulled : UINT64_MAX;
  } else if (call_.size_bytes >= data_path_.streaming_min_bytes) {
    pull_min_bytes = UINT64_MAX;
  }
}

// Whether a peer of the active call can read this rank's private memory, or this rank its.
bool Communicator::may_be_pulled() const {
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
  if (!pays || call_.output_window) return;
  call_.landing = links_->land_in({call_.output, output_bytes});
  landing_ = call_.landing;
}

// Whether this rank has anything of the active call in memory that peers cannot map.
bool Communicator::has_private_buffer() const {
  const Geometry& geometry = active_->geometry;
  return (geometry.input_bytes > 0 && !call_.input_window) || (geometry.output_bytes > 0 && !call_.output_window);
}

// What peers reach anyhow is neither pulled nor copied through slots: such a call says nothing of the two.
void Communicator::tell_trials() {
  if (!tries_pulls_) return;
  if (has_private_buffer()) {
    prepared_->pulls.took(Clock::now() - launched_, call_.size_bytes);
  } else {
    prepared_->pulls.was_alike();
  }
}

void Communicator::hand_over_result() {
  if (Window landing = std::exchange(landing_, {})) links_->land_no_more(landing);
  tell_trials();
  const Geometry& geometry = active_->geometry;
  if (edges_) edges_->copy_edges_out(active_->arguments.output);
  edges_.reset();
  if (!geometry.onto_input) return;
  copy(active_->arguments.output, result_.data(), geometry.output_bytes, Store::kCached);
  result_ = {};
}

bool Communicator::may_have_windows() const {
  constexpr uint64_t kLeast = 32 * 1024;  // less is copied in the time that finding windows takes
  return call_.size_bytes >= kLeast && links_->has_peers_in_memory() && !context_->memory.empty();
}

// Where the caller's buffers lie in memory that peers can map. The call then uses them there.
Status Communicator::find_windows() {
  call_.input_window = call_.output_window = {};
  edges_.reset();
  if (!may_have_windows()) return {};
  const CallArguments& arguments = active_->arguments;
  const Geometry& geometry = active_->geometry;
  auto input = context_->memory.find(call_.input, geometry.input_bytes, read_part(arguments, geometry, rank_, nranks_));
  auto output =
      context_->memory.find(call_.output, geometry.output_bytes, stored_part(arguments, geometry, rank_, nranks_));
  // The edges of an output with gaps would bring back what was in the gaps.
  if (output && output->has_edges() && geometry.output.counts != nullptr) output.reset();
  // What is one block for the caller is one for the executor.
  if (geometry.in_place && (!input || !output || input->region.key != output->region.key)) return {};
  if (input) {
    call_.input_window = TUTTI_TRY(share_for_call(*input));
    input->copy_edges_in(call_.input);
    call_.input = input->data;
  }
  if (output) {
    call_.output_window = TUTTI_TRY(share_for_call(*output));
    call_.output = output->data;
    if (output->has_edges()) edges_ = std::move(output);
  }
  return {};
}

// Peers write there until the call is complete, and devices read: what is sent and received meanwhile takes its place
// nowhere. Where there is no room for it, peers find nothing, and the call goes by slots.
Result<Window> Communicator::share_for_call(const SharedBuffer& buffer) {
  Window window = TUTTI_TRY(links_->share(buffer.region, buffer.data));
  links_->hold(buffer.region.key);
  held_.push_back(buffer.region.key);
  return window;
}

void Communicator::let_go_of_windows() {
  for (uint64_t key : held_) links_->let_go(key);
  held_.clear();
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
  Driver driver(*this);
  if (!driver) return {};
  Turn turn = take_turn();
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
