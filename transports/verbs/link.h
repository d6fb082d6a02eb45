// One end of a verbs link: a queue pair for data, and beside it the connection by which the ends met.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transports/common/doorbell.h"
#include "transports/common/link_state.h"
#include "transports/common/tcp_meeting.h"
#include "transports/verbs/exports.h"
#include "transports/verbs/receiver.h"
#include "transports/verbs/sender.h"
#include "transports/verbs/side_channel.h"

namespace tutti {

// A port of this rank, and what is registered with it.
struct VerbsRail {
  VerbsRail(const PortFacts& facts, const VerbsExports::Bounds& bounds) : port(facts), exports(bounds) {}
  PortFacts port;
  std::unique_ptr<VerbsDevice> device;  // of those beside the first, since a Link has tried it
  VerbsExports exports;                 // before the device ends
};

// What the Links of one rank share; owned by its Transport, which outlives them.
struct VerbsShared {
  VerbsOptions options;
  TcpMeeting meeting;
  std::deque<VerbsRail> rails;          // since listen(), best first
  BellRow bells;
};

class VerbsLink final : public Link {
 public:
  VerbsLink(VerbsShared& shared, int peer)
      : shared_(shared), state_(shared.meeting.identity().rank, peer, "verbs") {}
  ~VerbsLink() override;

  int peer() const override { return state_.peer(); }
  LinkTraits traits() const override { return {.places = true}; }
  Result<Progress> connect(std::span<const std::byte> peer_address) override;
  std::string connect_report() const override;
  bool both_gave_up() const override { return both_gave_up_; }

  Status share(const LocalMemory& memory) override;
  const RemoteMemory* find(uint32_t id) override;

  Result<PutResult> put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line) override;
  Result<PutResult> signal(RemoteSlice signal, const Line& line) override;
  std::byte* stage(size_t size_bytes) override { return engine_->sender.stage(size_bytes); }
  Status pull(std::span<std::byte> to, uint64_t from) override;
  Status poll(uint64_t* puts_completed) override;
  bool needs_poll() const override { return true; }
  bool has_pending() const override;
  void arm(WaitSet& waits) override;
  void disarm() override;
  void abort() noexcept override;
  bool begin_access() noexcept override { return true; }  // nothing is mapped or pulled
  bool end_access() noexcept override { return true; }
  bool is_accessed() const noexcept override { return false; }

 private:
  enum class Stage : uint8_t { kStart, kMeet, kHello, kReady, kProbe, kVerdict, kGaveUp, kDone };

  struct Remote : RemoteMemory {
    RemoteRange range;
  };
  // What exists from the meeting on, until the end.
  struct Engine {
    Engine(LinkMemory made, std::unique_ptr<QueuePair> pair)
        : memory(std::move(made)), queue(std::move(pair)), sender(*queue, memory), receiver(*queue, memory) {}
    LinkMemory memory;
    std::unique_ptr<QueuePair> queue;
    VerbsSender sender;
    VerbsReceiver receiver;
  };
  // An error of the queue pair that may be a consequence of the peer's end.
  struct Broken {
    std::string what;
    bool is_consequence = false;
    bool is_silence = false;  // nothing came back
    Deadline report_at;
  };

  // link_connect.cpp
  Result<Progress> step(std::span<const std::byte> peer_address);
  Result<Progress> negotiate();
  // True if something has happened.
  Result<bool> look_at_queue();
  Status meet(Fd socket);
  // Begins with the pair of ports that is next.
  Status say_hello();
  Status open_engine();
  Status try_next_ports();
  size_t ports_to_try() const;
  uint8_t own_ports() const { return static_cast<uint8_t>(std::min<size_t>(shared_.rails.size(), UINT8_MAX)); }
  VerbsRail& rail() const { return shared_.rails[rail_]; }
  Status join_queues(const SideHello& hello);
  Status check_probe();
  Status give_up(Status why);
  Status take_verdict(const SideVerdict& verdict);
  std::string ends() const;

  RemoteRange place_of(const RemoteSlice& slice) const;
  const std::shared_ptr<const Registration>& registration_of(std::span<const std::byte> from);
  Result<PutResult> taken(Result<PutResult> result);
  // Tells the peer what has become of this rank's memory, before anything else goes; false while there is no room.
  Result<bool> tell_news();
  Result<PutResult> waits_for_news(const Result<bool>& told);
  void gather_news();
  void take_news(const VerbsReceiver::Message& message);
  Status take_side(bool* moved);
  Status handle(const SideMessage& message);
  // Takes what has completed; true if anything has.
  Result<bool> take_completions();
  Status on_completion(const ibv_wc& completion);
  void note_broken(const ibv_wc& completion);
  Status look_for_the_end(bool moved);
  void finish();

  VerbsShared& shared_;
  LinkState state_;
  Stage stage_ = Stage::kStart;
  Status gave_up_;                             // why, once this end has, of the first ports that were tried
  Status last_reason_;                         // and of the last ones
  bool both_gave_up_ = false;
  size_t tries_ = 0;                           // of pairs of ports, that were in vain
  size_t rail_ = 0;
  size_t peer_ports_ = 1;
  bool heard_probe_ = false;
  std::optional<bool> peer_proven_;            // its verdict
  std::string peer_name_;                      // "mlx5_1 port 1, queue pair 17"
  Route route_;
  std::unordered_map<uint32_t, Remote> remote_;
  uint64_t version_seen_ = 0;                  // of the exports
  std::deque<VerbsExports::Change> news_;      // that the peer does not know yet
  std::optional<VerbsExports::Source> source_; // that the last put came from
  uint32_t polls_ = 0;
  bool armed_ = false;
  bool look_aside_ = false;                    // in the next poll()
  std::optional<Broken> broken_;
  Status ended_;                               // an error that poll() has not told yet
  std::shared_ptr<Doorbell> bell_;             // also held by the rank's BellRow
  std::unique_ptr<Connector> connector_;       // until they met
  std::vector<std::unique_ptr<Engine>> past_;  // of ports that did not work
  std::unique_ptr<Engine> engine_;             // ends after the side channel
  std::unique_ptr<VerbsSideChannel> side_;          // none until they met
  std::atomic<int> published_{-1};             // its socket, for abort() on another thread
  std::atomic<QueuePair*> published_queue_{nullptr};
};

}  // namespace tutti
