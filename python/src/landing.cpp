#include "landing.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>

#include "device_streams.h"

namespace tutti_torch {

Landing::Landing(at::Tensor to, const c10::Stream& stream)
    : to_(std::move(to)), stream_(stream), ready_(stream.device_type()), done_(stream.device_type()) {
  auto options = at::TensorOptions().dtype(to_.scalar_type()).pinned_memory(to_.is_cuda());
  memory_ = at::empty({to_.numel()}, options);
  ready_.record(current_stream(stream.device()));
}

void Landing::land(int64_t numel) {
  at::NoGradGuard no_grad;
  c10::StreamGuard on_stream(stream_);
  ready_.block(stream_);
  constexpr bool kNonBlocking = true;
  at::Tensor message = memory_.narrow(0, 0, numel);
  if (numel == to_.numel()) {
    to_.copy_(message.view(to_.sizes()), kNonBlocking);
  } else if (numel > 0) {
    bool is_plain = to_.is_contiguous() && !to_.is_conj() && !to_.is_neg();
    at::Tensor all = is_plain ? to_ : to_.resolve_conj().resolve_neg().contiguous();
    all.view({-1}).narrow(0, 0, numel).copy_(message, kNonBlocking);
    if (!is_plain) to_.copy_(all, kNonBlocking);
  }
  record_use(to_, stream_);
  done_.record(stream_);
  memory_.reset();
}

void Landing::join_current_stream() const {
  c10::Stream current = current_stream(device());
  if (current != stream_) done_.block(current);
}

}  // namespace tutti_torch
