#include "core/call_windows.h"

#include <utility>

#include "base/types.h"

namespace tutti {
namespace {

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

Status CallWindows::find(Call& call, const CallArguments& arguments, const Geometry& geometry, int rank, int nranks) {
  forgo(call);
  looked_ = true;
  changes_ = memory_.changes();
  has_input_ = geometry.input_bytes > 0;
  has_output_ = geometry.output_bytes > 0;
  Found input{.data = const_cast<std::byte*>(call.input), .touched = read_part(arguments, geometry, rank, nranks)};
  Found output{.data = call.output, .touched = stored_part(arguments, geometry, rank, nranks)};
  input.buffer = memory_.find(input.data, geometry.input_bytes, input.touched);
  output.buffer = memory_.find(output.data, geometry.output_bytes, output.touched);
  // The edges of an output with gaps would bring back what was in the gaps.
  if (output.buffer && output.buffer->has_edges() && geometry.output.counts != nullptr) output.buffer.reset();
  // What is one block for the caller is one for the executor.
  bool is_split = !input.buffer || !output.buffer || input.buffer->region.key != output.buffer->region.key;
  if (geometry.in_place && is_split) return {};
  if (input.buffer) {
    call.input_window = TUTTI_TRY(share(*input.buffer));
    call.input = input.buffer->data;
  }
  if (output.buffer) {
    call.output_window = TUTTI_TRY(share(*output.buffer));
    call.output = output.buffer->data;
  }
  input_ = std::move(input);
  output_ = std::move(output);
  return {};
}

void CallWindows::forgo(Call& call) {
  call.input_window = call.output_window = {};
  looked_ = false;
  input_ = output_ = {};
}

bool CallWindows::stay() const {
  return !looked_ || (changes_ == memory_.changes() && is_there(input_) && is_there(output_));
}

bool CallWindows::is_there(const Found& found) {
  return !found.buffer || found.buffer->is_at(found.data, found.touched);
}

// Peers write there until the call is complete, and devices read. Where there is no room for it, peers find nothing,
// and the call goes by slots.
Result<Window> CallWindows::share(SharedBuffer& buffer) {
  Window window = TUTTI_TRY(links_.share(buffer.region, buffer.data));
  links_.hold(buffer.region.key);
  held_.push_back(buffer.region.key);
  buffer.region.owner.reset();
  return window;
}

void CallWindows::let_go() {
  for (uint64_t key : held_) links_.let_go(key);
  held_.clear();
}

void CallWindows::copy_edges_in() const {
  if (input_.buffer) input_.buffer->copy_edges_in(input_.data);
}

void CallWindows::copy_edges_out() const {
  if (output_.buffer) output_.buffer->copy_edges_out(output_.data);
}

}  // namespace tutti
