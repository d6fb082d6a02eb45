// The sum of sparse tensors: every rank gets all non-zero elements, and adds them up.
#include <ATen/ATen.h>

#include "backend.h"
#include "launch.h"
#include "work.h"

namespace tutti_torch {
namespace {

c10d::AllgatherOptions gather_options(std::chrono::milliseconds timeout) {
  c10d::AllgatherOptions options;
  options.timeout = timeout;
  options.asyncOp = false;
  return options;
}

}  // namespace

// Blocks until it is done: how much there is to exchange is known only when the ranks have told each other.
TuttiBackend::WorkPtr TuttiBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  constexpr const char* kName = "all_reduce";
  TUTTI_TORCH_CHECK(tensors.size() == 1, kName, "takes one tensor, not ", tensors.size());
  at::Tensor& tensor = tensors.front();
  TUTTI_TORCH_CHECK(tensor.layout() == at::kSparse && tensor.device().is_cpu(), kName,
                    "of sparse tensors, those of the layout torch.sparse_coo on the CPU can be reduced");
  TUTTI_TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM, kName, "of sparse tensors there is only the SUM");
  at::NoGradGuard no_grad;
  at::Tensor own = tensor.coalesce();
  at::Tensor indices = own.indices().t().contiguous(), values = own.values().contiguous();
  auto gathering = gather_options(options.timeout);
  // The sparse dimensions, too: of tensors without elements it says whether the others' fit.
  at::Tensor shape = at::tensor({values.size(0), indices.size(1), values.dim()}, at::kLong);
  at::Tensor shapes = at::empty({size_, 3}, at::kLong);
  _allgather_base(shapes, shape, gathering)->wait();
  std::vector<Tensors> all_indices(1), all_values(1);
  for (int rank = 0; rank < size_; ++rank) {
    TUTTI_TORCH_CHECK(shapes[rank].narrow(0, 1, 2).equal(shape.narrow(0, 1, 2)), kName, "rank ", rank,
                      "'s sparse tensor has other sparse and dense dimensions");
    int64_t count = shapes[rank][0].item<int64_t>();
    auto value_sizes = values.sizes().vec();
    value_sizes[0] = count;
    all_indices[0].push_back(at::empty({count, indices.size(1)}, indices.options()));
    all_values[0].push_back(at::empty(value_sizes, values.options()));
  }
  Tensors own_indices = {indices}, own_values = {values};
  allgather(all_indices, own_indices, gathering)->wait();
  allgather(all_values, own_values, gathering)->wait();
  at::Tensor sum = at::sparse_coo_tensor(at::cat(all_indices[0]).t(), at::cat(all_values[0]), tensor.sizes());
  tensor.copy_(sum.coalesce());
  auto call = std::make_shared<Call>(communicator_, kName, options_->timeout);
  call->set_outputs(tensors);
  auto work = c10::make_intrusive<TuttiWork>(rank_, c10d::OpType::_ALLREDUCE_SPARSE, nullptr, tensors, call,
                                             getSequenceNumberForGroup());
  call->finish();
  return work;
}

}  // namespace tutti_torch
