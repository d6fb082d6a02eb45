// What every transport must do about meeting, sharing, sleeping and leaving. Runs on all of them.
#include <algorithm>
#include <cstring>
#include <thread>

#include "transports/checks.h"
#include "transports/implementations.h"

namespace tutti::test {
namespace {

// Sleeps in poll(2) until woken and returns the status of the Link's next poll().
Status sleep_once(Link& link) {
  WaitSet waits;
  link.arm(waits);
  waits.fence();
  bool woken = waits.sleep(static_cast<int>(kPatienceMs));
  link.disarm();
  if (!woken) return error(Code::kTimeout, "nothing woke this rank");
  uint64_t completed = 0;
  return link.poll(&completed);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("every pair of ranks links and talks", "", Implementations) {
  int n = GENERATE(2, 3, 4, 7);
  Job job(TestType::make(), n, 64 * 64);
  check_ok(job.status());
  std::atomic<int> finished{0};
  auto statuses = on_threads(n, [&](int rank) -> Status {
    std::vector<int> peers;
    std::vector<Link*> links;
    for (int peer = 0; peer < n; ++peer) {
      if (peer == rank) continue;
      if (job.link(rank, peer).peer() != peer) return error(Code::kInternal, "the link names another peer");
      peers.push_back(peer);
      links.push_back(&job.link(rank, peer));
      TUTTI_TRY(signal(*links.back(), job.slice(rank, peer, rank * 64), Line{{1, static_cast<uint64_t>(rank)}}));
    }
    auto arrived = [&](int peer) {
      const Line* line = job.window(rank).line(peer * 64);
      return counter_of(line) == 1 && line->words[1] == static_cast<uint64_t>(peer);
    };
    TUTTI_TRY(await_until([&] { return std::all_of(peers.begin(), peers.end(), arrived); }, links));
    ++finished;  // but go on: what this rank has sent may still be under way
    return await_until([&] { return finished == n; }, links);
  });
  check_all_ok(statuses);
}

// A rank that has heard of one signal goes to sleep for the next, which comes just then: each of the two may be ahead
// of the other by less than a store takes to be seen. Without a fence up to twenty are lost over the loopback; over
// shared memory the sleeper's second look finds them.
TEMPLATE_LIST_TEST_CASE("no wake-up is lost, whenever a signal comes", "", Implementations) {
  constexpr int kLostMs = 200;
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  const uint64_t turns = job.link(0, 1).traits().mappable ? 300'000 : 500;
  std::atomic<uint64_t> seen{0}, lost{0};
  std::atomic<bool> is_over{false};
  auto statuses = on_threads(2, [&](int rank) -> Status {
    Link& link = job.link(rank, 1 - rank);
    uint64_t completed = 0, random = 1 + static_cast<uint64_t>(rank);
    auto linger = [&] {
      random = random * 6364136223846793005 + 1442695040888963407;
      for (uint64_t i = (random >> 33) % 200; i > 0; --i) std::atomic_signal_fence(std::memory_order_seq_cst);
    };
    for (uint64_t turn = 1; rank == 0 && turn <= turns && !is_over; ++turn) {
      while (seen < turn - 1 && !is_over) TUTTI_TRY(link.poll(&completed));
      TUTTI_TRY(signal(link, job.slice(0, 1, 0), Line{{turn}}));
      linger();
      TUTTI_TRY(signal(link, job.slice(0, 1, 1024), Line{{turn}}));
    }
    while (rank == 0 && !is_over) TUTTI_TRY(link.poll(&completed));
    const Line *first = job.window(1).line(0), *second = job.window(1).line(1024);
    for (uint64_t turn = 1; rank == 1 && turn <= turns; ++turn) {
      auto has_come = [&] { return counter_of(second) >= turn; };
      while (counter_of(first) < turn) TUTTI_TRY(link.poll(&completed));
      linger();
      Deadline patience = Deadline::after_ms(kPatienceMs);
      while (!has_come()) {
        WaitSet waits;
        link.arm(waits);
        waits.fence();
        if (link.needs_poll()) TUTTI_TRY(link.poll(&completed));
        bool is_woken = has_come() || waits.sleep(kLostMs, has_come);
        link.disarm();
        if (is_woken) continue;
        lost += has_come();
        if (has_come() || !patience.passed()) continue;
        is_over = true;
        return error(Code::kTimeout, "the signal of turn {} has not come", turn);
      }
      seen = turn;
    }
    is_over = true;
    return {};
  });
  check_all_ok(statuses);
  CHECK(lost == 0);
}

TEMPLATE_LIST_TEST_CASE("memory shared later is found, and not before", "", Implementations) {
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  std::vector<uint32_t> ids;
  for (int i = 0; i < 40; ++i) {
    const Window& window = job.node(0).add_window(4096 * (i + 1));
    ids.push_back(window.exported->id);
    CHECK(job.link(1, 0).find(window.exported->id) == nullptr);
    check_ok(job.link(0, 1).share(*window.exported));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const RemoteMemory* found = nullptr;
    check_ok(await_until([&] { return (found = job.link(1, 0).find(ids[i])) != nullptr; },
                         {&job.link(0, 1), &job.link(1, 0)}));
    REQUIRE(found != nullptr);
    CHECK(found->id == ids[i]);
    CHECK(found->size_bytes == 4096 * (i + 1));
  }
  CHECK(job.link(1, 0).find(12345) == nullptr);
}

TEMPLATE_LIST_TEST_CASE("released memory is forgotten by the peer", "", Implementations) {
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  const LocalMemory* exported = job.node(0).add_window(4096).exported;
  uint32_t id = exported->id;
  check_ok(job.link(0, 1).share(*exported));
  std::vector<Link*> links = {&job.link(0, 1), &job.link(1, 0)};
  check_ok(await_until([&] { return job.link(1, 0).find(id) != nullptr; }, links));
  job.node(0).transport->release(exported);
  check_ok(await_until([&] { return job.link(1, 0).find(id) == nullptr; }, links));
  CHECK(job.node(0).add_window(4096).exported->id != id);
}

// Whoever has found it goes on using it: here the peer does what no rank does.
TEMPLATE_LIST_TEST_CASE("a peer that releases what its links live in breaks the link, and its memory stays known", "",
                        Implementations) {
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  const RemoteMemory* arena = job.link(1, 0).find(kArena);
  REQUIRE(arena != nullptr);
  job.node(0).transport->release(job.window(0).exported);
  Status broken = await_until([] { return false; }, {&job.link(0, 1), &job.link(1, 0)});
  CHECK(broken.code() == Code::kRemote);
  CHECK(mentions(broken, "the peer released memory 1, which stays as long as the link"));
  CHECK(job.link(1, 0).find(kArena) == arena);
  CHECK(arena->size_bytes == 4096);
}

TEMPLATE_LIST_TEST_CASE("what a peer sends into memory that was released is not stored", "", Networks) {
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  const Window& window = job.node(1).add_window(4096);
  check_ok(job.link(1, 0).share(*window.exported));
  const RemoteMemory* remote = nullptr;
  check_ok(await_until([&] { return (remote = job.link(0, 1).find(window.exported->id)) != nullptr; },
                       {&job.link(0, 1), &job.link(1, 0)}));
  auto payload = pattern(64, 1);
  check_ok(put(job.link(0, 1), {remote, 64}, payload, job.slice(0, 1, 0), Line{{1}}));
  job.node(1).transport->release(window.exported);
  // Asleep too it looks at what has come.
  WaitSet waits;
  job.link(1, 0).arm(waits);
  waits.fence();
  job.link(1, 0).disarm();
  Status refused = await_until([] { return false; }, {&job.link(1, 0)});
  CHECK(mentions(refused, "may not write"));
  CHECK(is_all(std::span(window.at(0), 4096), std::byte{0}));
}

// Else the rest of it would come into whatever is there by then.
TEST_CASE("memory that is released while a payload comes into it over tcp breaks the link") {
  constexpr size_t kPayload = 32 << 20;  // far more than two sockets hold
  Job job(Tcp::make(), 2, 4096);
  check_ok(job.status());
  const Window& window = job.node(1).add_window(kPayload);
  check_ok(job.link(1, 0).share(*window.exported));
  const RemoteMemory* remote = nullptr;
  check_ok(await_until([&] { return (remote = job.link(0, 1).find(window.exported->id)) != nullptr; },
                       {&job.link(0, 1), &job.link(1, 0)}));
  std::vector<std::byte> payload(kPayload, std::byte{7});
  check_ok(put(job.link(0, 1), {remote, 0}, payload, job.slice(0, 1, 0), Line{{1}}));
  check_ok(await_until([&] { return *window.at(0) == std::byte{7}; }, {&job.link(1, 0)}));
  job.node(1).transport->release(window.exported);
  uint64_t completed = 0;
  Status broken = job.link(1, 0).poll(&completed);
  CHECK(mentions(broken, "the peer's payload is on its way into memory 2, which is released"));
}

TEMPLATE_LIST_TEST_CASE("a rank that goes to sleep misses no wake-up", "", Implementations) {
  constexpr uint64_t kTurns = 4000;
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  std::atomic<int> finished{0};
  auto statuses = on_threads(2, [&](int rank) -> Status {
    Link& link = job.link(rank, 1 - rank);
    for (uint64_t turn = 1; turn <= kTurns; ++turn) {
      if (rank == 0) TUTTI_TRY(signal(link, job.slice(0, 1, 0), Line{{turn}}));
      TUTTI_TRY(await_asleep(link, job.window(rank).line(0), turn));
      if (rank == 1) TUTTI_TRY(signal(link, job.slice(1, 0, 0), Line{{turn}}));
    }
    ++finished;
    return await_until([&] { return finished == 2; }, {&link});
  });
  check_all_ok(statuses);
}

TEMPLATE_LIST_TEST_CASE("a sleeping rank is woken by any of its links", "", Implementations) {
  Job job(TestType::make(), 3, 4096);
  check_ok(job.status());
  std::atomic<int> finished{0};
  auto statuses = on_threads(3, [&](int rank) -> Status {
    if (rank != 0) {
      for (uint64_t turn = 1; turn <= 200; ++turn) {
        TUTTI_TRY(signal(job.link(rank, 0), job.slice(rank, 0, rank * 64), Line{{turn}}));
        TUTTI_TRY(await_asleep(job.link(rank, 0), job.window(rank).line(0), turn));
      }
      ++finished;
      return {};
    }
    uint64_t answered[3] = {};
    while (answered[1] < 200 || answered[2] < 200) {
      WaitSet waits;
      for (int peer : {1, 2}) job.link(0, peer).arm(waits);
      waits.fence();
      auto waiting = [&](int peer) { return counter_of(job.window(0).line(peer * 64)) == answered[peer]; };
      auto nothing = [&] { return waiting(1) && waiting(2); };
      if (nothing()) {
        bool is_woken = waits.sleep(static_cast<int>(kPatienceMs), [&] { return !nothing(); });
        if (!is_woken) return error(Code::kTimeout, "nothing woke rank 0");
      }
      for (int peer : {1, 2}) job.link(0, peer).disarm();
      for (int peer : {1, 2}) {
        uint64_t completed = 0;
        TUTTI_TRY(job.link(0, peer).poll(&completed));
        if (waiting(peer)) continue;
        TUTTI_TRY(signal(job.link(0, peer), job.slice(0, peer, 0), Line{{++answered[peer]}}));
      }
    }
    return await_until([&] { return finished == 2; }, {&job.link(0, 1), &job.link(0, 2)});
  });
  check_all_ok(statuses);
}

TEMPLATE_LIST_TEST_CASE("an unused bell lets a rank sleep", "", Implementations) {
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  // Signals while awake are no wake-ups, and a wake-up is used up by disarm().
  for (uint64_t turn = 1; turn <= 3; ++turn) {
    check_ok(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{turn}}));
    auto arrived = [&] { return counter_of(job.window(1).line(0)) == turn; };
    check_ok(await_until(arrived, {&job.link(0, 1), &job.link(1, 0)}));
    WaitSet waits;
    job.link(1, 0).arm(waits);
    waits.fence();
    check_ok(signal(job.link(0, 1), job.slice(0, 1, 64), Line{{turn}}));
    CHECK(waits.sleep(static_cast<int>(kPatienceMs)));
    job.link(1, 0).disarm();
    auto woken = [&] { return counter_of(job.window(1).line(64)) == turn; };
    check_ok(await_until(woken, {&job.link(0, 1), &job.link(1, 0)}));
  }
  WaitSet waits;
  job.link(1, 0).arm(waits);
  waits.fence();
  CHECK(!waits.sleep(0));
  job.link(1, 0).disarm();
}

TEMPLATE_LIST_TEST_CASE("a signal that may wait comes while its sender polls, and with what follows it", "",
                        Implementations) {
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  Link& link = job.link(0, 1);
  auto line_is = [&](uint64_t offset, uint64_t number) {
    return [&job, offset, number] { return counter_of(job.window(1).line(offset)) == number; };
  };
  CHECK(link.signal_soon(job.slice(0, 1, 0), Line{{1}}).ok());
  check_ok(await_until(line_is(0, 1), {&link, &job.link(1, 0)}));
  CHECK(link.signal_soon(job.slice(0, 1, 0), Line{{2}}).ok());
  check_ok(signal(link, job.slice(0, 1, 64), Line{{1}}));
  check_ok(await_until(line_is(64, 1), {&job.link(1, 0)}));
  CHECK(line_is(0, 2)());
}

TEMPLATE_LIST_TEST_CASE("what goes in batches arrives", "", Implementations) {
  constexpr uint64_t kPuts = 40, kSize = 700, kData = 4096;
  Job job(TestType::make(), 2, kData + kPuts * kSize);
  check_ok(job.status());
  Link& link = job.link(0, 1);
  auto source = pattern(kPuts * kSize, 3);
  uint64_t completed = 0;
  for (uint64_t sent = 0; sent < kPuts;) {
    link.begin_batch();
    for (auto taken = PutResult::kDone; sent < kPuts && taken == PutResult::kDone;) {
      auto put = link.put(job.slice(0, 1, kData + sent * kSize), std::span(source).subspan(sent * kSize, kSize),
                          job.slice(0, 1, 0), Line{{sent + 1}});
      REQUIRE(put.ok());
      taken = *put;
      if (taken == PutResult::kDone) ++sent;
    }
    link.end_batch();
    check_ok(link.poll(&completed));
    check_ok(job.link(1, 0).poll(&completed));
  }
  auto all_are_there = [&] { return counter_of(job.window(1).line(0)) == kPuts; };
  check_ok(await_until(all_are_there, {&link, &job.link(1, 0)}));
  CHECK(std::memcmp(job.window(1).at(kData), source.data(), source.size()) == 0);
}

TEMPLATE_LIST_TEST_CASE("abort wakes the sleeper, and the peer's, and both know", "", Implementations) {
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  Status statuses[2];
  std::thread sleepers[2];
  for (int rank : {0, 1}) {
    sleepers[rank] = std::thread([&, rank] { statuses[rank] = sleep_once(job.link(rank, 1 - rank)); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  bool mappable = job.link(1, 0).traits().mappable;
  CHECK(job.link(0, 1).peer_cpu() == -1);
  job.link(1, 0).tell_cpu(3);
  CHECK(job.link(0, 1).peer_cpu() == (mappable ? 3 : -1));
  CHECK(job.link(1, 0).begin_access());
  CHECK(job.link(1, 0).begin_access());
  CHECK(job.link(1, 0).end_access());
  CHECK(job.link(0, 1).is_accessed() == mappable);
  job.link(0, 1).abort();
  CHECK(job.link(1, 0).end_access() == !mappable);
  CHECK(job.link(1, 0).begin_access() == !mappable);
  CHECK_FALSE(job.link(0, 1).is_accessed());
  job.link(0, 1).abort();
  for (auto& sleeper : sleepers) sleeper.join();
  CHECK(statuses[0].code() == Code::kAborted);
  CHECK(statuses[1].code() == Code::kRemote);
  CHECK(statuses[1].place().peer == 0);
  CHECK(statuses[1].message().find("rank 0") != std::string::npos);
  // Sticky, everywhere.
  uint64_t completed = 0;
  for (int rank : {0, 1}) {
    Link& link = job.link(rank, 1 - rank);
    CHECK(link.poll(&completed).message() == statuses[rank].message());
    CHECK(link.signal(job.slice(rank, 1 - rank, 0), Line{{1}}).status().message() == statuses[rank].message());
    CHECK(link.put({}, {}, job.slice(rank, 1 - rank, 0), Line{{1}}).status().message() == statuses[rank].message());
    CHECK(link.share(*job.window(rank).exported).message() == statuses[rank].message());
  }
}

TEMPLATE_LIST_TEST_CASE("a peer that leaves is an error that names it", "", Implementations) {
  Job job(TestType::make(), 2, 4096);
  check_ok(job.status());
  check_ok(signal(job.link(0, 1), job.slice(0, 1, 0), Line{{5}}));
  job.node(0).links[1].reset();
  // What was sent before is still delivered.
  Status status = await(job.link(1, 0), job.window(1).line(0), 5);
  check_ok(status);
  Status gone = await_until([] { return false; }, {&job.link(1, 0)});
  CHECK(gone.code() == Code::kRemote);
  CHECK(gone.place().peer == 0);
}

TEMPLATE_LIST_TEST_CASE("connect gives up at its deadline and names the peer", "", Implementations) {
  auto factory = TestType::make();
  Node a(factory, 0, 2, 77), b(factory, 1, 2, 77);
  check_ok(a.listen());
  check_ok(b.listen());
  Node& caller = GENERATE(0, 1) == 0 ? a : b;
  Node& other = &caller == &a ? b : a;
  Status status = caller.connect(other.rank, other.transport->address(), Deadline::after_ms(100));
  CHECK(status.code() == Code::kTimeout);
  CHECK(status.place().peer == other.rank);
}

TEMPLATE_LIST_TEST_CASE("abort ends a connect that waits", "", Implementations) {
  auto factory = TestType::make();
  Node a(factory, 0, 2, 78), b(factory, 1, 2, 78);
  check_ok(a.listen());
  check_ok(b.listen());
  Node& caller = GENERATE(0, 1) == 0 ? a : b;
  Node& other = &caller == &a ? b : a;
  caller.links[other.rank] = caller.transport->open(other.rank);
  Blob address = other.transport->address();
  Status status;
  std::thread connecting([&] { status = connect(caller.link(other.rank), address, Deadline::after_ms(kPatienceMs)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  caller.link(other.rank).abort();
  connecting.join();
  CHECK(status.code() == Code::kAborted);
}

TEMPLATE_LIST_TEST_CASE("a wrong token does not join", "", Implementations) {
  auto factory = TestType::make();
  Node a(factory, 0, 2, 79, 1), b(factory, 1, 2, 79, 2);
  check_ok(a.listen());
  check_ok(b.listen());
  auto statuses = connect_ranks({&a, &b}, Deadline::after_ms(500));
  CHECK(!statuses[0].ok());
  CHECK(!statuses[1].ok());
}

TEMPLATE_LIST_TEST_CASE("jobs side by side do not meet", "", Implementations) {
  auto factory = TestType::make();
  std::vector<std::unique_ptr<Node>> nodes;
  for (uint64_t number : {501, 502}) {
    for (int rank : {0, 1}) {
      nodes.push_back(std::make_unique<Node>(factory, rank, 2, number));
      check_ok(nodes.back()->listen());
    }
  }
  auto statuses = on_threads(4, [&](int i) {
    int peer = i ^ 1;
    return nodes[i]->connect(nodes[peer]->rank, nodes[peer]->transport->address(), Deadline::after_ms(kPatienceMs));
  });
  check_all_ok(statuses);
}

}  // namespace tutti::test
