// Collectives of single tensors.
#include "backend.h"
#include "launch.h"

namespace tutti_torch {
namespace {

using c10d::OpType;

void check_one(const std::vector<at::Tensor>& tensors, const char* name) {
  TUTTI_TORCH_CHECK(tensors.size() == 1, name, "takes one tensor, not ", tensors.size());
}

void check_types(const at::Tensor& a, const at::Tensor& b, const char* name) {
  TUTTI_TORCH_CHECK(a.scalar_type() == b.scalar_type(), name, "the tensors are of different types: ", a.scalar_type(),
                    " and ", b.scalar_type());
}

void check_pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, const char* name) {
  TUTTI_TORCH_CHECK(outputs.size() == inputs.size(), name, "there are ", outputs.size(), " outputs, but ",
                    inputs.size(), " inputs");
}

void add_all_reduce(Launch& launch, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  Reduction reduction = reduction_of(op, tensor.scalar_type());
  tutti_call_t& call = launch.add(TUTTI_ALL_REDUCE, reduction.elements, tensor.numel());
  call.op = launch.operation(reduction);
  call.send_buffer = call.recv_buffer = launch.in_place(tensor, reduction.carried_as);
}

void add_all_gather(Launch& launch, const at::Tensor& output, const at::Tensor& input, int size, const char* name) {
  check_types(output, input, name);
  TUTTI_TORCH_CHECK(output.numel() == input.numel() * size, name, "the output has ", output.numel(),
                    " elements; it must have ", input.numel() * size, ", the input's times the ", size, " ranks");
  tutti_call_t& call = launch.add(TUTTI_ALL_GATHER, elements_of(input.scalar_type()), input.numel());
  call.send_buffer = launch.input(input);
  call.recv_buffer = launch.output(output);
}

void add_reduce_scatter(Launch& launch, const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op,
                        int size, const char* name) {
  check_types(output, input, name);
  TUTTI_TORCH_CHECK(input.numel() == output.numel() * size, name, "the input has ", input.numel(),
                    " elements; it must have ", output.numel() * size, ", the output's times the ", size, " ranks");
  Reduction reduction = reduction_of(op, input.scalar_type());
  tutti_call_t& call = launch.add(TUTTI_REDUCE_SCATTER, reduction.elements, output.numel());
  call.op = launch.operation(reduction);
  call.send_buffer = launch.input(input, reduction.carried_as);
  call.recv_buffer = launch.output(output, reduction.carried_as);
}

// How many elements each rank's part of the first dimension has. Without splits all have as many.
std::vector<int64_t> numels_of(const at::Tensor& tensor, const std::vector<int64_t>& splits, int size,
                               const char* what) {
  int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  int64_t row = rows == 0 ? 0 : tensor.numel() / rows;
  if (splits.empty()) {
    TUTTI_TORCH_CHECK(rows % size == 0, "all_to_all_single", "the ", what, "'s first dimension, ", rows,
                      ", is not divisible by the ", size, " ranks; pass split sizes");
    return std::vector<int64_t>(size, rows / size * row);
  }
  TUTTI_TORCH_CHECK(splits.size() == static_cast<size_t>(size), "all_to_all_single", "there are ", splits.size(), " ",
                    what, " splits for ", size, " ranks");
  std::vector<int64_t> numels;
  int64_t sum = 0;
  for (int64_t split : splits) {
    TUTTI_TORCH_CHECK(split >= 0, "all_to_all_single", "a split of the ", what, " is negative");
    numels.push_back(split * row);
    sum += split;
  }
  TUTTI_TORCH_CHECK(sum == rows, "all_to_all_single", "the splits of the ", what, " add up to ", sum,
                    ", but its first dimension is ", rows);
  return numels;
}

}  // namespace

TuttiBackend::WorkPtr TuttiBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  check_one(tensors, "broadcast");
  Launch launch(*this, {OpType::BROADCAST, "broadcast", "tutti:broadcast"}, tensors, options.timeout,
                options.asyncOp);
  const at::Tensor& tensor = tensors.front();
  tutti_call_t& call = launch.add(TUTTI_BROADCAST, elements_of(tensor.scalar_type()), tensor.numel());
  call.root = static_cast<int32_t>(options.rootRank);
  if (options.rootRank == rank_) {
    call.send_buffer = launch.input(tensor);
    call.recv_buffer = const_cast<void*>(call.send_buffer);
  } else {
    call.recv_buffer = launch.output(tensor);
  }
  return launch.start(tensors);
}

TuttiBackend::WorkPtr TuttiBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  check_one(tensors, "all_reduce");
  if (tensors.front().layout() == at::kSparse) return allreduce_sparse(tensors, options);
  Launch launch(*this, {OpType::ALLREDUCE, "all_reduce", "tutti:all_reduce"}, tensors, options.timeout,
                options.asyncOp);
  add_all_reduce(launch, tensors.front(), options.reduceOp);
  return launch.start(tensors);
}

