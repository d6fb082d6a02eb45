// One end of a verbs link: lanes for data, and beside them the connection by which the ends met.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transports/common/doorbell.h"
#include "transports/common/link_state.h"
#include "transports/common/tcp_meeting.h"
#include "transports/verbs/exports.h"
#include "transports/verbs/lane.h"
#include "transports/verbs/receiver.h"
#include "transports/verbs/side_channel.h"

namespace tutti {

// A port of this rank.
struct VerbsRail {
  PortFacts port;
  std::unique_ptr<VerbsDevice> device;  // of those beside the first, since a Link has tried it
};

// What the Links of one rank share; owned by its Transport, which outlives them.
struct VerbsShared {
  VerbsOptions options;
  TcpMeeting meeting;
  std::deque<VerbsRail> rails;          // since listen(), best first
  VerbsExports exports;                 // ends before the devices
  BellRow bells;

  // Queue pairs of a link, as far as this rank's ports go. Of ports that were named all are used at once, of others two
  // that are alike: a slow one would hold up what goes over the fast one.
  size_t lanes() const;
  // Different ports among them that are as fast as the fastest: Transport::lanes().
  size_t fast_ports() const;
};

class VerbsLink final : public Link {
 public:
  VerbsLink(VerbsShared& shared, int peer)
      : shared_(shared), state_(shared.meeting.identity().rank, peer, "verbs") {}
  ~VerbsLink() override;

  int peer() const override { return state_.peer(); }
  LinkTraits traits() const override { return {.places = true}; }
  std::string_view carried_by() const override { return is_over_tcp_ ? "tcp" : ""; }
  Result<Progress> connect(std::span<const std::byte> peer_address) override;
  std::string connect_report() const override;
  bool both_gave_up() const override { return both_gave_up_; }

  Status share(const LocalMemory& memory) override;
  const RemoteMemory* find(uint32_t id) override;

  Result<PutResult> put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line,
                        int channel) override;
  Result<PutResult> signal(RemoteSlice signal, const Line& line) override;
  void begin_batch() override;
  void end_batch() override;
  std::byte* stage(size_t size_bytes, int channel) override;
  Status pull(std::span<std::byte> to, uint64_t from) override;
  Status push(std::span<const std::byte> from, uint64_t to) override;
  Status poll(uint64_t* puts_completed) override;
  bool needs_poll() const override { return true; }
  bool has_pending() const override;
  void arm(WaitSet& waits) override;
  void disarm() override;
  void abort() noexcept override;
  bool begin_access() noexcept override { return true; }  // nothing is mapped, pulled or pushed
  bool end_access() noexcept override { return true; }
  bool is_accessed() const noexcept override { return false; }

 private:
  static constexpr size_t kMostTries = 6;  // of pairs of ports; each takes seconds where nothing crosses
  static constexpr size_t kMostRoutes = 2;  // that are tried between two ports
  static_assert(kMostTries >= kMostLanes);

  enum class Stage : uint8_t { kStart, kMeet, kHello, kReady, kProbe, kVerdict, kGaveUp, kDone };
  struct Remote : RemoteMemory {
    SharedRange range;
  };

  // link_connect.cpp: the lanes are made one after another.
  Result<Progress> step(std::span<const std::byte> peer_address);
  Result<Progress> negotiate();
  Status meet(Fd socket);
  // Begins with the pair of ports that is next.
  Status say_hello();
  Status open_lane();
  // Both ends have told what became of the pair of ports.
  Result<Progress> conclude();
  size_t most_tries() const;
  size_t pairs() const { return shared_.rails.size() * peer_ports_; }
  size_t wanted_lanes() const { return std::max(shared_.lanes(), peer_lanes_); }
  SideVerdict verdict(bool proven, std::string reason) const;
  // True if something has happened.
  Result<bool> look_at_queue();
  Status join(const SideHello& hello);
  Status check_probe();
  Status give_up(Status why);
  Status take_verdict(const SideVerdict& verdict);
  bool both_have_spoken() const { return (stage_ == Stage::kVerdict || stage_ == Stage::kGaveUp) && peer_proven_; }
  Status handle(const SideMessage& message);

