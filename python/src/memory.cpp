#include "memory.h"

#include <algorithm>

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "communicator.h"

namespace tutti_torch {
namespace {

void check(tutti_status_t status, const char* what, const tutti_comm_t* comm) {
  if (status != TUTTI_SUCCESS) raise(status, what, tutti_last_error(comm), {});
}

}  // namespace

Pool::~Pool() {
  for (auto& [size_bytes, blocks] : free_) {
    for (void* block : blocks) tutti_mem_free(block);
  }
}

at::Tensor Pool::empty(at::IntArrayRef sizes, at::TensorOptions options) {
  TORCH_CHECK_VALUE(options.device().is_cpu(), "tutti: memory that ranks share is the CPU's, not of ",
                    options.device());
  size_t size_bytes = at::detail::computeStorageNbytesContiguous(sizes, options.dtype().itemsize());
  if (size_bytes == 0) return at::empty(sizes, options);
  void* memory = take(size_bytes);
  auto give_back = [pool = shared_from_this(), size_bytes](void* block) { pool->give_back(block, size_bytes); };
  return at::from_blob(memory, sizes, std::move(give_back), options);
}

void* Pool::take(size_t size_bytes) {
  {
    std::lock_guard lock(mutex_);
    used_bytes_ += size_bytes;
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
    if (auto found = free_.find(size_bytes); found != free_.end() && !found->second.empty()) {
      void* block = found->second.back();
      found->second.pop_back();
      free_bytes_ -= size_bytes;
      return block;
    }
  }
  void* block = nullptr;
  tutti_status_t status = tutti_mem_alloc(&block, size_bytes);
  if (status == TUTTI_SUCCESS) return block;
  std::lock_guard lock(mutex_);
  used_bytes_ -= size_bytes;
  raise(status, "allocating memory that ranks share", tutti_last_error(nullptr), {});
}

void Pool::give_back(void* memory, size_t size_bytes) {
  {
    std::lock_guard lock(mutex_);
    used_bytes_ -= size_bytes;
    if (free_bytes_ + size_bytes <= most_used_bytes_) {
      free_[size_bytes].push_back(memory);
      free_bytes_ += size_bytes;
      return;
    }
  }
  tutti_mem_free(memory);
}

std::shared_ptr<Registrar> Registrar::create() {
  tutti_comm_t* comm = nullptr;
  check(tutti_comm_init_rank(&comm, 1, nullptr, 0), "registering memory", nullptr);
  return std::shared_ptr<Registrar>(new Registrar(comm));
}

Registrar::~Registrar() { tutti_comm_destroy(comm_); }

Registration::Registration(std::shared_ptr<Registrar> registrar, at::Tensor tensor)
    : registrar_(std::move(registrar)), tensor_(std::move(tensor)) {
  TORCH_CHECK_TYPE(tensor_.layout() == at::kStrided && tensor_.device().is_cpu(),
                   "tutti: what is registered are dense tensors of the CPU, not ", tensor_.layout(), " ones on ",
                   tensor_.device());
  const at::Storage& storage = tensor_.storage();
  if (storage.nbytes() == 0) return;
  std::lock_guard lock(registrar_->mutex_);
  check(tutti_comm_register(registrar_->comm_, storage.mutable_data(), storage.nbytes(), &handle_),
        "registering memory", registrar_->comm_);
}

// To become ordinary again it needs as much memory once more. What there is no room for stays registered, and so it may
// not be freed.
Registration::~Registration() {
  std::lock_guard lock(registrar_->mutex_);
  tutti_status_t status = tutti_comm_deregister(registrar_->comm_, handle_);
  if (status == TUTTI_SYSTEM_ERROR) registrar_->left_registered_.push_back(tensor_);
}

}  // namespace tutti_torch
