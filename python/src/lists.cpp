// Collectives of lists of tensors, whose sizes may differ.
#include <algorithm>

#include "backend.h"
#include "launch.h"

namespace tutti_torch {
namespace {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;

void check_list(const Tensors& list, const at::Tensor& other, int size, const char* name) {
  TUTTI_TORCH_CHECK(list.size() == static_cast<size_t>(size), name, "there are ", list.size(), " tensors for ", size,
                    " ranks");
  for (const at::Tensor& tensor : list) {
    TUTTI_TORCH_CHECK(tensor.scalar_type() == other.scalar_type(), name, "the tensors are of different types: ",
                      tensor.scalar_type(), " and ", other.scalar_type());
  }
}

// What only one rank has.
const Tensors& only(const std::vector<Tensors>& lists, const char* name) {
  TUTTI_TORCH_CHECK(lists.size() == 1, name, "takes one list of tensors, not ", lists.size());
  return lists.front();
}

const at::Tensor& only(const Tensors& tensors, const char* name) {
  TUTTI_TORCH_CHECK(tensors.size() == 1, name, "takes one tensor, not ", tensors.size());
  return tensors.front();
}

void check_none(const std::vector<Tensors>& lists, const char* name) {
  bool is_none = std::all_of(lists.begin(), lists.end(), [](auto& list) { return list.empty(); });
  TUTTI_TORCH_CHECK(is_none, name, "a list of tensors is the root's alone");
}

Tensors joined(const Tensors& list, const at::Tensor& tensor) {
  Tensors all = list;
  all.push_back(tensor);
  return all;
}

std::vector<int64_t> numels_of(const Tensors& tensors) {
  std::vector<int64_t> numels;
  for (const at::Tensor& tensor : tensors) numels.push_back(tensor.numel());
  return numels;
}

bool are_alike(const std::vector<int64_t>& numels) {
  return std::all_of(numels.begin(), numels.end(), [&](int64_t numel) { return numel == numels.front(); });
}

// All ranks know all sizes: they agree on the form.
void add_all_gather(Launch& launch, const Tensors& outputs, const at::Tensor& input, int rank, int size,
                    const char* name) {
  check_list(outputs, input, size, name);
  TUTTI_TORCH_CHECK(outputs[rank].numel() == input.numel(), name, "output ", rank, ", this rank's own, has ",
                    outputs[rank].numel(), " elements, but the input ", input.numel());
  Elements elements = elements_of(input.scalar_type());
  std::vector<int64_t> numels = numels_of(outputs);
  bool is_even = are_alike(numels);
  tutti_call_t& call = launch.add(is_even ? TUTTI_ALL_GATHER : TUTTI_ALL_GATHER_V, elements, input.numel());
  if (!is_even) call.recv_counts = launch.counts(elements, numels);
  call.send_buffer = launch.input(input);
  call.recv_buffer = launch.outputs(outputs);
}

}  // namespace

TuttiBackend::WorkPtr TuttiBackend::allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather";
  const Tensors& list = only(outputs, kName);
  const at::Tensor& input = only(inputs, kName);
  Launch launch(*this, {OpType::ALLGATHER, kName, "tutti:all_gather"}, joined(list, input), options.timeout,
                options.asyncOp);
  add_all_gather(launch, list, input, rank_, size_, kName);
  return launch.start(list);
}

TuttiBackend::WorkPtr TuttiBackend::allgather_coalesced(Lists& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_coalesced";
  TUTTI_TORCH_CHECK(outputs.size() == static_cast<size_t>(size_), kName, "there are ", outputs.size(), " lists for ",
                    size_, " ranks");
  Launch launch(*this, {OpType::ALLGATHER_COALESCED, kName, "tutti:all_gather"}, inputs, options.timeout,
                options.asyncOp);
  Tensors all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_ranks;
    for (const Tensors& list : outputs) {
      TUTTI_TORCH_CHECK(list.size() == inputs.size(), kName, "a list has ", list.size(), " tensors, but there are ",
                        inputs.size(), " inputs");
      of_ranks.push_back(list[i]);
    }
    add_all_gather(launch, of_ranks, inputs[i], rank_, size_, kName);
    all.insert(all.end(), of_ranks.begin(), of_ranks.end());
  }
  return launch.start(std::move(all));
}