TuttiBackend::WorkPtr TuttiBackend::allreduce_coalesced(Tensors& tensors,
                                                        const c10d::AllreduceCoalescedOptions& options) {
  Launch launch(*this, {OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", "tutti:all_reduce"}, tensors,
                options.timeout, options.asyncOp);
  for (const at::Tensor& tensor : tensors) add_all_reduce(launch, tensor, options.reduceOp);
  return launch.start(tensors);
}

TuttiBackend::WorkPtr TuttiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  check_one(tensors, "reduce");
  Launch launch(*this, {OpType::REDUCE, "reduce", "tutti:reduce"}, tensors, options.timeout, options.asyncOp);
  const at::Tensor& tensor = tensors.front();
  Reduction reduction = reduction_of(options.reduceOp, tensor.scalar_type());
  tutti_call_t& call = launch.add(TUTTI_REDUCE, reduction.elements, tensor.numel());
  call.op = launch.operation(reduction);
  call.root = static_cast<int32_t>(options.rootRank);
  if (options.rootRank == rank_) {
    call.send_buffer = call.recv_buffer = launch.in_place(tensor, reduction.carried_as);
  } else {
    call.send_buffer = launch.input(tensor, reduction.carried_as);
  }
  return launch.start(tensors);
}

TuttiBackend::WorkPtr TuttiBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& options) {
  Launch launch(*this, {OpType::_ALLGATHER_BASE, "all_gather_into_tensor", "tutti:_all_gather_base"}, {input, output},
                options.timeout, options.asyncOp);
  add_all_gather(launch, output, input, size_, "all_gather_into_tensor");
  return launch.start({output});
}

TuttiBackend::WorkPtr TuttiBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_into_tensor_coalesced";
  check_pairs(outputs, inputs, kName);
  Launch launch(*this, {OpType::COALESCED, kName, "tutti:all_gather"}, inputs, options.timeout, options.asyncOp);
  for (size_t i = 0; i < inputs.size(); ++i) add_all_gather(launch, outputs[i], inputs[i], size_, kName);
  return launch.start(outputs);
}

TuttiBackend::WorkPtr TuttiBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                         const c10d::ReduceScatterOptions& options) {
  Launch launch(*this, {OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor", "tutti:_reduce_scatter_base"},
                {input, output}, options.timeout, options.asyncOp);
  add_reduce_scatter(launch, output, input, options.reduceOp, size_, "reduce_scatter_tensor");
  return launch.start({output});
}

TuttiBackend::WorkPtr TuttiBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor_coalesced";
  check_pairs(outputs, inputs, kName);
  Launch launch(*this, {OpType::COALESCED, kName, "tutti:reduce_scatter"}, inputs,
                options.timeout, options.asyncOp);
  for (size_t i = 0; i < inputs.size(); ++i) {
    add_reduce_scatter(launch, outputs[i], inputs[i], options.reduceOp, size_, kName);
  }
  return launch.start(outputs);
}

TuttiBackend::WorkPtr TuttiBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_splits,
                                                  std::vector<int64_t>& input_splits,
                                                  const c10d::AllToAllOptions& options) {
  Launch launch(*this, {OpType::ALLTOALL_BASE, "all_to_all_single", "tutti:all_to_all"}, {input, output},
                options.timeout, options.asyncOp);
  check_types(output, input, "all_to_all_single");
  Elements elements = elements_of(input.scalar_type());
  std::vector<int64_t> in_numels = numels_of(input, input_splits, size_, "input");
  std::vector<int64_t> out_numels = numels_of(output, output_splits, size_, "output");
  bool is_even = input_splits.empty() && output_splits.empty();
  TUTTI_TORCH_CHECK(!is_even || input.numel() == output.numel(), "all_to_all_single", "the input has ",
                    input.numel(), " elements, the output ", output.numel());
  tutti_call_t& call = launch.add(is_even ? TUTTI_ALL_TO_ALL : TUTTI_ALL_TO_ALL_V, elements, in_numels.front());
  if (!is_even) {
    call.send_counts = launch.counts(elements, in_numels);
    call.recv_counts = launch.counts(elements, out_numels);
  }
  call.send_buffer = launch.input(input);
  call.recv_buffer = launch.output(output);
  return launch.start({output});
}

// c10d does not say here which device the barrier is for: it comes behind what this rank's has to do.
TuttiBackend::WorkPtr TuttiBackend::barrier(const c10d::BarrierOptions& options) {
  if (std::optional<c10::Device> device = device_in_use()) streams_.synchronize(*device);
  Launch launch(*this, {OpType::BARRIER, "barrier", "tutti:barrier"}, {}, options.timeout, options.asyncOp);
  launch.add(TUTTI_BARRIER);
  return launch.start({});
}

}  // namespace tutti_torch
