// Calls that GPUs do among themselves: what each rank says of its part, and the launches that do all parts at once
// where the ranks are on one GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"
#include "core/request.h"
#include "device/device.h"
#include "kernels/cuda/launches.h"

namespace tutti {

// What one rank says of a call. Plain data, which ranks of other processes read.
struct Offer {
  // Where all ranks say the same of this, and all are on GPUs, these can do the call.
  struct Shape {
    int32_t collective = 0;
    int32_t datatype = 0;
    int32_t op = 0;
    int32_t root = -1;
    uint64_t count = 0;
    friend bool operator==(const Shape&, const Shape&) = default;
  };
  Shape shape;
  uint8_t is_on_gpu = 0;  // both buffers are memory of the GPU, or not used, and the GPU has room for what it is to do
  uint8_t has_input = 0;
  uint8_t has_output = 0;
  uint8_t in_place = 0;
  uint8_t is_late = 0;    // its stream has come to the call already, and waits for another gate than the rank's own
  DeviceBuffer input;
  DeviceBuffer output;
};

// Of an admitted call, without its buffers.
Offer::Shape shape_of(const tutti_request& request);
// What keeps GPUs from doing a collective at all, wherever its buffers are; null: nothing.
const char* why_not_on_gpus(const tutti_request& request);

// Where a rank's buffers are in the process that launches.
struct PlacedBuffers {
  uint64_t input = 0;
  uint64_t output = 0;  // 0: not used
};

// The launches that do the call for all ranks; none for a barrier.
cuda::Launches launches_of(const Offer::Shape& shape, std::span<const PlacedBuffers> ranks);

}  // namespace tutti
