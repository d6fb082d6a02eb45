#include "bootstrap/join.h"

#include <poll.h>

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "bootstrap/dialer.h"
#include "bootstrap/link_up.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/routing.h"

namespace tutti::bootstrap {
namespace {

constexpr int kRoundsUntilGone = 3;

// The ways to the meeting point, the unix socket first where it may be on this host.
std::vector<Endpoint> ways_to(const UniqueId& id, const JoinOptions& options) {
  std::vector<Endpoint> ways;
  bool maybe_here = id.host == 0 || id.host == options.host.hash();
  if (options.unix_socket && maybe_here) ways.push_back(id.unix_endpoint());
  ways.insert(ways.end(), id.addresses.begin(), id.addresses.end());
  return ways;
}

std::string text_of(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& endpoint : endpoints) text += (text.empty() ? "" : ", ") + endpoint.text();
  return text;
}

// Connects to the meeting point and says hello.
Result<Channel> reach_meeting_point(const UniqueId& id, const JoinOptions& options, TlsContext& tls, const Hello& hello,
                                    Deadline deadline) {
  std::vector<Endpoint> ways = ways_to(id, options);
  Dialer dialer(ways, &tls, "the meeting point", Frame{static_cast<uint32_t>(MessageType::kHello), encode(hello)});
  for (;;) {
    if (dialer.advance()) return dialer.take();
    const Status& failure = dialer.failure();
    if (dialer.rounds() > 0 && failure.code() == Code::kInvalidUsage) return failure;
    bool may_come_later = id.kind != UniqueId::Kind::kServed && failure.code() == Code::kSystem;
    bool gone = dialer.rounds() >= kRoundsUntilGone && !may_come_later && failure.code() != Code::kTimeout;
    if (gone && id.kind != UniqueId::Kind::kServed) {
      return error(Code::kRemote,
                   "what answers at {} is not rank 0 of this job ({}): check TUTTI_ADDRESS, or whether that rank has "
                   "ended already",
                   text_of(ways), failure.message());
    }
    if (gone) {
      return error(Code::kRemote,
                   "nobody of this job listens at {} any more: the process that made the unique id must live until "
                   "all ranks have joined, and each id serves one start at a time ({})",
                   text_of(ways), failure.message());
    }
    if (deadline.passed()) {
      return error(Code::kTimeout,
                   "rank 0 cannot be reached at {}: check that it was started, and that the address and network "
                   "are right ({})",
                   text_of(ways), failure.ok() ? "no answer yet" : failure.message());
    }
    pollfd wait{dialer.fd(), dialer.events(), 0};
    auto next = std::min(dialer.wake_at(), deadline.at());
    auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    ::poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1'000)));
  }
}

Result<std::vector<Listener>> open_listeners(const UniqueId& id, const JoinOptions& options) {
  std::vector<Listener> listeners;
  if (options.unix_socket) listeners.push_back(TUTTI_TRY(listen_unix("")));
  if (id.kind != UniqueId::Kind::kLocal) listeners.push_back(TUTTI_TRY(listen_tcp(0, "TUTTI_ADDRESS")));
  return listeners;
}

Result<std::vector<Endpoint>> endpoints_of(const std::vector<Listener>& listeners, const Config& config) {
  std::vector<Endpoint> endpoints;
  for (const Listener& listener : listeners) {
    if (listener.endpoint.is_unix()) {
      endpoints.push_back(listener.endpoint);
      continue;
    }
    for (const Endpoint& endpoint : TUTTI_TRY(local_addresses(config.interface, listener.endpoint.port)))
      endpoints.push_back(endpoint);
  }
  endpoints.resize(std::min(endpoints.size(), Hello::kMaxEndpoints));
  return endpoints;
}

// Waits for the neighbours' addresses: for the last rank to arrive.
Result<Neighbours> await_neighbours(Channel& meeting_point, int rank, int nranks, Deadline deadline) {
  Result<Frame> frame = meeting_point.receive(deadline);
  if (!frame.ok() && frame.status().code() == Code::kTimeout) {
    return error(Code::kTimeout,
                 "rank {} has joined, but the others have not within the deadline, and the meeting point does not say "
                 "which: check the process that made the unique id",
                 rank);
  }
  if (!frame.ok()) {
    return error(Code::kRemote,
                 "the meeting point ended before all ranks had joined ({}): check the process that made the unique id, "
                 "or rank 0",
                 frame.status().message());
  }
  if (frame->type != static_cast<uint32_t>(MessageType::kNeighbours)) return refusal(*frame);
  Neighbours neighbours = TUTTI_TRY(decode_neighbours(frame->payload));
  std::vector<int> expected = neighbours_of(rank, nranks);
  auto same = [](const Hello& hello, int other) { return hello.rank == other; };
  if (!std::equal(neighbours.hellos.begin(), neighbours.hellos.end(), expected.begin(), expected.end(), same)) {
    return error(
        Code::kRemote,
        "the meeting point named other neighbours than rank {} has: run the same version of tutti on all ranks", rank);
  }
  return neighbours;
}

// Everyone's hello in rank order: what it takes to mend the overlay later.
Result<std::vector<Hello>> exchange_hellos(Overlay& overlay, const Hello& mine, Deadline deadline) {
  std::vector<Event> events;
  std::vector<Bytes> parts = TUTTI_TRY(all_gather(overlay, encode(mine), "addresses", deadline, events));
  std::vector<Hello> hellos;
  for (const Bytes& part : parts) hellos.push_back(TUTTI_TRY(decode_hello(part)));
  return hellos;
}

// From the neighbours' addresses to a connected overlay.
Result<Joined> connect_overlay(const Hello& hello, Channel& meeting_point, std::vector<Listener> listeners,
                               const JoinOptions& options, Deadline deadline) {
  Neighbours neighbours = TUTTI_TRY(await_neighbours(meeting_point, hello.rank, hello.nranks, deadline));
  auto tls = TlsContext::create(derive(neighbours.token, "tutti overlay"));
  Doorman doorman(std::move(listeners), tls.get(), LinkHello{0, hello.rank, neighbours.job, neighbours.token});
  Result<std::map<int, NewLink>> links =
      link_up({hello.rank, options.host, neighbours, *tls, doorman, meeting_point}, deadline);
  if (!links.ok()) {
    Notice notice{hello.rank, links.status().code(), std::string(links.status().message())};
    meeting_point.queue(static_cast<uint32_t>(MessageType::kFailed), encode(notice));
    (void)meeting_point.flush();
    return std::move(links).status();
  }
  Joined joined;
  joined.job = neighbours.job;
  joined.token = neighbours.token;
  joined.overlay = std::make_unique<Overlay>(hello.rank, hello.nranks, std::move(links).value(), options.silence_ms);
  // Where everyone is everyone's neighbour there is never a gap.
  if (neighbours.hellos.size() + 1 == static_cast<size_t>(hello.nranks)) return joined;
  std::vector<Hello> hellos = TUTTI_TRY(exchange_hellos(*joined.overlay, hello, deadline));
  joined.overlay->mend_with(std::make_unique<Mender>(hello.rank, std::move(hellos), joined.job, joined.token,
                                                     std::move(tls), std::move(doorman), options.silence_ms));
  return joined;
}

Result<Joined> join_alone() {
  Joined joined;
  TUTTI_TRY(random_bytes(joined.token));
  TUTTI_TRY(random_bytes(std::as_writable_bytes(std::span(&joined.job, 1))));
  joined.overlay = std::make_unique<Overlay>(0, 1, std::map<int, NewLink>(), 0);
  return joined;
}

}  // namespace

