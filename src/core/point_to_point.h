// PointToPoint: the sends and receives of a communicator, beside its collectives.
//
// All that a peer has to say about them comes through one stream, in order, and is taken from it as it comes, so that
// nothing there ever waits for a receive that the program has not made. A short message carries its data, which are
// kept here until a receive matches; a sender may have only so much kept (credits). Of any other message the receiver
// gets an offer: it reads the data where they lie, if it can and that is quicker, and says so; else it asks for them
// when it has matched; or it reads one half and asks for the other one, so that both ranks copy at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "core/inbox.h"
#include "core/links.h"
#include "core/memory_registry.h"
#include "core/pull_trials.h"
#include "core/request.h"
#include "kernels/kernels.h"

namespace tutti {

class PointToPoint {
 public:
  struct Events {
    std::function<void(tutti_request&, Status)> complete;  // the request is its owner's again
    std::function<void(int rank)> ask_for_link;            // that rank is to join in connecting
  };
  // Everything outlives it.
  PointToPoint(int rank, Links& links, MemoryRegistry& memory, const DataPathOptions& options, Events events);

  // What came of a call that was to run at once: it is done; advance() completes it; or nothing has happened.
  enum class Now : uint8_t { kDone, kUnderWay, kNothing };
  // Runs a blocking call whose arguments are right to its end, if nothing is under way and its message can go, or has
  // come, at once. Where nothing has happened post() it. May watch for a message.
  Now run_now(tutti_request& request, bool may_watch);
  // Takes a request whose arguments are right; advance() completes it. When it throws it has not taken it.
  void post(tutti_request& request);
  // Joins in connecting to `rank`. False when it does so already, or that is done.
  bool connect_to(int rank);
  // Connects to nobody any more.
  void stop_connecting() { connecting_.clear(); }
  // Whether there is something that advance() may move at any time: requests, or links to be connected.
  bool is_busy() const { return !in_flight_.empty() || !connecting_.empty(); }
  // Goes as far as it can, for peers too that this rank has no request for. Errors: a link that a request needs is
  // broken (the status names the peer); a message that does not fit its receive.
  Result<Progress> advance();
  // Looks for less than a microsecond for what the request's peer sends, if it waits for nothing else.
  void watch(const tutti_request& request) const;
  // Completes all requests with `why`; no peer may be in their memory any more.
  void fail_all(const Status& why);

  // All requests that are not complete, in no order.
  const std::vector<tutti_request*>& in_flight() const { return in_flight_; }
  const Inbox& inbox() const { return inbox_; }
  // How many messages this rank has sent to that one, and taken from it.
  uint64_t sent_to(int rank) const;
  uint64_t taken_from(int rank) const;

 private:
  enum class Kind : uint8_t;
  struct Header;
  struct Answer {
    Kind kind;
    uint32_t offer;
    // Of kClear.
    Window window = {};
    uint64_t to_push_bytes = 0;  // to this address:
    uint64_t address = 0;
  };
  // A request that is done, but for what the link has not sent yet.
  struct Settling {
    tutti_request* request;
    uint64_t puts = 0;  // when the link has completed so many, all that concerns the request has left; 0: not known yet
  };
  // What is under way between this rank and one other.
  struct Lane {
    RequestQueue unsent;                   // sends of which the peer does not know
    uint32_t offers = 0;                   // made so far
    std::vector<tutti_request*> offered;   // sends that wait for the peer's answer
    std::vector<tutti_request*> flowing;   // sends whose data the peer has asked for, also of those above
    std::vector<tutti_request*> arriving;  // receives whose data, or a part of them, this rank has asked for
    std::vector<Settling> settling;
    std::vector<Answer> answers;           // to the peer's offers
    uint64_t kept_there = 0;               // bytes that the peer may be keeping for this rank
    uint64_t kept_here = 0;                // bytes that this rank keeps for the peer
    uint64_t freed_here = 0;               // bytes that it keeps no more and has not told of
    bool is_busy() const;
    bool has_data_to_send() const { return !unsent.empty() || !flowing.empty(); }
  };
  using Where = std::vector<tutti_request*> Lane::*;

