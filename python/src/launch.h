// Launch: turns one operation of c10d into calls of tutti on plain memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <tutti/tutti.h>

#include <optional>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "call.h"
#include "device_call.h"
#include "types.h"

namespace tutti_torch {

class TuttiBackend;

// The names of an operation; static.
struct Named {
  c10d::OpType type;
  const char* name;   // "all_reduce"
  const char* title;  // "tutti:all_reduce", for the profiler
};

// A tensor whose memory can be handed out is used where it lies. Of others (not contiguous, conjugated, of a type that
// travels as another one, lists that do not lie behind each other) a copy is used.
class Launch {
 public:
  // `inputs`: for the profiler. A timeout below zero: the group's. One that nobody waits for apart (`is_async` false) is
  // made by start() at once.
  Launch(TuttiBackend& backend, const Named& named, const std::vector<at::Tensor>& inputs,
         std::chrono::milliseconds timeout, bool is_async);

  // Memory with what is in the tensors; the second one behind each other.
  const void* input(const at::Tensor& tensor, std::optional<at::ScalarType> as = std::nullopt);
  const void* inputs(const std::vector<at::Tensor>& tensors, std::optional<at::ScalarType> as = std::nullopt);
  // Memory whose content ends in the tensors.
  void* output(const at::Tensor& tensor, std::optional<at::ScalarType> as = std::nullopt);
  void* outputs(const std::vector<at::Tensor>& tensors);
  // Both.
  void* in_place(const at::Tensor& tensor, std::optional<at::ScalarType> as = std::nullopt);

  // Memory for a message that ends in the tensor; a shorter one leaves the rest as it is.
  void* received(const at::Tensor& tensor, const Elements& elements);

  // The operation of a reduction, which lives until the calls are started.
  tutti_op_t operation(const Reduction& reduction);

  // A call of so many elements of the tensors.
  tutti_call_t& add(tutti_collective_t collective, const Elements& elements = {}, int64_t count = 0);
  // The counts of a form with counts, and where its blocks begin; live as long as the Launch.
  const uint64_t* counts(const Elements& elements, const std::vector<int64_t>& numels);
  tutti_message_t* message() { return call_->message(); }  // of a receive

  c10::intrusive_ptr<c10d::Work> start(std::vector<at::Tensor> outputs);

 private:
  class OwnOperation;
  // Unless the Work is handed out, the calls that it was to be coalesced with are given up.
  struct Attempt {
    TuttiBackend& backend;
    bool has_succeeded = false;
    ~Attempt();
  };

  void keep(const at::Tensor& tensor) { device_call_ ? device_call_->keep(tensor) : call_->keep(tensor); }
  void copy_out(const at::Tensor& to, const at::Tensor& from);
  c10::intrusive_ptr<c10d::Work> put_on_stream(std::vector<at::Tensor> outputs);

  TuttiBackend& backend_;
  Attempt attempt_{backend_};
  const std::chrono::milliseconds timeout_;
  const bool is_async_;
  // One of the two pairs: of the host, or of a device.
  std::shared_ptr<Call> call_;
  c10::intrusive_ptr<c10d::Work> work_;
  std::shared_ptr<DeviceCall> device_call_;
  c10::intrusive_ptr<DeviceWork> device_work_;
  c10::SmallVector<tutti_call_t, 1> calls_;
  // What the calls refer to.
  struct Used;
  Used& used();
  std::shared_ptr<Used> used_;  // null: nothing

 public:
  ~Launch();
};

// "tutti: broadcast: ..." unless `holds`.
#define TUTTI_TORCH_CHECK(holds, name, ...) TORCH_CHECK_VALUE(holds, "tutti: ", name, ": ", __VA_ARGS__)

}  // namespace tutti_torch
