// The insides of the fake: what its objects are, and how requests cross from one queue pair to the other.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "verbs/fake/fake.h"

namespace tutti::test {

struct Device : ibv_device {
  FakePort port;
};

struct Queue : ibv_cq {
  struct Entry {
    ibv_wc completion{};
    uint32_t retires = 0;          // requests of the queue pair that are over with it
    struct Pair* pair = nullptr;
    std::vector<std::byte> late;   // written data that becomes visible now
    std::vector<std::pair<std::byte*, size_t>> late_at;
  };
  std::deque<Entry> entries;
  bool notifies = false;
  bool owes_event = false;
};

// A request or receive that waits; what was inline is kept by value.
struct Waiting {
  uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool signalled = false;
  uint64_t remote_address = 0;
  uint32_t remote_key = 0;
  uint64_t address = 0;            // of a receive
  uint32_t room = 0;
  std::vector<std::byte> data;     // of a request: what was inline, as it was when it was posted; else as it is
  std::vector<ibv_sge> parts;      // when it leaves
  int lag = 0;
};

struct Pair : ibv_qp {
  ibv_qp_cap room{};
  ibv_ah_attr way{};
  uint32_t peer = 0;
  std::deque<Waiting> requests;
  std::deque<Waiting> receives;
  uint32_t outstanding = 0;        // requests that were posted and are not known to be over
  uint32_t unsignalled = 0;        // of them, since the last one that was
  // Written by the peer and not yet visible.
  std::vector<std::byte> late;
  std::vector<std::pair<std::byte*, size_t>> late_at;
};

struct Region : ibv_mr {
  unsigned access = 0;
  std::byte* contents = nullptr;   // where the device finds the bytes; of a dma-buf not at their address
};

class Fabric final : public FakeVerbs {
 public:
  Fabric();
  void reset() override;
  void set_ports(const std::vector<FakePort>& ports) override;
  void set_faults(const FakeFaults& faults) override;
  void end_lag() override;
  FakeCounts counts() override;

  // All of the following with the lock held.
  std::mutex& mutex() { return mutex_; }
  void mistake(const std::string& what);
  // Carries what can cross now, from all queue pairs; `is_look`: somebody has looked at a completion queue.
  void carry(bool is_look);
  // The queue pair fails: all that waits on it is swept out.
  void fail(Pair& pair, uint64_t id, bool is_receive, ibv_wc_status status);
  void sweep_out(Pair& pair);
  void complete(Queue& queue, Queue::Entry entry);
  static void send_event(Queue& queue);
  // Memory that a key leads to; nullptr when it does not.
  bool is_gone(const ibv_context* context) const { return faults.gone_device == context->device->name; }
  std::byte* at(uint64_t address, uint64_t size, uint32_t key, unsigned access);
  // Gives it its key.
  ibv_mr* add(const ibv_mr& region, std::byte* contents, unsigned access);

  std::vector<Device> devices;
  std::map<uint32_t, Pair*> pairs;
  std::map<uint32_t, Region*> regions;  // by key
  FakeFaults faults;
  FakeCounts counted;
  uint32_t next_number = 100;

 private:
  bool carry_one(Pair& pair, bool is_look);
  // What a device reads no sooner than when it sends it. False when it may not.
  bool read_parts(Waiting& request);
  bool deliver(Pair& pair, const Waiting& request);
  bool leads_to(const Pair& from, const Pair& to) const;
  std::mutex mutex_;
};

Fabric& fabric();

}  // namespace tutti::test
