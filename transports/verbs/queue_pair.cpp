#include "transports/verbs/queue_pair.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "transports/common/hello.h"

namespace tutti {
namespace {

constexpr uint32_t kPacketNumbers = 1 << 24;

ibv_qp_attr ready_to_receive(const QueueAddress& peer, const Route& route, const VerbsDevice& device) {
  const VerbsOptions& options = device.options();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(mtu_code_of(route.mtu_bytes));
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.first_packet;
  attributes.max_dest_rd_atomic = 0;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.port_num = static_cast<uint8_t>(device.port().port);
  attributes.ah_attr.dlid = route.lid;
  attributes.ah_attr.sl = static_cast<uint8_t>(options.service_level);
  attributes.ah_attr.is_global = route.by_gid ? 1 : 0;
  if (!route.by_gid) return attributes;
  std::copy_n(reinterpret_cast<const uint8_t*>(route.to.bytes.data()), 16, attributes.ah_attr.grh.dgid.raw);
  attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(route.from.index);
  attributes.ah_attr.grh.hop_limit = 64;
  attributes.ah_attr.grh.traffic_class = static_cast<uint8_t>(options.traffic_class);
  return attributes;
}

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(const VerbsDevice& device, const Sizes& sizes) {
  std::unique_ptr<QueuePair> result(new QueuePair(device));
  TUTTI_TRY(result->create_queue(sizes));
  TUTTI_TRY(result->create_pair(sizes));
  TUTTI_TRY(result->initialize());
  return result;
}

QueuePair::~QueuePair() {
  const VerbsLibrary& library = device_.library();
  if (pair_ != nullptr) library.destroy_qp(pair_);
  if (queue_ != nullptr) library.destroy_cq(queue_);
  if (channel_ != nullptr) library.destroy_comp_channel(channel_);
}

Status QueuePair::create_queue(const Sizes& sizes) {
  const VerbsLibrary& library = device_.library();
  channel_ = library.create_comp_channel(device_.context());
  if (channel_ == nullptr) return system_error(errno, "cannot make a completion channel");
  int flags = ::fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return system_error(errno, "cannot make a completion channel that does not block");
  }
  queue_ = library.create_cq(device_.context(), static_cast<int>(sizes.sends + sizes.receives), nullptr, channel_, 0);
  if (queue_ == nullptr) return system_error(errno, "cannot make a completion queue");
  return {};
}

// With as much inline data as the device has, down to none.
Status QueuePair::create_pair(const Sizes& sizes) {
  for (uint32_t inline_bytes = sizes.inline_bytes;; inline_bytes /= 2) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = queue_;
    attributes.recv_cq = queue_;
    attributes.cap = {.max_send_wr = sizes.sends,
                      .max_recv_wr = sizes.receives,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = inline_bytes};
    attributes.qp_type = IBV_QPT_RC;
    pair_ = device_.library().create_qp(device_.domain(), &attributes);
    if (pair_ != nullptr) {
      inline_bytes_ = attributes.cap.max_inline_data;
      return {};
    }
    if (inline_bytes == 0) return system_error(errno, "cannot make a queue pair");
  }
}

Status QueuePair::initialize() {
  std::array<std::byte, sizeof first_packet_> random;
  fill_random(random);
  for (std::byte byte : random) first_packet_ = first_packet_ << 8 | std::to_integer<uint32_t>(byte);
  first_packet_ %= kPacketNumbers;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = static_cast<uint16_t>(device_.options().pkey_index);
  attributes.port_num = static_cast<uint8_t>(device_.port().port);
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  return modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "INIT (is TUTTI_IB_PKEY_INDEX in the port's table?)");
}

Status QueuePair::connect(const QueueAddress& peer, const Route& route) {
  ibv_qp_attr receive = ready_to_receive(peer, route, device_);
  TUTTI_TRY(modify(receive,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                   "ready to receive"));
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = static_cast<uint8_t>(device_.options().timeout);
  send.retry_cnt = static_cast<uint8_t>(device_.options().retries);
  send.rnr_retry = 7;  // as often as it takes; credits see to it that a receive is there, so never
  send.sq_psn = first_packet_;
  send.max_rd_atomic = 0;
  return modify(send,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                    IBV_QP_MAX_QP_RD_ATOMIC,
                "ready to send");
}

Status QueuePair::modify(ibv_qp_attr& attributes, int mask, std::string_view to) {
  int failure = device_.library().modify_qp(pair_, &attributes, mask);
  if (failure == 0) return {};
  return system_error(failure, fmt::format("cannot make queue pair {} of {} {}", pair_->qp_num, device_.port().name(),
                                           to));
}

void QueuePair::shut() noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  device_.library().modify_qp(pair_, &attributes, IBV_QP_STATE);
}

Status QueuePair::post(ibv_send_wr& first) {
  ibv_send_wr* refused = nullptr;
  int failure = ibv_post_send(pair_, &first, &refused);
  return failure == 0 ? Status() : system_error(failure, "the RDMA device took no request");
}

Status QueuePair::post(ibv_recv_wr& receive) {
  ibv_recv_wr* refused = nullptr;
  int failure = ibv_post_recv(pair_, &receive, &refused);
  return failure == 0 ? Status() : system_error(failure, "the RDMA device took no receive");
}

Result<size_t> QueuePair::take(std::span<ibv_wc> completions) {
  int count = ibv_poll_cq(queue_, static_cast<int>(completions.size()), completions.data());
  if (count < 0) return error(Code::kSystem, "the completion queue of {} is broken", device_.port().device);
  has_taken_ = has_taken_ || count > 0;
  return static_cast<size_t>(count);
}

// The event of a completion that was taken has come, or is about to: the queue is asked anew either way.
Result<int> QueuePair::arm(bool in_vain) {
  if (is_asked_ && (has_taken_ || in_vain)) is_asked_ = !take_event() && !has_taken_;
  has_taken_ = false;
  if (!is_asked_) {
    int failure = ibv_req_notify_cq(queue_, 0);
    if (failure != 0) return system_error(failure, "cannot ask for completion events");
    is_asked_ = true;
  }
  return channel_->fd;
}

// One at most: a queue makes one each time it is asked. Those that are not acknowledged would be waited for at the end.
bool QueuePair::take_event() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (device_.library().get_cq_event(channel_, &queue, &context) != 0) return false;
  device_.library().ack_cq_events(queue_, 1);
  return true;
}

}  // namespace tutti
