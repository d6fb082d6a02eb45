#include "launch.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "backend.h"
#include "device_streams.h"
#include "work.h"

namespace tutti_torch {
namespace {

// Whether what is in the tensor's memory are its elements in order.
bool is_plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

bool travels_as(const at::Tensor& tensor, const std::optional<at::ScalarType>& as) {
  return !as || tensor.scalar_type() == *as;
}

bool lie_behind_each_other(const std::vector<at::Tensor>& tensors) {
  const char* end = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor)) return false;
    auto* begin = static_cast<const char*>(tensor.const_data_ptr());
    if (tensor.numel() == 0) continue;
    if (end != nullptr && begin != end) return false;
    end = begin + tensor.nbytes();
  }
  return true;
}

void* begin_of(const std::vector<at::Tensor>& tensors) {
  auto first = std::find_if(tensors.begin(), tensors.end(), [](auto& tensor) { return tensor.numel() > 0; });
  return first == tensors.end() ? nullptr : first->data_ptr();
}

int64_t numel_of(const std::vector<at::Tensor>& tensors) {
  int64_t numel = 0;
  for (const at::Tensor& tensor : tensors) numel += tensor.numel();
  return numel;
}

at::Tensor plain_copy(const at::Tensor& tensor, at::ScalarType type) {
  at::NoGradGuard no_grad;
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options().dtype(type).requires_grad(false),
                              at::MemoryFormat::Contiguous);
  return copy.copy_(tensor);
}

}  // namespace

// An operation that is made for one call. Requests keep what they need of it.
class Launch::OwnOperation {
 public:
  OwnOperation(std::shared_ptr<Communicator> communicator, const void* factor, tutti_datatype_t datatype)
      : communicator_(std::move(communicator)) {
    Communicator::Use use(*communicator_, Communicator::Use::For::kCall);
    tutti_status_t status = tutti_op_create_pre_mul_sum(&op_, factor, datatype, use.comm());
    if (status != TUTTI_SUCCESS) raise(status, "PREMUL_SUM", communicator_->sentence(), {});
  }
  ~OwnOperation() {
    Communicator::Use use(*communicator_, Communicator::Use::For::kWait);
    if (use.comm() != nullptr) tutti_op_destroy(op_, use.comm());  // else it went with the communicator
  }
  OwnOperation(const OwnOperation&) = delete;
  OwnOperation& operator=(const OwnOperation&) = delete;
  tutti_op_t op() const { return op_; }

 private:
  const std::shared_ptr<Communicator> communicator_;  // shared with the backend, which may be shut down meanwhile
  tutti_op_t op_ = TUTTI_SUM;
};

struct Launch::Used {
  std::vector<std::vector<uint64_t>> counts;
  std::vector<std::unique_ptr<OwnOperation>> operations;
};

Launch::Launch(TuttiBackend& backend, const Named& named, const std::vector<at::Tensor>& inputs,
               std::chrono::milliseconds timeout, bool is_async)
    : backend_(backend),
      timeout_(timeout.count() > 0 ? timeout : backend.timeout()),
      is_async_(is_async) {
  for (const at::Tensor& tensor : inputs) {
    TUTTI_TORCH_CHECK(tensor.device() == inputs.front().device(), named.name, "the tensors are on different devices: ",
                      inputs.front().device(), " and ", tensor.device());
    TUTTI_TORCH_CHECK(tensor.layout() == at::kStrided, named.name, "the tensor is ", tensor.layout(),
                      "; make it dense with to_dense()");
  }
  uint64_t number = c10d::isP2POp(named.type) ? 0 : backend.next_sequence_number();
  bool is_receive = named.type == c10d::OpType::RECV || named.type == c10d::OpType::RECVANYSOURCE;
  if (inputs.empty() || inputs.front().device().is_cpu() || is_receive) {
    call_ = std::make_shared<Call>(backend.communicator(), named.name, timeout_);
    work_ = c10::make_intrusive<TuttiWork>(backend.getRank(), named.type, named.title, inputs, call_, number);
  } else {
    device_call_ = std::make_shared<DeviceCall>(backend.communicator(), named.name, inputs.front().device());
    device_work_ = c10::make_intrusive<DeviceWork>(backend.getRank(), named.type, named.title, inputs, device_call_,
                                                   number);
  }
}

Launch::~Launch() = default;

void Launch::copy_out(const at::Tensor& to, const at::Tensor& from) {
  device_call_ ? device_call_->copy_out(to, from) : call_->copy_out(to, from);
}

Launch::Used& Launch::used() {
  if (used_ == nullptr) used_ = std::make_shared<Used>();
  return *used_;
}

Launch::Attempt::~Attempt() {
  if (!has_succeeded) backend.stop_coalescing();
}

const void* Launch::input(const at::Tensor& tensor, std::optional<at::ScalarType> as) {
  bool is_direct = is_plain(tensor) && travels_as(tensor, as);
  at::Tensor memory = is_direct ? tensor : plain_copy(tensor, as.value_or(tensor.scalar_type()));
  keep(memory);
  return memory.const_data_ptr();
}

