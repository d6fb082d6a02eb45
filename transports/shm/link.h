// One end of a link over shared memory.
#pragma once

#include <string>
#include <vector>

#include "transports/common/connector.h"
#include "transports/common/export_table.h"
#include "transports/common/link_state.h"
#include "transports/common/mapped.h"
#include "transports/common/remote_table.h"
#include "transports/shm/meeting.h"

namespace tutti {

// What the Links of one rank share; owned by its Transport, which outlives them.
struct ShmShared {
  LinkIdentity identity;
  std::string name;                     // of the abstract socket
  std::unique_ptr<Acceptor> acceptor;
  ExportTable exports;
  BellRow bells;
};

class ShmLink final : public Link {
 public:
  ShmLink(ShmShared& shared, int peer) : shared_(shared), state_(shared.identity.rank, peer, "shm"), writer_(state_) {}
  ~ShmLink() override;

  int peer() const override { return state_.peer(); }
  LinkTraits traits() const override { return {.mappable = true, .pullable = peer_.pullable}; }
  Result<Progress> connect(std::span<const std::byte> peer_address) override;
  std::string connect_report() const override;

  Status share(const LocalMemory& memory) override;
  const RemoteMemory* find(uint32_t id) override;

  Result<PutResult> put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line,
                        int /*channel*/) override {
    return writer_.put(to, from, signal, line);
  }
  Result<PutResult> signal(RemoteSlice signal, const Line& line) override { return writer_.signal(signal, line); }
  Status pull(std::span<std::byte> to, uint64_t from) override;
  Status push(std::span<const std::byte> from, uint64_t to) override;
  Status poll(uint64_t* puts_completed) override;
  bool needs_poll() const override { return false; }
  bool has_pending() const override { return false; }
  void arm(WaitSet& waits) override;
  void disarm() override;
  void abort() noexcept override;
  bool begin_access() noexcept override { return access_.begin(); }
  bool end_access() noexcept override { return access_.end(); }
  bool is_accessed() const noexcept override { return access_.peer_is_busy(); }
  void tell_cpu(int cpu) noexcept override { access_.tell_cpu(cpu); }
  int peer_cpu() const noexcept override { return access_.peer_cpu(); }

 private:
  Result<Progress> step(std::span<const std::byte> peer_address);
  Status start(std::span<const std::byte> peer_address);
  void become_link();
  // Reads what the peer has sent; false when there is nothing.
  Result<bool> read_note();
  Status apply(const ShmNote& note, const ShmMessage& message);
  Status send_releases();
  Status advance();
  Status check_pullable();
  Status with_place(const Status& reached);

  ShmShared& shared_;
  LinkState state_;
  MappedWriter writer_;
  MappedAccess access_;
  RemoteTable remote_;
  std::shared_ptr<ShmBell> bell_;              // also held by the rank's BellRow
  ShmPeer peer_;
  std::unique_ptr<Connector> connector_;       // until connected
  std::unique_ptr<Meeting> meeting_;           // from when the connection is there until connected
  std::string lost_meeting_;                   // why an earlier one ended; "" if none did
  std::unique_ptr<SideChannel> channel_;       // null until connected
  std::atomic<SideChannel*> published_{nullptr};  // channel_, for abort() on another thread
  std::vector<uint32_t> sent_;                 // ids that the peer knows
  size_t removals_seen_ = 0;
};

}  // namespace tutti
