// The streams of a device that one backend's calls run on.
#pragma once

#include <c10/core/Stream.h>

#include <map>
#include <mutex>
#include <tuple>

namespace tutti_torch {

// What the current stream has nothing to do with runs beside it: collectives behind each other, messages each way to
// each peer on a stream of their own, since one that waits for its other side must not keep that from coming. Streams
// are torch's, which keeps them until the process ends. Any thread.
class DeviceStreams {
 public:
  c10::Stream for_collectives(c10::Device device) { return get({device, kNoPeer, false}); }
  c10::Stream for_messages(c10::Device device, int peer, bool is_send) { return get({device, peer, is_send}); }

 private:
  static constexpr int kNoPeer = -2;  // -1 is any
  using Key = std::tuple<c10::Device, int, bool>;
  struct Before {
    bool operator()(const Key& a, const Key& b) const;
  };
  c10::Stream get(const Key& key);

  std::mutex mutex_;  // guards what follows
  std::map<Key, c10::Stream, Before> streams_;
};

// The stream that the calling thread's operations on the device go to.
c10::Stream current_stream(c10::Device device);
// What tutti takes: a cudaStream_t.
void* handle_of(const c10::Stream& stream);

}  // namespace tutti_torch
