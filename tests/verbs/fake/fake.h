// A libibverbs of the tests: devices, queue pairs and a fabric between them, all in this process, that needs no
// hardware and misbehaves on request. Where a real device leaves something open (when data becomes visible, when a
// request completes) it does what hurts most: written data appears in memory only when the receiver takes the
// completion of the message behind it.
//
// It checks what its user does: more requests than the queue has, keys of other memory, states in the wrong order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::test {

struct FakeGid {
  int type = 2;                 // of ibv_gid_type
  std::string address;          // "::ffff:10.0.0.1"
};

struct FakePort {
  std::string device = "fake0";
  bool active = true;
  bool infiniband = false;
  uint16_t lid = 0;
  int mtu_code = 5;
  int speed_code = 32;
  std::vector<FakeGid> gids = {{1, "fe80::1"}, {2, "::ffff:10.0.0.1"}};
};

// What the fabric does wrong. Of a count: from now on, 0: never.
struct FakeFaults {
  uint32_t most_inline_bytes = 512;
  uint64_t lockable_bytes = UINT64_MAX;  // of all registrations together
  int dma_buf_error = 0;                 // why no dma-buf is registered
  uint64_t failing_request = 0;          // the so many-th request of any queue pair fails
  int failing_status = 0;                // with this ibv_wc_status
  bool cut = false;                      // nothing crosses: every request runs out of retries
  size_t most_bytes = SIZE_MAX;          // what writes more is lost on the way, again and again
  std::string cut_device;                // or nothing from and to this device
  std::string cut_address;               // or nothing to this GID
  uint64_t refused_request = 0;          // the so many-th request of any queue pair is not taken
  std::string gone_device;               // is there no more: every call to it fails, and nothing reaches it
  bool corrupts_writes = false;
  bool shows_at_once = false;            // written data is in memory before the message behind it has come
  bool late_events = false;              // an event comes when the queue is asked for the next one
  int lag = 0;                           // requests wait for so many looks at a completion queue
};

// What the fabric has seen since it was reset.
struct FakeCounts {
  uint64_t requests = 0;
  uint64_t doorbells = 0;                // calls that post requests
  uint64_t completions = 0;
  uint64_t looks = 0;                    // at completion queues
  uint64_t event_calls = 0;              // that ask for an event, or for whether there is one
  uint64_t not_ready = 0;                // messages that found no receive
  uint64_t mistakes = 0;                 // of the user: what a device would refuse or answer with silence
  std::string last_mistake;
  uint64_t registered_bytes = 0;
  uint64_t dma_bufs = 0;                 // that are registered
  uint64_t relaxed = 0;                  // registrations with relaxed ordering, of the host's memory
  std::map<std::string, uint64_t> written_bytes;  // by the device that they came from
  bool by_gid = false;                   // how the last queue pair to connect reaches its peer
  int mtu_code = 0;
  int service_level = 0;
  int traffic_class = 0;
  int timeout = 0;
  int retries = 0;
  int pkey_index = 0;
};

class FakeVerbs {
 public:
  // Two Ethernet devices of one speed, no faults. Nothing may be open.
  virtual void reset() = 0;
  virtual void set_ports(const std::vector<FakePort>& ports) = 0;
  virtual void set_faults(const FakeFaults& faults) = 0;
  // What waits, waits no longer.
  virtual void end_lag() = 0;
  virtual FakeCounts counts() = 0;

 protected:
  ~FakeVerbs() = default;
};

}  // namespace tutti::test

// Of the library that was opened under this name or is linked.
extern "C" tutti::test::FakeVerbs* tutti_fake_verbs();
