// The calls that make, change and end things.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "verbs/fake/calls.h"
#include "verbs/fake/fabric.h"

#undef ibv_get_device_list
#undef ibv_query_port

using namespace tutti::test;

namespace {

constexpr uint64_t kPage = 4096;

const FakePort& port_of(ibv_context* context) { return static_cast<Device*>(context->device)->port; }

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  std::lock_guard lock(fabric().mutex());
  auto& devices = fabric().devices;
  auto** list = new ibv_device*[devices.size() + 1]();
  for (size_t i = 0; i < devices.size(); ++i) list[i] = &devices[i];
  if (count != nullptr) *count = static_cast<int>(devices.size());
  return list;
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ibv_context* ibv_open_device(ibv_device* device) {
  auto* context = new ibv_context{};
  context->device = device;
  context->ops.poll_cq = fake_poll_cq;
  context->ops.req_notify_cq = fake_req_notify_cq;
  context->ops.post_send = fake_post_send;
  context->ops.post_recv = fake_post_recv;
  return context;
}
int ibv_close_device(ibv_context* context) {
  delete context;
  return 0;
}

int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  return 0;
}
int ibv_query_port(ibv_context* context, uint8_t, _compat_ibv_port_attr* to) {
  const FakePort& port = port_of(context);
  auto* attributes = reinterpret_cast<ibv_port_attr*>(to);
  attributes->state = port.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->active_mtu = static_cast<ibv_mtu>(port.mtu_code);
  attributes->max_mtu = IBV_MTU_4096;
  attributes->lid = port.lid;
  attributes->gid_tbl_len = static_cast<int>(port.gids.size());
  attributes->active_speed = static_cast<uint8_t>(port.speed_code);
  attributes->active_width = 2;
  attributes->link_layer = port.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  return 0;
}
int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t, size_t) {
  const FakeGid& gid = port_of(context).gids[index];
  *entry = {};
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = static_cast<uint32_t>(gid.type);
  return ::inet_pton(AF_INET6, gid.address.c_str(), entry->gid.raw) == 1 ? 0 : ENODATA;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) { return new ibv_pd{.context = context, .handle = 0}; }
int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, size_t size, uint64_t, unsigned access) {
  std::lock_guard lock(fabric().mutex());
  if (fabric().is_gone(domain->context)) {
    errno = EIO;
    return nullptr;
  }
  if (size > fabric().faults.lockable_bytes - fabric().counted.registered_bytes) {
    errno = ENOMEM;
    return nullptr;
  }
  fabric().counted.registered_bytes += size;
  fabric().counted.relaxed += (access & IBV_ACCESS_RELAXED_ORDERING) != 0 ? 1 : 0;
  return fabric().add({.context = domain->context, .pd = domain, .addr = address, .length = size},
                      static_cast<std::byte*>(address), access);
}
int ibv_dereg_mr(ibv_mr* region) {
  std::lock_guard lock(fabric().mutex());
  fabric().regions.erase(region->rkey);
  auto* ended = static_cast<Region*>(region);
  if (ended->contents == region->addr) {
    fabric().counted.registered_bytes -= region->length;
  } else {
    --fabric().counted.dma_bufs;
    auto within = reinterpret_cast<uintptr_t>(region->addr) % kPage;
    ::munmap(ended->contents - within, within + region->length);
  }
  delete ended;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return new ibv_comp_channel{.context = context, .fd = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE), .refcnt = 0};
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  ::close(channel->fd);
  delete channel;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int size, void*, ibv_comp_channel* channel, int) {
  auto* queue = new Queue;
  static_cast<ibv_cq&>(*queue) = {};
  queue->context = context;
  queue->channel = channel;
  queue->cqe = size;
  return queue;
}
int ibv_destroy_cq(ibv_cq* queue) {
  std::lock_guard lock(fabric().mutex());
  if (queue->comp_events_completed != queue->async_events_completed) fabric().mistake("events were not acknowledged");
  delete static_cast<Queue*>(queue);
  return 0;
}
// The numbers of events that were taken and acknowledged are kept in fields that nobody else uses.
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** context) {
  {
    std::lock_guard lock(fabric().mutex());
    ++fabric().counted.event_calls;
  }
  uint64_t one = 0;
  if (::read(channel->fd, &one, sizeof one) != sizeof one) return -1;
  std::lock_guard lock(fabric().mutex());
  for (auto& [number, pair] : fabric().pairs) {
    if (pair->send_cq->channel != channel) continue;
    *queue = pair->send_cq;
    *context = nullptr;
    ++pair->send_cq->comp_events_completed;
  }
  return 0;
}
void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  std::lock_guard lock(fabric().mutex());
  queue->async_events_completed += count;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  std::lock_guard lock(fabric().mutex());
  if (attributes->cap.max_inline_data > fabric().faults.most_inline_bytes) {
    errno = EINVAL;
    return nullptr;
  }
  auto* pair = new Pair;
  static_cast<ibv_qp&>(*pair) = {};
  pair->context = domain->context;
  pair->pd = domain;
  pair->send_cq = attributes->send_cq;
  pair->recv_cq = attributes->recv_cq;
  pair->qp_num = ++fabric().next_number;
  pair->state = IBV_QPS_RESET;
  pair->qp_type = attributes->qp_type;
  pair->room = attributes->cap;
  fabric().pairs[pair->qp_num] = pair;
  return pair;
}
int ibv_modify_qp(ibv_qp* which, ibv_qp_attr* attributes, int mask) {
  std::lock_guard lock(fabric().mutex());
  auto& pair = *static_cast<Pair*>(which);
  if (fabric().is_gone(pair.context)) return EIO;
  FakeCounts& counted = fabric().counted;
  if (attributes->qp_state == IBV_QPS_ERR) {
    fabric().sweep_out(pair);
    return 0;
  }
  bool in_order = (attributes->qp_state == IBV_QPS_INIT && pair.state == IBV_QPS_RESET) ||
                  (attributes->qp_state == IBV_QPS_RTR && pair.state == IBV_QPS_INIT) ||
                  (attributes->qp_state == IBV_QPS_RTS && pair.state == IBV_QPS_RTR);
  if (!in_order || (mask & IBV_QP_STATE) == 0) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && attributes->pkey_index > 15) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) counted.pkey_index = attributes->pkey_index;
  if (attributes->qp_state == IBV_QPS_RTR) {
    if (attributes->path_mtu < IBV_MTU_256 || attributes->path_mtu > IBV_MTU_4096) return EINVAL;
    pair.peer = attributes->dest_qp_num;
    pair.way = attributes->ah_attr;
    counted.by_gid = pair.way.is_global != 0;
    counted.mtu_code = attributes->path_mtu;
    counted.service_level = pair.way.sl;
    counted.traffic_class = pair.way.grh.traffic_class;
  }
  if (attributes->qp_state == IBV_QPS_RTS) {
    counted.timeout = attributes->timeout;
    counted.retries = attributes->retry_cnt;
  }
  pair.state = attributes->qp_state;
  return 0;
}
int ibv_destroy_qp(ibv_qp* pair) {
  std::lock_guard lock(fabric().mutex());
  fabric().pairs.erase(pair->qp_num);
  for (ibv_cq* each : {pair->send_cq, pair->recv_cq}) {
    for (Queue::Entry& entry : static_cast<Queue*>(each)->entries) entry.pair = nullptr;
  }
  delete static_cast<Pair*>(pair);
  return 0;
}

}  // extern "C"