const void* Launch::inputs(const std::vector<at::Tensor>& tensors, std::optional<at::ScalarType> as) {
  if (tensors.size() == 1) return input(tensors.front(), as);
  bool are_direct = lie_behind_each_other(tensors);
  for (const at::Tensor& tensor : tensors) are_direct = are_direct && travels_as(tensor, as);
  if (are_direct) {
    for (const at::Tensor& tensor : tensors) keep(tensor);
    return begin_of(tensors);
  }
  at::NoGradGuard no_grad;
  auto options = tensors.front().options().dtype(as.value_or(tensors.front().scalar_type())).requires_grad(false);
  at::Tensor memory = at::empty({numel_of(tensors)}, options);
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    memory.narrow(0, begin, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    begin += tensor.numel();
  }
  keep(memory);
  return memory.const_data_ptr();
}

void* Launch::output(const at::Tensor& tensor, std::optional<at::ScalarType> as) {
  if (is_plain(tensor) && travels_as(tensor, as)) {
    keep(tensor);
    return tensor.data_ptr();
  }
  auto options = tensor.options().dtype(as.value_or(tensor.scalar_type())).requires_grad(false);
  at::Tensor memory = at::empty(tensor.sizes(), options, at::MemoryFormat::Contiguous);
  copy_out(tensor, memory);
  return memory.data_ptr();
}

void* Launch::outputs(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() == 1) return output(tensors.front());
  if (lie_behind_each_other(tensors)) {
    for (const at::Tensor& tensor : tensors) keep(tensor);
    return begin_of(tensors);
  }
  at::NoGradGuard no_grad;
  at::Tensor memory = at::empty({numel_of(tensors)}, tensors.front().options().requires_grad(false));
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    copy_out(tensor, memory.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
  return memory.data_ptr();
}

void* Launch::in_place(const at::Tensor& tensor, std::optional<at::ScalarType> as) {
  if (is_plain(tensor) && travels_as(tensor, as)) {
    keep(tensor);
    return tensor.data_ptr();
  }
  at::Tensor memory = plain_copy(tensor, as.value_or(tensor.scalar_type()));
  copy_out(tensor, memory);
  return memory.data_ptr();
}

void* Launch::received(const at::Tensor& tensor, const Elements& elements) {
  if (tensor.is_cpu()) return in_place(tensor);
  auto stream = backend_.streams().get(tensor.device(), DeviceStreams::Use::kReceives);
  return call_->land(std::make_unique<Landing>(tensor, stream), elements.per_element);
}

tutti_op_t Launch::operation(const Reduction& reduction) {
  if (reduction.factor == nullptr) return reduction.op;
  const at::Tensor& given = reduction.factor->tensor_factor;
  at::Tensor factor = given.defined() ? given.to(at::kCPU, at::kDouble) : at::scalar_tensor(
      reduction.factor->double_factor, at::kDouble);
  // Complex numbers are multiplied as two reals.
  at::Tensor scalar = factor.to(c10::toRealValueType(reduction.carried_as)).contiguous();
  used().operations.push_back(std::make_unique<OwnOperation>(backend_.communicator(), scalar.const_data_ptr(),
                                                             reduction.elements.datatype));
  return used().operations.back()->op();
}

tutti_call_t& Launch::add(tutti_collective_t collective, const Elements& elements, int64_t count) {
  tutti_call_t& call = calls_.emplace_back();
  call = {.struct_size = sizeof(tutti_call_t), .collective = collective, .datatype = elements.datatype};
  call.count = static_cast<uint64_t>(count) * elements.per_element;
  call.timeout_ms = timeout_.count();
  return call;
}

const uint64_t* Launch::counts(const Elements& elements, const std::vector<int64_t>& numels) {
  std::vector<uint64_t>& counts = used().counts.emplace_back();
  for (int64_t numel : numels) counts.push_back(static_cast<uint64_t>(numel) * elements.per_element);
  return counts.data();
}

c10::intrusive_ptr<c10d::Work> Launch::start(std::vector<at::Tensor> outputs) {
  if (device_call_) return put_on_stream(std::move(outputs));
  call_->set_outputs(std::move(outputs));
  bool has_own_timeout = timeout_ != backend_.communicator()->timeout();
  if (!is_async_ && !has_own_timeout && calls_.size() == 1) {
    call_->run(calls_.front());
  } else {
    call_->start(calls_);
  }
  backend_.launched(work_);
  attempt_.has_succeeded = true;
  return std::move(work_);
}

// Who waits at once waits on the current stream: the call may as well be there.
c10::intrusive_ptr<c10d::Work> Launch::put_on_stream(std::vector<at::Tensor> outputs) {
  using Use = DeviceStreams::Use;
  bool is_send = calls_.front().collective == TUTTI_SEND;
  c10::Device device = device_call_->device();
  c10::Stream stream = is_async_ ? backend_.streams().get(device, is_send ? Use::kSends : Use::kCollectives)
                                 : current_stream(device);
  device_call_->set_calls({calls_.begin(), calls_.end()}, std::move(used_));
  device_call_->set_outputs(std::move(outputs));
  backend_.put(device_work_, stream);
  attempt_.has_succeeded = true;
  return std::move(device_work_);
}

}  // namespace tutti_torch
