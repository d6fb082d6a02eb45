// Landing: how a message that the host has received gets into a tensor of a device. No stream waits for the message: it
// may come in any order and at any time, or never.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace tutti_torch {

class Landing {
 public:
  // Copies go on `stream`, behind what the current stream has now.
  Landing(at::Tensor to, const c10::Stream& stream);

  // Of the host, for the message: as many elements as the tensor has.
  void* memory() { return memory_.data_ptr(); }
  c10::Device device() const { return stream_.device(); }
  const c10::Stream& stream() const { return stream_; }

  // Puts the copy on the stream: of so many elements, the others stay. Once, on any thread.
  void land(int64_t numel);

  // ---- Afterwards; any thread

  bool is_done() const { return done_.query(); }
  void join_current_stream() const;
  void wait() const { done_.synchronize(); }  // on the host

 private:
  const at::Tensor to_;
  const c10::Stream stream_;
  at::Tensor memory_;
  c10::Event ready_;
  c10::Event done_;
};

}  // namespace tutti_torch