Result<Joined> join(const JoinInfo& info, const Config& config, const JoinOptions& options, Deadline deadline) {
  if (info.nranks < 1 || info.nranks > kMaxRanks || info.rank < 0 || info.rank >= info.nranks) {
    return error(Code::kInvalidArgument,
                 "rank {} of {} is not possible: ranks count from 0 to size - 1, sizes from 1 to {}", info.rank,
                 info.nranks, kMaxRanks);
  }
  if (info.nranks == 1) return join_alone();
  UniqueId id = TUTTI_TRY(decode_unique_id(info.id));
  std::unique_ptr<Rendezvous> own;
  if (info.rank == 0 && id.kind != UniqueId::Kind::kServed) {
    own = TUTTI_TRY(Rendezvous::serve(id, {config.interface, options.unix_socket, true, options.host}));
  }
  std::vector<Listener> listeners = TUTTI_TRY(open_listeners(id, options));
  Hello hello;
  hello.version = options.version;
  hello.rank = info.rank;
  hello.nranks = info.nranks;
  hello.pid = getpid();
  hello.timeout_ms = deadline.left_ms(INT32_MAX);
  hello.secret_check = id.secret_check();
  hello.host = options.host;
  hello.host_name = host_name();
  hello.endpoints = TUTTI_TRY(endpoints_of(listeners, config));
  auto tls = TlsContext::create(id.tls_key());
  Channel meeting_point = TUTTI_TRY(reach_meeting_point(id, options, *tls, hello, deadline));
  return connect_overlay(hello, meeting_point, std::move(listeners), options, deadline);
}

}  // namespace tutti::bootstrap
