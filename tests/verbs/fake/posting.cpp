// The calls that move data.
#include <cerrno>
#include <cstring>

#include "verbs/fake/calls.h"
#include "verbs/fake/fabric.h"

using namespace tutti::test;

namespace {

// 0, or why the request is refused.
int take_request(Pair& pair, const ibv_send_wr& work) {
  Fabric& all = fabric();
  if (all.is_gone(pair.context)) return EIO;
  if (all.faults.refused_request > 0 && --all.faults.refused_request == 0) return EIO;
  if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) return all.mistake("posted before it could send"), EINVAL;
  if (pair.outstanding == pair.room.max_send_wr) return all.mistake("more requests than the queue has"), ENOMEM;
  Waiting request{.id = work.wr_id,
                  .opcode = work.opcode,
                  .signalled = (work.send_flags & IBV_SEND_SIGNALED) != 0,
                  .remote_address = work.wr.rdma.remote_addr,
                  .remote_key = work.wr.rdma.rkey,
                  .lag = all.faults.lag};
  bool by_value = (work.send_flags & IBV_SEND_INLINE) != 0;
  for (int i = 0; i < work.num_sge; ++i) {
    const ibv_sge& part = work.sg_list[i];
    if (by_value) {
      auto* from = reinterpret_cast<std::byte*>(part.addr);
      request.data.insert(request.data.end(), from, from + part.length);
      continue;
    }
    if (all.at(part.addr, part.length, part.lkey, 0) == nullptr) {
      return all.mistake("read from memory that is not registered"), EINVAL;
    }
    request.parts.push_back(part);
  }
  if (by_value && request.data.size() > pair.room.max_inline_data) return all.mistake("too much inline"), EINVAL;
  ++all.counted.requests;
  ++pair.outstanding;
  if (pair.state == IBV_QPS_ERR) {
    Queue::Entry entry;
    entry.completion.wr_id = work.wr_id;
    entry.completion.status = IBV_WC_WR_FLUSH_ERR;
    all.complete(*static_cast<Queue*>(pair.send_cq), std::move(entry));
    return 0;
  }
  pair.requests.push_back(std::move(request));
  return 0;
}

// What was written before the message of this completion is to be seen from now on.
void reveal(Queue::Entry& entry) {
  const std::byte* from = entry.late.data();
  for (auto& [to, size] : entry.late_at) {
    std::memcpy(to, from, size);
    from += size;
  }
}

}  // namespace

int fake_post_send(ibv_qp* which, ibv_send_wr* first, ibv_send_wr** refused) {
  std::lock_guard lock(fabric().mutex());
  ++fabric().counted.doorbells;
  for (ibv_send_wr* work = first; work != nullptr; work = work->next) {
    int why = take_request(*static_cast<Pair*>(which), *work);
    if (why == 0) continue;
    *refused = work;
    return why;
  }
  fabric().carry(false);
  return 0;
}

int fake_post_recv(ibv_qp* which, ibv_recv_wr* first, ibv_recv_wr** refused) {
  std::lock_guard lock(fabric().mutex());
  auto& pair = *static_cast<Pair*>(which);
  if (fabric().is_gone(pair.context)) return EIO;
  for (ibv_recv_wr* work = first; work != nullptr; work = work->next) {
    const ibv_sge& part = work->sg_list[0];
    bool is_right = pair.state != IBV_QPS_RESET && pair.receives.size() < pair.room.max_recv_wr &&
                    fabric().at(part.addr, part.length, part.lkey, IBV_ACCESS_LOCAL_WRITE) != nullptr;
    if (!is_right) {
      fabric().mistake("a receive that a device would refuse");
      *refused = work;
      return EINVAL;
    }
    pair.receives.push_back({.id = work->wr_id, .address = part.addr, .room = part.length});
  }
  fabric().carry(false);
  return 0;
}

int fake_poll_cq(ibv_cq* which, int most, ibv_wc* completions) {
  std::lock_guard lock(fabric().mutex());
  ++fabric().counted.looks;
  if (fabric().is_gone(which->context)) return -1;
  fabric().carry(true);
  auto& queue = *static_cast<Queue*>(which);
  int count = 0;
  while (count < most && !queue.entries.empty()) {
    Queue::Entry& entry = queue.entries.front();
    reveal(entry);
    if (entry.pair != nullptr) entry.pair->outstanding -= entry.retires;
    completions[count++] = entry.completion;
    queue.entries.pop_front();
  }
  return count;
}

int fake_req_notify_cq(ibv_cq* which, int) {
  std::lock_guard lock(fabric().mutex());
  ++fabric().counted.event_calls;
  if (fabric().is_gone(which->context)) return EIO;
  auto& queue = *static_cast<Queue*>(which);
  if (queue.owes_event) Fabric::send_event(queue);
  queue.notifies = true;
  return 0;
}
