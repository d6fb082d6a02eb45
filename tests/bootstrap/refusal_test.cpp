// Everything that goes wrong before all ranks have joined: each time one sentence, on every rank, within the deadline.
#include <catch2/catch.hpp>

#include <sys/socket.h>

#include <list>

#include "bootstrap/dialer.h"
#include "bootstrap/meeting_server.h"
#include "bootstrap/ranks.h"
#include "bootstrap/sockets.h"

namespace tutti::bootstrap {
namespace {

struct Attempt {
  int rank;
  int nranks;
  JoinOptions options;
  UniqueId id;
};

// Joins with all attempts at once; what each was told, "" when it joined.
std::vector<std::string> try_all(const std::vector<Attempt>& attempts, int64_t timeout_ms) {
  return on_ranks<std::string>(static_cast<int>(attempts.size()), [&](int i) {
    const Attempt& attempt = attempts[static_cast<size_t>(i)];
    auto joined =
        join(info_of(attempt.rank, attempt.nranks, attempt.id), {}, attempt.options, Deadline::after_ms(timeout_ms));
    return std::string(joined.status().message());
  });
}

std::unique_ptr<Rendezvous> local_server() { return std::move(Rendezvous::create({})).value(); }
std::unique_ptr<Rendezvous> network_server() { return std::move(Rendezvous::create({"", false, true, {}})).value(); }

void check_all_contain(const std::vector<std::string>& told, const std::string& text) {
  for (const std::string& sentence : told) CHECK_THAT(sentence, Catch::Contains(text));
}

// Connections to the meeting point that are no ranks.
std::vector<Fd> strangers(const UniqueId& id, const std::string& words, int count) {
  std::vector<Fd> fds;
  for (int i = 0; i < count; ++i) {
    fds.push_back(std::move(start_connect(id.addresses.empty() ? id.unix_endpoint() : id.addresses.front())).value());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)::send(fds.back().get(), words.data(), words.size(), MSG_NOSIGNAL);
  }
  return fds;
}

TEST_CASE("missing ranks are named on every rank at the deadline") {
  auto server = local_server();
  auto told = try_all({{0, 5, {}, server->id()}, {1, 5, {}, server->id()}, {4, 5, {}, server->id()}}, 400);
  check_all_contain(told, "ranks 2, 3 of 5 have not joined after ");
}

TEST_CASE("missing ranks are named where rank 0 is the meeting point") {
  UniqueId id = fresh_id(UniqueId::Kind::kLocal);
  auto told = try_all({{0, 3, {}, id}, {2, 3, {}, id}}, 400);
  check_all_contain(told, "rank 1 of 3 has not joined");
}

TEST_CASE("without rank 0 the others say that it cannot be reached") {
  UniqueId id = fresh_id(UniqueId::Kind::kLocal);
  check_all_contain(try_all({{1, 3, {}, id}, {2, 3, {}, id}}, 300), "rank 0 cannot be reached at unix:@tutti-");
}

TEST_CASE("an id whose maker has ended is refused at once") {
  UniqueId id = local_server()->id();
  check_all_contain(try_all({{0, 2, {}, id}}, 60'000), "nobody of this job listens");
}

TEST_CASE("two processes with one rank are both named to everyone, also to a rank that comes later") {
  auto server = local_server();
  std::vector<Attempt> attempts{{2, 4, {}, server->id()}, {2, 4, {}, server->id()}, {1, 4, {}, server->id()}};
  auto told = try_all(attempts, 20'000);
  check_all_contain(told, "two processes claim rank 2: pid ");
  check_all_contain(try_all({{3, 4, {}, server->id()}}, 20'000), "two processes claim rank 2: pid ");
}

TEST_CASE("different numbers of ranks are named with both ranks") {
  auto server = local_server();
  auto told = try_all({{0, 4, {}, server->id()}, {3, 8, {}, server->id()}}, 20'000);
  check_all_contain(told, "start all with the same number");
  check_all_contain(told, "with 4");
}

TEST_CASE("a rank of another version is named to everyone") {
  auto server = local_server();
  JoinOptions old;
  old.version = 99;
  auto told = try_all({{0, 3, {}, server->id()}, {1, 3, old, server->id()}}, 20'000);
  check_all_contain(told, "speaks version 99 of the meeting protocol, this job speaks " + std::to_string(kWireVersion));
}

TEST_CASE("a wrong secret is told to the process that has it, and the others hear why a rank is missing") {
  for (bool network : {false, true}) {
    INFO("network " << network);
    auto server = network ? network_server() : local_server();
    UniqueId wrong = server->id();
    wrong.secret[5] ^= std::byte{1};
    auto options = [&](int rank) { return network ? on_own_host(rank) : JoinOptions(); };
    auto told = try_all({{0, 2, options(0), server->id()}, {1, 2, options(1), wrong}}, 1'500);
    CHECK_THAT(told[0], Catch::Contains("rank 1 of 2 has not joined") && Catch::Contains("wrong secret"));
    CHECK(told[1].ends_with("the secret of this process is not the job's: check TUTTI_SECRET_FILE"));
  }
}

TEST_CASE("a rank that ends while it joins is named to the others") {
  auto server = local_server();
  Hello hello;
  hello.rank = 1;
  hello.nranks = 3;
  hello.pid = 4242;
  hello.timeout_ms = 20'000;
  hello.secret_check = server->id().secret_check();
  std::thread ends([&] {
    Dialer dialer({server->id().unix_endpoint()}, nullptr, "root",
                  Frame{static_cast<uint32_t>(MessageType::kHello), encode(hello)});
    while (!dialer.advance()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  auto told = try_all({{0, 3, {}, server->id()}}, 20'000);
  ends.join();
  CHECK_THAT(told[0], Catch::Contains("rank 1 (pid 4242 on ") && Catch::Contains("ended before all ranks had joined"));
}

TEST_CASE("garbage, port scans and half-open connections neither join nor disturb") {
  for (bool network : {false, true}) {
    INFO("network " << network);
    auto server = network ? network_server() : local_server();
    UniqueId id = server->id();
    if (!network) id.addresses.clear();
    std::vector<Fd> silent = strangers(id, "", 20);
    std::vector<Fd> noise = strangers(id, std::string(3'000, '\xff'), 20);
    std::vector<Fd> http = strangers(id, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 20);
    strangers(id, "SSH-2.0-x\r\n", 20);  // closed at once
    auto options = [&](int rank) { return network ? on_own_host(rank) : JoinOptions(); };
    auto told = try_all({{0, 3, options(0), id}, {1, 3, options(1), id}, {2, 3, options(2), id}}, 20'000);
    CHECK(told == std::vector<std::string>(3));
  }
}

TEST_CASE("more strangers than the meeting point keeps do not keep ranks out") {
  auto server = local_server();
  UniqueId id = server->id();
  id.addresses.clear();
  std::vector<Fd> silent = strangers(id, "", 400);
  CHECK(try_all({{0, 2, {}, id}, {1, 2, {}, id}}, 20'000) == std::vector<std::string>(2));
}

TEST_CASE("ranks that have all said hello before the meeting point looks are not taken for strangers") {
  UniqueId id = fresh_id(UniqueId::Kind::kLocal);
  std::vector<Listener> listeners;
  listeners.push_back(std::move(listen_unix(id.unix_endpoint().name)).value());
  auto server = std::move(MeetingServer::create(id, std::move(listeners))).value();
  Hello hello;
  hello.nranks = 300;
  hello.timeout_ms = 20'000;
  hello.secret_check = id.secret_check();
  std::list<Dialer> ranks;
  for (; hello.rank < hello.nranks; ++hello.rank) {
    ranks.emplace_back(std::vector{id.unix_endpoint()}, nullptr, "root",
                       Frame{static_cast<uint32_t>(MessageType::kHello), encode(hello)});
    REQUIRE(ranks.back().advance());
  }
  std::thread serving([&] { server->run(); });
  int answered = 0, ended = 0;
  for (Dialer& rank : ranks) {
    Deadline deadline = Deadline::after_ms(20'000);
    std::optional<Frame> answer;
    while (!(answer = rank.answer()) && rank.rounds() == 0 && !deadline.passed()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    answered += answer && answer->type == static_cast<uint32_t>(MessageType::kNeighbours);
    ended += rank.rounds();
  }
  server->stop();
  serving.join();
  CHECK(answered == 300);
  CHECK(ended == 0);
}

TEST_CASE("a port in use is one sentence with the remedy") {
  Listener taken = listen_tcp(0, "test").value();
  UniqueId id = fresh_id(UniqueId::Kind::kRankZero);
  id.addresses = {Endpoint::ip("127.0.0.1", taken.endpoint.port).value()};
  auto told = try_all({{0, 2, {}, id}}, 2'000);
  CHECK_THAT(told[0], Catch::Contains(fmt::format("port {} is in use", taken.endpoint.port)) &&
                          Catch::Contains("TUTTI_ADDRESS"));
}

TEST_CASE("something else that listens at the address is not taken for rank 0") {
  Listener other = listen_tcp(0, "test").value();
  UniqueId id = fresh_id(UniqueId::Kind::kRankZero);
  id.addresses = {Endpoint::ip("127.0.0.1", other.endpoint.port).value()};
  std::thread speaks([&] {
    Deadline deadline = Deadline::after_ms(1'500);
    while (!deadline.passed()) {
      if (auto accepted = accept_one(other)) (void)::send(accepted->fd.get(), "220 smtp ready\r\n", 16, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  auto told = try_all({{1, 2, on_own_host(1), id}}, 1'000);
  speaks.join();
  CHECK_THAT(told[0], Catch::Contains("127.0.0.1"));
}

TEST_CASE("an id serves one communicator after another") {
  for (UniqueId::Kind kind : {UniqueId::Kind::kServed, UniqueId::Kind::kLocal}) {
    auto server = local_server();
    UniqueId id = kind == UniqueId::Kind::kServed ? server->id() : fresh_id(kind);
    auto told = on_ranks<std::string>(3, [&](int rank) {
      uint64_t last_job = 0;
      for (int round = 0; round < 20; ++round) {
        auto joined = join(info_of(rank, 3, id), {}, {}, Deadline::after_ms(20'000));
        if (!joined.ok()) return fmt::format("round {}: {}", round, joined.status().message());
        if (joined->job == last_job) return std::string("the same job number twice");
        last_job = joined->job;
      }
      return std::string();
    });
    CHECK(told == std::vector<std::string>(3));
  }
}

TEST_CASE("an impossible rank is an argument error") {
  UniqueId id = fresh_id(UniqueId::Kind::kLocal);
  check_all_contain(try_all({{4, 4, {}, id}, {-1, 4, {}, id}, {0, 0, {}, id}}, 1'000), "is not possible");
}

TEST_CASE("all_gather names the rank that does not come") {
  UniqueId id = fresh_id(UniqueId::Kind::kLocal);
  std::atomic<int> done{0};
  auto told = on_ranks<std::string>(6, [&](int rank) {
    auto plane = join_control_plane(info_of(rank, 6, id), {}, {}, Deadline::after_ms(20'000));
    if (!plane.ok()) return std::string(plane.status().message());
    if (rank == 3) {
      while (done < 5) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return std::string();
    }
    auto parts = (*plane)->all_gather(as_bytes("x"), "topology", Deadline::after_ms(300));
    ++done;
    while (done < 5) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return std::string(parts.status().message());
  });
  for (int rank : {0, 1, 2, 4, 5})
    CHECK_THAT(told[static_cast<size_t>(rank)], Catch::Contains("waiting for the topology of rank 3:"));
}

}  // namespace
}  // namespace tutti::bootstrap
