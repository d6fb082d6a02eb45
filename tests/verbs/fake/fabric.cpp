#include "verbs/fake/fabric.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tutti::test {

namespace {

Queue::Entry failed(const Pair& pair, uint64_t id, ibv_wc_status status) {
  Queue::Entry entry;
  entry.completion.wr_id = id;
  entry.completion.status = status;
  entry.completion.qp_num = pair.qp_num;
  return entry;
}

}  // namespace

Fabric& fabric() {
  static auto* the_fabric = new Fabric;
  return *the_fabric;
}

Fabric::Fabric() { reset(); }

void Fabric::reset() {
  FakePort second{.device = "fake1", .gids = {{1, "fe80::2"}, {2, "::ffff:10.0.0.2"}}};
  set_ports({FakePort{}, second});
  std::lock_guard lock(mutex_);
  faults = {};
  counted = {};
}

void Fabric::set_ports(const std::vector<FakePort>& ports) {
  std::lock_guard lock(mutex_);
  devices.clear();
  for (const FakePort& port : ports) {
    Device device;
    std::memset(static_cast<ibv_device*>(&device), 0, sizeof(ibv_device));
    std::strncpy(device.name, port.device.c_str(), sizeof device.name - 1);
    device.port = port;
    devices.push_back(std::move(device));
  }
}

void Fabric::set_faults(const FakeFaults& wanted) {
  std::lock_guard lock(mutex_);
  faults = wanted;
}

void Fabric::end_lag() {
  std::lock_guard lock(mutex_);
  for (auto& [number, pair] : pairs) {
    for (Waiting& each : pair->requests) each.lag = 0;
  }
}

FakeCounts Fabric::counts() {
  std::lock_guard lock(mutex_);
  return counted;
}

void Fabric::mistake(const std::string& what) {
  ++counted.mistakes;
  counted.last_mistake = what;
}

std::byte* Fabric::at(uint64_t address, uint64_t size, uint32_t key, unsigned access) {
  auto found = regions.find(key);
  if (found == regions.end()) return nullptr;
  const Region& region = *found->second;
  auto first = reinterpret_cast<uint64_t>(region.addr);
  bool inside = address >= first && size <= region.length && address - first <= region.length - size;
  return inside && (region.access & access) == access ? region.contents + (address - first) : nullptr;
}

ibv_mr* Fabric::add(const ibv_mr& like, std::byte* contents, unsigned access) {
  auto* region = new Region;
  static_cast<ibv_mr&>(*region) = like;
  region->access = access;
  region->contents = contents;
  region->lkey = region->rkey = ++next_number;
  regions[region->rkey] = region;
  return region;
}

void Fabric::complete(Queue& queue, Queue::Entry entry) {
  ++counted.completions;
  if (queue.entries.size() >= static_cast<size_t>(queue.cqe)) mistake("a completion queue has overrun");
  queue.entries.push_back(std::move(entry));
  if (!queue.notifies) return;
  queue.notifies = false;
  if (faults.late_events) queue.owes_event = true;
  else send_event(queue);
}

void Fabric::send_event(Queue& queue) {
  queue.owes_event = false;
  uint64_t one = 1;
  (void)!::write(queue.channel->fd, &one, sizeof one);
}

void Fabric::fail(Pair& pair, uint64_t id, bool is_receive, ibv_wc_status status) {
  complete(*static_cast<Queue*>(is_receive ? pair.recv_cq : pair.send_cq), failed(pair, id, status));
  sweep_out(pair);
}

void Fabric::sweep_out(Pair& pair) {
  pair.state = IBV_QPS_ERR;
  for (auto* waiting : {&pair.requests, &pair.receives}) {
    auto& queue = *static_cast<Queue*>(waiting == &pair.requests ? pair.send_cq : pair.recv_cq);
    for (const Waiting& each : *waiting) complete(queue, failed(pair, each.id, IBV_WC_WR_FLUSH_ERR));
    waiting->clear();
  }
}

void Fabric::carry(bool is_look) {
  for (auto& [number, pair] : pairs) {
    while (carry_one(*pair, is_look)) {
    }
  }
}

