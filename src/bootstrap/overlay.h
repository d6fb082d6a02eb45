// The connected overlay of one rank: it forwards news and messages, notices neighbours that are gone, and carries
// all_gather. One thread at a time drives it with turn(); it has no thread, lock or callback of its own.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/mender.h"
#include "bootstrap/messages.h"

namespace tutti::bootstrap {

struct Event {
  enum class Kind { kLost, kLeft, kAbort, kMessage };
  Kind kind = Kind::kLost;
  int rank = -1;
  Status why;
  uint32_t type = 0;
  Bytes payload;
};

class Overlay {
 public:
  // A neighbour on another host counts as lost when nothing was heard from it for `silence_ms`.
  Overlay(int rank, int nranks, std::map<int, NewLink> links, int64_t silence_ms);

  // From now on gaps are mended.
  void mend_with(std::unique_ptr<Mender> mender) { mender_ = std::move(mender); }

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }

  // Waits until a neighbour has something, `wake_fd` (-1: none) is readable, or `timeout_ms` (-1: no limit) has passed;
  // then reads, forwards and sends what is possible.
  void turn(int timeout_ms, int wake_fd);
  // What has happened since the last call, in order.
  std::vector<Event> take_events() { return std::exchange(events_, {}); }

  // None of these block; turn() sends.
  void send(int to, uint32_t type, ByteView payload);
  void abort(const Status& why);
  void send_beats();  // from now on the neighbours on other hosts hear from this rank regularly
  void say_goodbye();
  // Every neighbour that still lives has heard the goodbye.
  bool goodbye_heard() const;
  // Closes every connection, also where a child of this process holds it: who waits to be heard waits for its end, too.
  void close() {
    for (auto& [peer, link] : links_) link.channel.close_writing();
    links_.clear();
    mender_.reset();
  }

  // For all_gather: begins the next one, which forgets the blocks of the last.
  uint32_t begin_gather();
  std::map<int, Bytes>& blocks() { return blocks_[gather_]; }
  void send_block(int to, int origin, ByteView bytes);
  void flood_here();
  // Whether any rank has, and which ones have not.
  bool is_anyone_here() const;
  std::vector<int> not_here() const;
  bool all_sent() const;
  bool is_gone(int rank) const { return lost_.contains(rank) || left_.contains(rank); }

 private:
  bool is_rank(int number) const { return number >= 0 && number < nranks_; }
  struct Link {
    Channel channel;
    bool over_network = false;
    std::string who;
    bool fresh = true;           // not served yet: the channel may have read ahead while the link was made
    bool goodbye_heard = false;  // the peer has heard ours
    bool beats = false;          // the peer has begun to send beats
    Clock::time_point heard_at = Clock::now();
  };

  void serve(int peer, Link& link);
  void handle(int peer, Link& link, Frame frame);
  void route(Parcel parcel);
  void flood(MessageType type, const Bytes& payload, int except);
  void hear_lost(const Notice& notice, int from);
  bool is_expected(const Block& block) const;
  void lose(int rank, Status why, int heard_from);
  // True when that is news.
  bool note_left(int rank);
  void give_up_broken();
  void mend();
  void knock_at_the_next();
  void suspect(int rank, Status why);
  void welcome(int rank, NewLink link);
  void check_beats();
  Clock::time_point next_deadline() const;

  const int rank_;
  const int nranks_;
  const int64_t silence_ms_;
  std::map<int, Link> links_;
  std::vector<std::pair<int, Status>> broken_;  // links to give up at the end of the turn
  std::map<int, Status> lost_;
  std::set<int> left_;
  std::map<int, Status> aborted_;
  struct Suspect {
    Status why;
    Deadline deadline;  // until which the others may say that it left in good order
  };
  std::map<int, Suspect> suspects_;
  std::set<int> suspected_;  // by any rank
  std::unique_ptr<Mender> mender_;
  std::map<uint32_t, std::map<int, Bytes>> blocks_;
  std::set<std::pair<uint32_t, int>> here_;
  std::vector<Event> events_;
  uint32_t gather_ = 0;
  bool leaving_ = false;
  bool beating_ = false;
  Clock::time_point beat_at_ = Clock::time_point::max();
};

// Bruck's dissemination (Bruck et al., IEEE TPDS 8(11), 1997) over the overlay: ceil(log2 n) steps, in step k with the
// ranks at distance 2^k. Collective. `what` completes "waiting for the {what} of rank 3". Events that arrive meanwhile
// are appended to `events`; a lost rank or an abort ends the call with its sentence.
Result<std::vector<Bytes>> all_gather(Overlay& overlay, ByteView mine, std::string_view what, Deadline deadline,
                                      std::vector<Event>& events);

// Finds out who keeps the others waiting: whoever is in the same call says so.
class RollCall {
 public:
  explicit RollCall(Overlay& overlay) : overlay_(overlay) {}
  // Says that this rank is here, and asks the others. The answers have come at the result.
  Deadline begin();
  // Says it if another one has asked.
  void answer();
  bool is_over() const { return begun_ && begun_->passed(); }

 private:
  void tell();

  Overlay& overlay_;
  std::optional<Deadline> begun_;
  bool told_ = false;
};

// A dissemination barrier (Hensgen, Finkel and Manber, IJPP 17(1), 1988) over the overlay, which its owner drives with
// turn(). One for each overlay, after the last all_gather.
class Barrier {
 public:
  explicit Barrier(Overlay& overlay);
  // Goes on as far as it can; true once all ranks are in it.
  bool advance();
  // The rank whose word is missing; it may be waiting for another one.
  int awaited() const;

 private:
  void tell();

  Overlay& overlay_;
  int distance_ = 1;
};

}  // namespace tutti::bootstrap
