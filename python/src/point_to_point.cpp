// Messages between two ranks.
#include "backend.h"
#include "launch.h"

namespace tutti_torch {
namespace {

using c10d::OpType;

// Nobody says with these how long they may take, or whether somebody waits: they are started, with the group's timeout.
constexpr auto kGroupsTimeout = c10d::kUnsetTimeout;

void check_one(const std::vector<at::Tensor>& tensors, const char* name) {
  TUTTI_TORCH_CHECK(tensors.size() == 1, name, "takes one tensor, not ", tensors.size());
}

}  // namespace

TuttiBackend::WorkPtr TuttiBackend::send(Tensors& tensors, int destination, int tag) {
  check_one(tensors, "send");
  Launch launch(*this, {OpType::SEND, "send", "tutti:send"}, tensors, kGroupsTimeout, true);
  const at::Tensor& tensor = tensors.front();
  tutti_call_t& call = launch.add(TUTTI_SEND, elements_of(tensor.scalar_type()), tensor.numel());
  call.send_buffer = launch.input(tensor);
  call.peer = destination;
  call.tag = tag;
  return launch.start({});
}

TuttiBackend::WorkPtr TuttiBackend::receive(Tensors& tensors, int source, int tag, bool is_any) {
  check_one(tensors, "recv");
  Named named = is_any ? Named{OpType::RECVANYSOURCE, "recv", "tutti:recvAnySource"}
                       : Named{OpType::RECV, "recv", "tutti:recv"};
  Launch launch(*this, named, tensors, kGroupsTimeout, true);
  const at::Tensor& tensor = tensors.front();
  Elements elements = elements_of(tensor.scalar_type());
  tutti_call_t& call = launch.add(TUTTI_RECV, elements, tensor.numel());
  call.recv_buffer = launch.received(tensor, elements);
  call.peer = source;
  call.tag = tag;
  call.message = launch.message();
  return launch.start(tensors);
}

TuttiBackend::WorkPtr TuttiBackend::recv(Tensors& tensors, int source, int tag) {
  return receive(tensors, source, tag, false);
}

TuttiBackend::WorkPtr TuttiBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, TUTTI_ANY_SOURCE, tag, true);
}

}  // namespace tutti_torch