// Only the root knows all sizes, so the form with counts is everybody's.
TuttiBackend::WorkPtr TuttiBackend::gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  constexpr const char* kName = "gather";
  const at::Tensor& input = only(inputs, kName);
  bool is_root = options.rootRank == rank_;
  if (!is_root) check_none(outputs, kName);
  Tensors list = is_root ? only(outputs, kName) : Tensors();
  Launch launch(*this, {OpType::GATHER, kName, "tutti:gather"}, joined(list, input), options.timeout,
                options.asyncOp);
  Elements elements = elements_of(input.scalar_type());
  tutti_call_t& call = launch.add(TUTTI_GATHER_V, elements, input.numel());
  call.root = static_cast<int32_t>(options.rootRank);
  call.send_buffer = launch.input(input);
  if (is_root) {
    check_list(list, input, size_, kName);
    call.recv_counts = launch.counts(elements, numels_of(list));
    call.recv_buffer = launch.outputs(list);
  }
  return launch.start(std::move(list));
}

TuttiBackend::WorkPtr TuttiBackend::scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) {
  constexpr const char* kName = "scatter";
  const at::Tensor& output = only(outputs, kName);
  bool is_root = options.rootRank == rank_;
  if (!is_root) check_none(inputs, kName);
  Tensors list = is_root ? only(inputs, kName) : Tensors();
  Launch launch(*this, {OpType::SCATTER, kName, "tutti:scatter"}, joined(list, output), options.timeout,
                options.asyncOp);
  Elements elements = elements_of(output.scalar_type());
  tutti_call_t& call = launch.add(TUTTI_SCATTER_V, elements, output.numel());
  call.root = static_cast<int32_t>(options.rootRank);
  call.recv_buffer = launch.output(output);
  if (is_root) {
    check_list(list, output, size_, kName);
    call.send_counts = launch.counts(elements, numels_of(list));
    call.send_buffer = launch.inputs(list);
  }
  return launch.start({output});
}

TuttiBackend::WorkPtr TuttiBackend::reduce_scatter(Tensors& outputs, Lists& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter";
  const at::Tensor& output = only(outputs, kName);
  const Tensors& list = only(inputs, kName);
  Launch launch(*this, {OpType::REDUCE_SCATTER, kName, "tutti:reduce_scatter"}, joined(list, output),
                options.timeout, options.asyncOp);
  check_list(list, output, size_, kName);
  TUTTI_TORCH_CHECK(list[rank_].numel() == output.numel(), kName, "input ", rank_, ", this rank's own, has ",
                    list[rank_].numel(), " elements, but the output ", output.numel());
  Reduction reduction = reduction_of(options.reduceOp, output.scalar_type());
  std::vector<int64_t> numels = numels_of(list);
  bool is_even = are_alike(numels);
  tutti_call_t& call = launch.add(is_even ? TUTTI_REDUCE_SCATTER : TUTTI_REDUCE_SCATTER_V, reduction.elements,
                                  output.numel());
  call.op = launch.operation(reduction);
  if (!is_even) call.recv_counts = launch.counts(reduction.elements, numels);
  call.send_buffer = launch.inputs(list, reduction.carried_as);
  call.recv_buffer = launch.output(output, reduction.carried_as);
  return launch.start({output});
}

TuttiBackend::WorkPtr TuttiBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all";
  Tensors all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  Launch launch(*this, {OpType::ALLTOALL, kName, "tutti:all_to_all"}, all, options.timeout, options.asyncOp);
  TUTTI_TORCH_CHECK(!inputs.empty(), kName, "there are no inputs");
  check_list(inputs, inputs.front(), size_, kName);
  check_list(outputs, inputs.front(), size_, kName);
  Elements elements = elements_of(inputs.front().scalar_type());
  tutti_call_t& call = launch.add(TUTTI_ALL_TO_ALL_V, elements);
  call.send_counts = launch.counts(elements, numels_of(inputs));
  call.recv_counts = launch.counts(elements, numels_of(outputs));
  call.send_buffer = launch.inputs(inputs);
  call.recv_buffer = launch.outputs(outputs);
  return launch.start(outputs);
}

}  // namespace tutti_torch