  static Header eager_header(const CallArguments& arguments);
  static const std::byte* payload_of(const RecvStream& stream, const Message& message);
  static uint64_t room_of(MessageKind kind);

  Now send_now(Peer& peer, tutti_request& send);
  bool receive_now(Peer& peer, const tutti_request& receive, bool may_watch);
  static void await_message(Peer& peer, const RecvStream& stream, bool may_watch);
  // It is under way from here on.
  void enter(tutti_request& request);

  Result<bool> connect();
  Result<bool> advance(Peer& peer);
  Result<bool> receive(Peer& peer);
  Status take(Peer& peer, const Header& header, const Message& message, const std::byte* payload);
  bool take_clear(Peer& peer, uint32_t offer, const Message& message);
  Status take_data(Peer& peer, uint32_t offer, const Message& message, const std::byte* payload);
  void take_pushed(tutti_request& receive, uint64_t size_bytes);
  void end_receive(tutti_request& receive);
  Status arrive(const Arrival& arrival);
  Status receive_from(tutti_request& receive, const Arrival& arrival);
  Result<Window> place_for(tutti_request& receive);
  // A part of a message into its receive's buffer.
  static Status store(const tutti_request& receive, uint64_t offset, const std::byte* from, uint64_t size_bytes,
                      Store store);
  void follow_trials(tutti_request& receive);
  void end_trial(const Transfer& transfer);
  PullTrials& trials_of(const Transfer& transfer);
  void no_longer_kept(int source, uint64_t size_bytes);
  static tutti_request* find(const std::vector<tutti_request*>& requests, uint32_t offer);
  tutti_request* remove(Peer& peer, Where where, uint32_t offer);

  Result<bool> send(Peer& peer);
  Result<bool> send_answers(Peer& peer);
  Result<bool> send_first(Peer& peer);
  Result<bool> send_data(Peer& peer);
  bool pushes_to(const Peer& peer) const;
  Result<bool> push_piece(Peer& peer, tutti_request& send);
  Result<PutResult> send_one(Peer& peer, const Header& header, const Message& message, const std::byte* payload);
  // `in_line`: the payload may be read, and go, where it is short.
  Result<PutResult> send_payload(Peer& peer, const Header& header, const std::byte* from, uint64_t size_bytes,
                                 bool in_line = true);
  bool may_be_kept(const Peer& peer, uint64_t size_bytes) const;
  bool may_be_lent(Peer& peer, uint64_t size_bytes) const;
  bool may_be_pulled(Peer& peer, uint64_t size_bytes) const;
  Result<PutResult> send_placed(Peer& peer, const Header& header, const RemoteSlice& into, const std::byte* from,
                                uint64_t size_bytes);
  Result<RemoteSlice> place_of(Peer& peer, const tutti_request& send) const;
  Status lend_to_link(Peer& peer, tutti_request& send);
  Result<Message> offer_of(Peer& peer, const tutti_request& send, const std::optional<SharedBuffer>& shared);

  Result<bool> read();
  Result<bool> read_piece(tutti_request& receive);
  // The request is done once the link has sent what concerns it: `puts` as in Settling.
  static void settle_later(Lane& lane, tutti_request& request, uint64_t puts = 0);
  void settle_sent(Peer& peer, tutti_request& send, uint64_t size_bytes);
  bool settle(Peer& peer);
  void post_receive(tutti_request& request);
  void post_send(tutti_request& request);
  void post_to_self(tutti_request& send);
  Status fits(const tutti_request& receive, const Arrival& arrival) const;
  void withdraw(tutti_request& request);
  void complete(tutti_request& request, Status result);

  const int rank_;
  Links& links_;
  MemoryRegistry& memory_;
  const DataPathOptions options_;
  const Events events_;
  const int channel_;
  Inbox inbox_;
  std::vector<Lane> lanes_;               // by rank
  std::vector<int32_t> connecting_;
  std::vector<tutti_request*> reading_;   // receives that read from the sender's memory, and have not all of it
  std::vector<tutti_request*> in_flight_;
  std::map<std::pair<int, int>, PullTrials> pulls_;  // by sender and logarithm of the size
  uint32_t in_a_row_ = 0;                 // calls that ran at once
  Status refused_;                        // of a receive that was posted for a message that does not fit
};

}  // namespace tutti