// True when the first request that waits has gone.
bool Fabric::carry_one(Pair& pair, bool is_look) {
  if (pair.state != IBV_QPS_RTS || pair.requests.empty()) return false;
  Waiting& next = pair.requests.front();
  if (next.lag > 0 && is_look) --next.lag;
  if (next.lag > 0) return false;
  if (faults.failing_request > 0 && --faults.failing_request == 0) {
    uint64_t id = next.id;
    pair.requests.pop_front();
    fail(pair, id, false, static_cast<ibv_wc_status>(faults.failing_status));
    return false;
  }
  if (!read_parts(next)) {
    uint64_t id = next.id;
    pair.requests.pop_front();
    fail(pair, id, false, IBV_WC_LOC_PROT_ERR);
    return false;
  }
  if (!deliver(pair, next)) return false;
  ++pair.unsignalled;
  if (next.signalled) {
    Queue::Entry entry;
    entry.completion.wr_id = next.id;
    entry.completion.opcode = next.opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
    entry.completion.qp_num = pair.qp_num;
    entry.retires = pair.unsignalled;
    entry.pair = &pair;
    pair.unsignalled = 0;
    complete(*static_cast<Queue*>(pair.send_cq), std::move(entry));
  }
  pair.requests.pop_front();
  return true;
}

bool Fabric::leads_to(const Pair& from, const Pair& to) const {
  const FakePort& port = static_cast<const Device*>(to.context->device)->port;
  if (from.way.is_global == 0) return port.infiniband && port.lid == from.way.dlid;
  return std::any_of(port.gids.begin(), port.gids.end(), [&](const FakeGid& gid) {
    if (gid.address == faults.cut_address) return false;
    in6_addr address{};
    ::inet_pton(AF_INET6, gid.address.c_str(), &address);
    return std::memcmp(&address, from.way.grh.dgid.raw, sizeof address) == 0;
  });
}

bool Fabric::read_parts(Waiting& request) {
  for (const ibv_sge& part : std::exchange(request.parts, {})) {
    const std::byte* from = at(part.addr, part.length, part.lkey, 0);
    if (from == nullptr) return mistake("read from memory that is registered no more"), false;
    request.data.insert(request.data.end(), from, from + part.length);
  }
  return true;
}

// False: not now, or the queue pair has failed.
bool Fabric::deliver(Pair& pair, const Waiting& request) {
  auto found = pairs.find(pair.peer);
  auto is_cut = [&](const Pair& end) { return faults.cut_device == end.context->device->name || is_gone(end.context); };
  bool reaches = !faults.cut && found != pairs.end() && !is_cut(pair) && !is_cut(*found->second) &&
                 request.data.size() <= faults.most_bytes && found->second->peer == pair.qp_num &&
                 (found->second->state == IBV_QPS_RTR || found->second->state == IBV_QPS_RTS) &&
                 leads_to(pair, *found->second);
  auto give_up = [&](ibv_wc_status status) {
    uint64_t id = request.id;
    pair.requests.pop_front();
    fail(pair, id, false, status);
    return false;
  };
  if (!reaches) return give_up(IBV_WC_RETRY_EXC_ERR);
  Pair& peer = *found->second;
  if (request.opcode == IBV_WR_RDMA_WRITE) {
    if (request.data.empty()) return true;
    counted.written_bytes[pair.context->device->name] += request.data.size();
    std::byte* to = at(request.remote_address, request.data.size(), request.remote_key, IBV_ACCESS_REMOTE_WRITE);
    if (to == nullptr) return give_up(IBV_WC_REM_ACCESS_ERR);
    if (faults.shows_at_once) {
      std::memcpy(to, request.data.data(), request.data.size());
      return true;
    }
    peer.late.insert(peer.late.end(), request.data.begin(), request.data.end());
    peer.late_at.emplace_back(to, request.data.size());
    if (faults.corrupts_writes) peer.late.back() ^= std::byte{1};
    return true;
  }
  if (peer.receives.empty()) {
    ++counted.not_ready;
    return false;
  }
  Waiting receive = peer.receives.front();
  peer.receives.pop_front();
  if (request.data.size() > receive.room) {
    fail(peer, receive.id, true, IBV_WC_LOC_LEN_ERR);
    return give_up(IBV_WC_REM_INV_REQ_ERR);
  }
  std::memcpy(reinterpret_cast<void*>(receive.address), request.data.data(), request.data.size());
  Queue::Entry entry;
  entry.completion.wr_id = receive.id;
  entry.completion.opcode = IBV_WC_RECV;
  entry.completion.byte_len = static_cast<uint32_t>(request.data.size());
  entry.completion.qp_num = peer.qp_num;
  entry.late = std::exchange(peer.late, {});
  entry.late_at = std::exchange(peer.late_at, {});
  complete(*static_cast<Queue*>(peer.recv_cq), std::move(entry));
  return true;
}

}  // namespace tutti::test

extern "C" tutti::test::FakeVerbs* tutti_fake_verbs() { return &tutti::test::fabric(); }