  // link_lanes.cpp: which lane takes what, and what happens when one fails.
  // The lane that a channel's payloads go over, of those in use that `may` take it. nullptr: none may.
  template <typename May>
  VerbsLane* lane_of(int channel, May&& may);
  VerbsLane* lane_for(std::span<const std::byte> from, int channel = kNoChannel);
  template <typename Visit>
  void visit_live(Visit&& visit);
  // Takes what has completed; true if anything has.
  Result<bool> take_completions();
  // Before a sleep, for which there is no reason if anything has completed.
  bool takes_before_sleep(WaitSet& waits);
  void lose(VerbsLane& lane);
  // It comes once over the side channel and once over every lane, in any order.
  Status take_lost(const SideLost& lost);
  void tell_losses();
  // Goes on with lanes that fail: true if anything has moved.
  Result<bool> advance_losses();
  Result<bool> send_owed();
  // Whether lanes have failed and none is left; what these have not brought may go over the side channel.
  bool has_lost_all() const;
  // Both ends have told what came over every lane.
  bool is_all_over() const;
  void go_over_tcp();
  // A message without a payload, over whatever carries data now.
  Result<PutResult> send_alone(const MessageHead& head, const Line& line);
  Result<PutResult> send_beside(const MessageHead& head, const Line& line, std::span<const std::byte> payload,
                                uint64_t put);
  Status begin_arriving(const SideData& data);
  // True once all of the payload is where it goes.
  Result<bool> receive_arriving();

  RemoteRange place_on(const VerbsLane& lane, const SharedRange& range, uint64_t offset) const;
  PutSource payload_on(const VerbsLane& lane, std::span<const std::byte> from);
  // The exported memory that `from` lies in, if it matters where that is.
  const VerbsExports::Source* source_of(std::span<const std::byte> from);
  // What peers are told of memory; none where not all lanes in use reach it.
  std::optional<SharedRange> range_of(const VerbsExports::Change& change) const;
  Result<PutResult> taken(Result<PutResult> result);
  // Whether what must go before anything else has gone: what failed lanes owe, and what has become of this rank's
  // memory. False while there is no room.
  Result<bool> is_clear();
  Result<bool> tell_news();
  void gather_news();
  Status take_news();
  // As much as one poll() should; what is left ends the next sleep.
  Status take_side(bool* moved);
  uint64_t puts_completed_now() const;
  Status look_for_the_end(bool moved);
  void finish();

  VerbsShared& shared_;
  LinkState state_;
  Stage stage_ = Stage::kStart;
  Status gave_up_;                             // why, once this end has, of the first ports that were tried
  Status last_reason_;                         // and of the last ones
  bool both_gave_up_ = false;
  size_t tries_ = 0;                           // of pairs of ports, that are over
  size_t routes_ = 1;                          // by which two ports can try to reach each other
  size_t rail_ = 0;                            // this rank's port of the pair that is tried
  size_t peer_ports_ = 1;
  size_t peer_lanes_ = 1;
  bool heard_probe_ = false;
  std::optional<bool> peer_proven_;            // its verdict
  std::unordered_map<uint32_t, Remote> remote_;
  uint64_t version_seen_ = 0;                  // of the exports
  std::deque<VerbsExports::Change> news_;      // that the peer does not know yet
  std::optional<VerbsExports::Source> source_; // that the last put came from
  uint64_t number_ = 0;                        // of the last message that has one
  uint64_t puts_ = 0;                          // taken
  uint64_t completed_ = 0;                     // of them
  std::deque<Owed> owed_;                      // of lanes that have failed
  struct Untold {
    VerbsLane* over = nullptr;
    SideLost lost;
  };
  std::vector<Untold> untold_;                 // of lanes that have failed, over others
  bool is_over_tcp_ = false;                   // no lane is left: data goes over the side channel
  std::optional<SideData> arriving_;           // on it: a message whose payload has not all come
  VerbsReceiver::Place arriving_to_;           // where the rest of it goes
  std::vector<std::byte> arrived_;             // through which a GPU's memory is written
  uint32_t polls_ = 0;
  bool armed_ = false;
  bool look_aside_ = false;                    // in the next poll()
  bool slept_in_vain_ = false;                 // nothing was taken since
  const VerbsLane* last_lost_ = nullptr;
  std::optional<Deadline> lost_all_;           // no lane is left; why is told then, if the peer's end is not the cause
  Status ended_;                               // an error that poll() has not told yet
  std::shared_ptr<Doorbell> bell_;             // also held by the rank's BellRow
  std::unique_ptr<Connector> connector_;       // until they met
  std::vector<std::unique_ptr<VerbsLane>> tried_;  // all until the end, since abort() may be about to use them
  VerbsLane* joining_ = nullptr;               // the one of them that is being tried
  std::vector<VerbsLane*> lanes_;              // those that both ends have proven, in the same order at both
  VerbsReceiver receiver_;
  std::unique_ptr<VerbsSideChannel> side_;     // none until they met; ends before the lanes
  std::atomic<int> published_{-1};             // its socket, for abort() on another thread
  std::array<std::atomic<QueuePair*>, kMostTries> published_queues_{};
};

template <typename Visit>
void VerbsLink::visit_live(Visit&& visit) {
  if (joining_ != nullptr) visit(*joining_);
  for (VerbsLane* lane : lanes_) {
    if (lane->is_live()) visit(*lane);
  }
}

}  // namespace tutti
