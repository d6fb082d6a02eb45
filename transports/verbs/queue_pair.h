// A queue pair with its completion queue, and the descriptor on which completions wake who sleeps.
#pragma once

#include <memory>
#include <span>

#include "base/fd.h"
#include "transports/verbs/device.h"

namespace tutti {

// What the other end must know.
struct QueueAddress {
  uint32_t number = 0;
  uint32_t first_packet = 0;
};

class QueuePair {
 public:
  struct Sizes {
    uint32_t sends = 0;
    uint32_t receives = 0;
    uint32_t inline_bytes = 0;  // wanted; a device may have less
  };

  // Ready to have receives posted.
  static Result<std::unique_ptr<QueuePair>> create(const VerbsDevice& device, const Sizes& sizes);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  QueueAddress address() const { return {pair_->qp_num, first_packet_}; }
  uint32_t inline_bytes() const { return inline_bytes_; }
  // Ready to send to the other end, and to hear from it.
  Status connect(const QueueAddress& peer, const Route& route);

  // Any thread: nothing crosses any more, and the peer writes into no memory here through it.
  void shut() noexcept;

  Status post(ibv_send_wr& first);
  Status post(ibv_recv_wr& receive);
  // Takes completions; how many.
  Result<size_t> take(std::span<ibv_wc> completions);

  // The next completion makes this readable. What has completed before does not: look once more afterwards. Only after
  // something was taken it costs system calls: two. `in_vain`: since the last time there was a sleep that may have been
  // ended by an event of what had been taken before it.
  Result<int> arm(bool in_vain);

 private:
  explicit QueuePair(const VerbsDevice& device) : device_(device) {}
  Status create_queue(const Sizes& sizes);
  Status create_pair(const Sizes& sizes);
  Status initialize();
  Status modify(ibv_qp_attr& attributes, int mask, std::string_view to);
  bool take_event();

  const VerbsDevice& device_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_qp* pair_ = nullptr;
  uint32_t inline_bytes_ = 0;
  uint32_t first_packet_ = 0;
  bool is_asked_ = false;   // for an event, which has not been taken
  bool has_taken_ = false;  // completions since then, of which the first makes that event
};

}  // namespace tutti
