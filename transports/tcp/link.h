// One end of a TCP link.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "transports/common/doorbell.h"
#include "transports/common/export_table.h"
#include "transports/common/link_state.h"
#include "transports/common/remote_table.h"
#include "transports/common/tcp_meeting.h"
#include "transports/tcp/frame_reader.h"
#include "transports/tcp/frame_sender.h"

namespace tutti {

// What the Links of one rank share; owned by its Transport, which outlives them.
struct TcpShared {
  TcpMeeting meeting;
  ExportTable exports;
  BellRow bells;
};

inline constexpr LinkTraits kTcpTraits{.lands = true};

class TcpLink final : public Link, private FrameSink {
 public:
  TcpLink(TcpShared& shared, int peer)
      : shared_(shared), state_(shared.meeting.identity().rank, peer, "tcp"), reader_(*this) {}
  ~TcpLink() override;

  int peer() const override { return state_.peer(); }
  LinkTraits traits() const override { return kTcpTraits; }
  Result<Progress> connect(std::span<const std::byte> peer_address) override;
  std::string connect_report() const override;

  Status share(const LocalMemory& memory) override;
  const RemoteMemory* find(uint32_t id) override { return remote_.find(id); }
  void land_in(uint64_t at, std::span<std::byte> memory) override;
  void land_no_more(uint64_t at) override;
  void divert(const Line& signal, uint64_t number, std::span<std::byte> place) override;
  bool divert_no_more(const Line& signal) override;

  Result<PutResult> put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line,
                        int channel) override;
  Result<PutResult> signal(RemoteSlice signal, const Line& line) override;
  Result<PutResult> signal_soon(RemoteSlice at, const Line& line) override;
  Status pull(std::span<std::byte> to, uint64_t from) override;
  Status push(std::span<const std::byte> from, uint64_t to) override;
  Status poll(uint64_t* puts_completed) override;
  bool needs_poll() const override { return true; }
  bool has_pending() const override { return sender_.is_behind(); }
  void arm(WaitSet& waits) override;
  void disarm() override;
  void abort() noexcept override;
  bool begin_access() noexcept override { return true; }  // nothing is mapped, pulled or pushed
  bool end_access() noexcept override { return true; }
  bool is_accessed() const noexcept override { return false; }

 private:
  // Where a piece of kLanding is.
  struct Landing {
    uint64_t at = 0;
    std::span<std::byte> memory;
  };
  // Where the payload that comes with a signal goes.
  struct Diversion {
    const std::byte* signal = nullptr;
    uint64_t number = 0;
    std::span<std::byte> place;
    bool is_taken = false;
  };
  std::byte* writable(uint32_t id, uint64_t offset, uint64_t size_bytes) override;
  std::byte* place_of(const Frame& frame, std::byte* there, const std::byte* line) override;
  std::byte* in_landing(uint64_t offset, uint64_t size_bytes);
  Status control(const Frame& frame) override;

  Result<Progress> step(std::span<const std::byte> peer_address);
  Status start(std::span<const std::byte> peer_address);
  void become_link(Fd socket);
  Result<PutResult> taken(Result<PutResult> result);
  Status receive();
  Status send_releases();

  TcpShared& shared_;
  LinkState state_;
  FrameReader reader_;
  FrameSender sender_;
  RemoteTable remote_;
  std::unordered_map<uint32_t, std::span<std::byte>> exposed_;  // what the peer may write
  std::vector<Landing> landings_;                               // that, too
  std::vector<Diversion> diversions_;
  size_t removals_seen_ = 0;
  std::shared_ptr<Doorbell> bell_;             // also held by the rank's BellRow
  std::unique_ptr<Connector> connector_;       // until connected
  Fd socket_;                                  // none until connected
  std::atomic<int> published_{-1};             // socket_, for abort() on another thread
};

}  // namespace tutti
